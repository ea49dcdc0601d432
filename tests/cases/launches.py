"""Runs as the cases need them."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from persistence import Claim, Store
from statemachine import Run

LEASE = timedelta(seconds=30)
MILLISECOND = timedelta(milliseconds=1)


def queue(
    store: Store,
    run_id: str = "r",
    *,
    session: str | None = None,
    max_attempts: int | None = None,
    available_at: datetime | None = None,
    pinned_to: str | None = None,
    pinned_until: datetime | None = None,
    parent: str | None = None,
) -> Run:
    """Reserve a run of little consequence; with a session it is interactive."""
    return store.runs.reserve(
        run_id=run_id,
        workflow="demo",
        source_ref="demo.py",
        source={"of": "demo"},
        definition_digest="sha256:0",
        origin_session_id=session,
        max_attempts=max_attempts,
        available_at=available_at,
        affinity_runner_id=pinned_to,
        affinity_until=pinned_until,
        parent_run_id=parent,
    )


def take(store: Store, run_id: str = "r", by: str = "w", lease: timedelta = LEASE) -> Claim:
    """Claim a run that is free."""
    claim = store.runs.claim(run_id, runner_id=by, lease=lease)
    assert isinstance(claim, Claim)
    return claim


def start(store: Store, run_id: str = "r", by: str = "w", lease: timedelta = LEASE) -> Claim:
    """Claim a run that is free, and say that it runs."""
    claim = take(store, run_id, by, lease)
    assert store.runs.mark_running(claim)
    return claim


def forged(run: Run) -> Claim:
    """Return the claim of one who saw the run but never took it: another token."""
    return Claim(run, secrets.token_bytes(32))


def stored(store: Store, run_id: str = "r") -> Run:
    """Return a run that exists."""
    run = store.runs.get(run_id)
    assert run is not None
    return run


def steps(store: Store, run_id: str = "r") -> list[str]:
    """Return what history knows of a run, by name."""
    return [event.transition for event in store.runs.history(run_id)]
