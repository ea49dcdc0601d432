"""Cases of the kind wake-up: a run that waits for another. WAK-01: `tests/test_contention.py`.

A run names no other that it waits for; whoever ends the one wakes the other.
"""

from __future__ import annotations

from persistence import ManualClock, Store
from statemachine import Reason, Refused
from tests.cases.launches import LEASE, queue, start, steps, stored


def test_wak_03_woken_once_when_it_is_done(store: Store, clock: ManualClock) -> None:
    """WAK-03: whatever way another run takes, it stays parked until it is woken, and is woken once.

    Neither a claim of the next run, nor a sweep, nor time lets it go on before.
    """
    queue(store, "parent")
    store.runs.park(start(store, "parent"), waiting=True)
    queue(store, "child", max_attempts=9)

    def untouched() -> bool:
        store.runs.reap_due()
        return stored(store, "parent").waiting and steps(store, "parent")[-1] == "park"

    assert store.runs.park(start(store, "child"))
    assert untouched()
    start(store, "child")
    clock.advance(LEASE)
    assert untouched()
    for _ in range(2):
        claim = store.runs.claim_next("w", LEASE)
        assert claim
        assert claim.run_id == "child"
        assert untouched()
        assert store.runs.park(claim)
    assert store.runs.finish(start(store, "child"))
    assert untouched()

    first, second = store.runs.wake("parent"), store.runs.wake("parent")

    assert first
    assert isinstance(second, Refused)
    assert (second.reason, second.guard) == (Reason.GUARD, "waiting")
    assert steps(store, "parent").count("wake") == 1
    taken = store.runs.claim_next("w", LEASE)
    assert taken
    assert taken.run_id == "parent"
