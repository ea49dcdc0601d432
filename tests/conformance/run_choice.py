"""Which run `claim_next` must take, said once more and plainly, over rows in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from statemachine.machines import ExecutionMode, HolderKind, Run, RunStatus

RESERVING = (RunStatus.QUEUED, RunStatus.STARTING, RunStatus.RUNNING)
BEGUN = (RunStatus.STARTING, RunStatus.RUNNING)
READY = (RunStatus.QUEUED, RunStatus.PARKED)


def choice(
    runs: Collection[Run],
    now: datetime,
    *,
    runner: str,
    session: str | None,
    exclude: Sequence[str] = (),
) -> str | None:
    """Return the id of the run that is next: own affinity, expired leases, the oldest waiting."""
    takeable = [
        run
        for run in runs
        if run.run_id not in exclude
        and _takes(run, session)
        and _free(run, now)
        and not _reserved_by_another(run, runs)
    ]
    ranked = sorted(takeable, key=lambda run: _rank(run, runner))
    return ranked[0].run_id if ranked else None


def _rank(run: Run, runner: str) -> tuple[object, ...]:
    of_others = run.affinity_runner_id != runner
    if run.status in BEGUN:
        return (of_others, 0, run.lease_expires_at, run.run_id)
    return (of_others, 1, run.available_at, run.created_at, run.run_id)


def _takes(run: Run, session: str | None) -> bool:
    interactive = run.execution_mode is ExecutionMode.INTERACTIVE
    if session is not None:
        return interactive and run.origin_session_id == session
    left_by_host = run.status is RunStatus.STARTING and run.lease_holder_kind is HolderKind.HOST
    return not interactive or left_by_host or run.status in (RunStatus.PARKED, RunStatus.RUNNING)


def _free(run: Run, now: datetime) -> bool:
    if run.status in BEGUN:
        return run.lease_expires_at is not None and run.lease_expires_at <= now
    return run.status in READY and run.available_at <= now


def _reserved_by_another(run: Run, runs: Collection[Run]) -> bool:
    return any(blocks(other, run) for other in runs)


def blocks(other: Run, run: Run) -> bool:
    """Tell whether another run holds the reservation that this one would need."""
    return (
        other.run_id != run.run_id
        and ExecutionMode.INTERACTIVE is other.execution_mode is run.execution_mode
        and other.origin_session_id == run.origin_session_id
        and other.status in RESERVING
    )
