"""What is attacked with raw SQL: a run in every state; and how attacks are spelled."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from persistence import Claim, Store
from statemachine.machines import RUN_LAUNCH
from tests.conftest import Capabilities
from tests.raw import Raw, literal

LEASE = timedelta(seconds=30)
NOW = 1_893_456_000_000
HUGE = 2**63 - 1
STATES = RUN_LAUNCH.states


def scene(store: Store, database: str, capabilities: Capabilities) -> Raw:
    """Make a run in every state, a session that has a reservation, and a host's event."""
    runs = store.runs

    def reserve(run_id: str, session: str | None = None, parent: str | None = None) -> None:
        runs.reserve(
            run_id=run_id,
            workflow="w",
            source_ref="ref",
            source={"ref": "ref"},
            definition_digest="digest",
            input={"secret": "input"},
            launch_options={"some": "option"},
            origin_session_id=session,
            parent_run_id=parent,
        )

    def claim(run_id: str) -> Claim:
        claim = runs.claim(run_id, runner_id="runner", lease=LEASE)
        assert isinstance(claim, Claim)
        return claim

    reserve("parked")
    assert runs.park(claim("parked"), waiting=True)
    reserve("aside", "session")
    assert runs.park(claim("aside"))
    reserve("done")
    assert runs.finish(claim("done"), outcome="checkpointed", result={"some": "result"})
    reserve("failed")
    assert runs.fail(claim("failed"), error_code="code", error_message="message")
    reserve("cancelled")
    assert runs.cancel("cancelled")
    reserve("running", "session")
    assert runs.mark_running(claim("running"))
    assert runs.request_cancel("running")
    reserve("starting")
    claim("starting")
    reserve("queued", parent="done")
    reserve("elsewhere", "other session")
    assert runs.append_event("queued", type="noted", payload={"some": "payload"})
    return Raw(store, database, capabilities)


def slipped(raw: Raw, attacks: Iterable[str]) -> list[str]:
    """Return the attacks that were not refused, or that changed something, each with its way."""
    attacks = list(attacks)
    before = raw.content()
    found = [f"driver: {sql}" for sql in attacks if raw.refusal(sql) is None]
    if raw.content() != before:
        found.append("driver: changed something")
    elif raw.capabilities.reopens:
        refused = raw.program_refusals(attacks)
        found += [f"program: {sql}" for sql, so in zip(attacks, refused, strict=True) if not so]
        if raw.content() != before:
            found.append("program: changed something")
    return found


def changed(raw: Raw, attacks: Iterable[str]) -> list[str]:
    """Return the attacks that changed something, refused or not."""
    attacks = list(attacks)
    before = raw.content()
    found = []
    for sql in attacks:
        raw.refusal(sql)
        if raw.content() != before:
            found.append(f"driver: {sql}")
            break
    else:
        if raw.capabilities.reopens:
            raw.program_refusals(attacks)
        if raw.content() != before:
            found.append("program: changed something")
    return found


def update(key: str, verb: str = "UPDATE", /, **values: object) -> str:
    """Return an UPDATE of one run."""
    written = ", ".join(f"{name} = {_value(value)}" for name, value in values.items())
    return f"{verb} runs SET {written} WHERE run_id = '{key}'"


def step(key: str, transition: str, verb: str = "UPDATE", /, **values: object) -> str:
    """Return an UPDATE that says it were a transition."""
    return update(
        key,
        verb,
        revision=SQL("revision + 1"),
        last_transition=transition,
        last_call=f"raw {transition}",
        **values,
    )


class SQL(str):
    """Text that is an expression, not a constant."""

    __slots__ = ()


def _value(value: object) -> str:
    return str(value) if isinstance(value, SQL) else literal(value)


VERBS = ("UPDATE OR REPLACE", "UPDATE OR IGNORE", "UPDATE OR FAIL", "UPDATE OR ROLLBACK")


def verbs(capabilities: Capabilities) -> tuple[str, ...]:
    """Return the spellings of UPDATE; conflict clauses are SQLite's own."""
    return ("UPDATE",) if capabilities.server_clock else ("UPDATE", *VERBS)


def drop() -> dict[str, object]:
    """Return what dropping a lease writes."""
    lease = RUN_LAUNCH.lease
    assert lease is not None
    kept = (lease.generation,)
    columns = (
        lease.holder, lease.holder_kind, lease.token_hash, lease.generation, lease.acquired_at,
        lease.heartbeat_at, lease.expires_at,
    )  # fmt: skip
    return {column.name: None for column in columns if column not in kept}


def take() -> dict[str, object]:
    """Return what taking a lease writes."""
    return {
        "lease_holder": "thief",
        "lease_holder_kind": "host",
        "lease_token_hash": "f" * 64,
        "lease_generation": SQL("lease_generation + 1"),
        "lease_acquired_at": NOW,
        "lease_heartbeat_at": NOW,
        "lease_expires_at": NOW + 1,
    }


def end() -> dict[str, object]:
    """Return what ending a run writes."""
    return {**drop(), "finished_at": NOW, "input": "null", "launch_options": "{}"}


def new(raw: Raw, run_id: str = "new", /, **values: object) -> dict[str, Any]:
    """Return a row that a creation could have made, but for some values."""
    queued = raw.row("runs", "run_id", "elsewhere")
    fresh = {
        "run_id": run_id, "origin_session_id": None, "execution_mode": "headless",
        "parent_run_id": None, "last_call": f"raw {run_id}",
    }  # fmt: skip
    return {**queued, **fresh, **values}


def born(raw: Raw, run_id: str = "new", /, **values: object) -> dict[str, Any]:
    """Return a row that `enqueue` could have made, but for some values."""
    leased = {**take(), "lease_generation": 1}
    started = {"status": "starting", "attempts": 1, "started_at": NOW}
    return new(raw, run_id, last_transition="enqueue", **{**leased, **started, **values})
