"""Cases of the kind retry-accounting: attempts are claims, and a lost one counts."""

from __future__ import annotations

from persistence import ManualClock, Store
from statemachine import Refused
from tests.cases.launches import LEASE, queue, start, stored


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
