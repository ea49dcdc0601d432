"""Which claims a worker takes together: only such as lose nothing when the worker is killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemachine.machines.run_launch import ExecutionMode, Run

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

    from persistence import Claim, Store


class _NotTogether(Exception):
    """Undoes a batch that would have held a run which is to be taken alone."""


def may_be_together(run: Run) -> bool:
    """Tell whether a claimed run may be one of a batch.

    A worker that dies uses up an attempt of each run that it has taken, begun or not. So a run is
    taken alone where that could end it as lost, and where it was lost before: it may be what kills
    its workers. An interactive run is taken alone for its session, which waits for its end.
    """
    headless = run.execution_mode is ExecutionMode.HEADLESS
    return headless and run.attempts == 1 and run.max_attempts != 1


def take_more(
    store: Store, runner_id: str, lease: timedelta, *, limit: int, exclude: Collection[str]
) -> list[Claim] | None:
    """Take up to `limit` runs in one transaction; none at all, where one is to be taken alone.

    Returns:
        The claims; None where the batch was undone.
    """
    try:
        with store.transaction():
            claims = store.runs.claim_many(runner_id, lease, limit=limit, exclude=exclude)
            if not all(may_be_together(claim.run) for claim in claims):
                raise _NotTogether  # noqa: TRY301 - it has to leave the transaction
    except _NotTogether:
        return None
    return claims
