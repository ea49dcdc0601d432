"""Why an open run does not go on, in a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemachine.machines.run_launch import (
    CLAIMED,
    FINAL,
    SOURCE_CHANGED,
    ExecutionMode,
    Run,
    RunStatus,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


def why_stuck(run: Run, now: datetime, reservation: Callable[[str], Run | None]) -> str:
    """Return what keeps the run from going on; empty where nothing does.

    Args:
        run: Any run.

        now: The store's present instant.

        reservation: Finds the run that holds a session's reservation.
    """
    if run.status in FINAL:
        return ""
    if run.cancel_requested_at is not None:
        return "cancellation requested"
    if _claimed(run) and not _expired(run, now):
        return ""
    reasons = (
        "paused" if run.paused else "",
        "waiting" if run.waiting else "",
        "source changed" if run.error_code == SOURCE_CHANGED else "",
        "attempts used up" if _worn_out(run) else "",
        _blocked(run, reservation),
        "lease ran out" if _claimed(run) else "",
        "not yet due" if run.available_at > now else "",
        "held for control" if not _claimed(run) and _leased(run, now) else "",
    )
    return next((reason for reason in reasons if reason), "")


def _claimed(run: Run) -> bool:
    return run.status in CLAIMED


def _leased(run: Run, now: datetime) -> bool:
    return run.lease_expires_at is not None and run.lease_expires_at > now


def _expired(run: Run, now: datetime) -> bool:
    return run.lease_expires_at is not None and run.lease_expires_at <= now


def _worn_out(run: Run) -> bool:
    return run.max_attempts is not None and run.attempts >= run.max_attempts


def _blocked(run: Run, reservation: Callable[[str], Run | None]) -> str:
    """Name the run whose reservation a parked interactive run would have to wait for."""
    if run.status is not RunStatus.PARKED or run.execution_mode is not ExecutionMode.INTERACTIVE:
        return ""
    holder = reservation(run.origin_session_id or "")
    return f"blocked by {holder.run_id}" if holder is not None else ""
