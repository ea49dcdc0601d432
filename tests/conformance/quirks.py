"""What the tests of the recorded weaknesses have in common."""

from __future__ import annotations

from datetime import timedelta

from persistence import Store
from statemachine import Refused, Run
from tests.cases.launches import queue, start

DAY = timedelta(days=1)


def parked(store: Store, run_id: str, session: str | None = None) -> Run:
    """Return a run that was started once and laid aside."""
    queue(store, run_id, session=session)
    run = store.runs.park(start(store, run_id))
    assert isinstance(run, Run)
    return run


def refused(outcome: object) -> Refused:
    """Return a refusal."""
    assert isinstance(outcome, Refused)
    return outcome
