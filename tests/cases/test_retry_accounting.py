"""Cases of the kind retry-accounting: attempts are claims, and a lost one counts.

RTY-03: a run that failed is not tried again here, a new launch is a new run. Its hazard, what an
earlier life leaves on the row, is tried where a run is begun anew: after `requeue`, and after a
park for a changed source.
"""

from __future__ import annotations

from datetime import timedelta

from persistence import Claim, ManualClock, Store
from statemachine import Reason, Refused, Run
from tests.cases.launches import LEASE, queue, start, steps, stored, take


def test_rty_01_five_losses(store: Store, clock: ManualClock) -> None:
    """RTY-01: a run of five attempts whose five holders all died has failed as lost."""
    queue(store, max_attempts=5)

    for attempt in range(1, 6):
        assert start(store).run.attempts == attempt
        clock.advance(LEASE)
        reaped = store.runs.reap_due()
        assert [r.status for r in reaped] == (["failed"] if attempt == 5 else [])

    run = stored(store)
    assert (run.status, run.error_code, run.attempts) == ("failed", "lost", 5)
    assert isinstance(store.runs.claim("r", runner_id="w", lease=LEASE), Refused)
    assert isinstance(store.runs.claim_next("w", LEASE), Refused)
    assert stored(store) == run


def test_rty_01_no_sixth_claim_before_the_sweep(store: Store, clock: ManualClock) -> None:
    """RTY-01: nor is there a sixth claim before anybody sweeps."""
    queue(store, max_attempts=5)
    for _ in range(5):
        start(store)
        clock.advance(LEASE)

    sixth = store.runs.claim("r", runner_id="w", lease=LEASE)

    assert isinstance(sixth, Refused)
    assert sixth.guard == "attempts left"
    assert isinstance(store.runs.claim_next("w", LEASE), Refused)


def test_rty_03_a_failed_run_stays_failed(store: Store, clock: ManualClock) -> None:
    """RTY-03: nothing brings it back; a new launch that names it begins with nothing of it."""
    queue(store, max_attempts=1)
    start(store)
    clock.advance(LEASE)
    (lost,) = store.runs.reap_due()
    clock.advance(timedelta(hours=1))

    back = [
        store.runs.requeue("r"),
        store.runs.wake("r"),
        store.runs.claim("r", runner_id="w", lease=LEASE),
        store.runs.claim_next("w", LEASE),
    ]
    again = queue(store, "r.2", max_attempts=1)

    assert [o.reason for o in back if isinstance(o, Refused)] == [Reason.STATE] * 3 + [
        Reason.NOTHING
    ]
    assert stored(store) == lost
    assert (again.attempts, again.started_at, again.finished_at) == (0, None, None)
    assert (again.error_code, again.lease_generation) == (None, 0)


def test_rty_03_a_requeued_launch_begins_anew(store: Store, clock: ManualClock) -> None:
    """RTY-03: another token and lease; the attempt counts on, the sweep leaves it alone."""
    queue(store, max_attempts=2)
    first = take(store, by="dead")
    clock.advance(LEASE)

    assert store.runs.requeue("r")
    queued = stored(store)
    second = start(store, by="heir")
    clock.advance(timedelta(seconds=1))
    swept = store.runs.reap_due()
    done = store.runs.finish(second)

    assert (queued.status, queued.lease_holder, queued.lease_expires_at) == ("queued", None, None)
    assert (queued.attempts, queued.lease_generation) == (1, 2)
    assert second.token != first.token
    assert (second.generation, second.run.attempts) == (3, 2)
    assert second.run.started_at == first.run.started_at
    assert swept == []
    assert isinstance(done, Run)
    assert steps(store) == ["reserve", "claim", "requeue", "claim", "mark_running", "finish"]


def test_rty_03_an_old_error_goes_with_the_next_claim(store: Store, clock: ManualClock) -> None:
    """RTY-03: what stood in the way before is cleared, and stays in the history."""
    queue(store)
    parked = store.runs.park_source_changed(
        start(store), error_message="it changed", status_detail="by 3 lines"
    )
    assert isinstance(parked, Run)
    clock.advance(timedelta(hours=1))

    claim = take(store, by="heir")

    assert isinstance(claim, Claim)
    assert parked.error_code == "workflowSourceChanged"
    run = claim.run
    assert (run.error_code, run.error_message, run.status_detail) == (None, None, None)
    assert (run.attempts, run.finished_at, run.lease_acquired_at) == (1, None, clock.now())
    (told,) = [e for e in store.runs.history("r") if e.transition == "park_source_changed"]
    assert (told.changes["error_code"], told.changes["error_message"]) == (
        "workflowSourceChanged",
        "it changed",
    )
