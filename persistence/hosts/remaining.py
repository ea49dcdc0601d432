"""What a worker that is to stop when the queue is empty still has to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemachine.machines import ExecutionMode, HolderKind, Run
from statemachine.machines.run_launch import CLAIMED, SOURCE_CHANGED, WAITING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from persistence import Store

_LOOKED_AT = 1_000


def remains(store: Store, serves: Callable[[Run], bool], *, within: timedelta) -> bool:
    """Tell whether a host may yet get a run that it serves.

    That is: one that somebody else holds and may lose, or one that falls due soon. Paused and
    waiting runs, runs pinned to another runner, runs whose source changed and interactive runs of
    living sessions do not count.
    Only the oldest 1,000 of each kind are looked at.

    Args:
        store: Where to look.

        serves: Whether the host would take such a run.

        within: How soon is soon.
    """
    now = store.clock.now()
    claimed = store.runs.list(statuses=CLAIMED, limit=_LOOKED_AT)
    if any(serves(run) and _may_fall_free(run, now) for run in claimed):
        return True
    waiting = store.runs.list(statuses=WAITING, limit=_LOOKED_AT)
    return any(serves(run) and _falls_due(run, now + within) for run in waiting)


def _may_fall_free(run: Run, now: datetime) -> bool:
    if not _headless(run) and run.lease_holder_kind is not HolderKind.HOST:
        return False
    if run.lease_expires_at is not None and run.lease_expires_at > now:
        return True
    return not run.paused or run.cancel_requested_at is not None


def _falls_due(run: Run, by: datetime) -> bool:
    return (
        _headless(run)
        and not run.paused
        and not run.waiting
        and run.error_code != SOURCE_CHANGED
        and run.available_at <= by
        and (run.affinity_until is None or run.affinity_until <= by)
    )


def _headless(run: Run) -> bool:
    return run.execution_mode is ExecutionMode.HEADLESS
