"""Cases of the kind heartbeat.

HBT-01 stands in tests/hosts/test_keeper.py, HBT-03 in tests/hosts/test_worker.py.
"""

from __future__ import annotations

from persistence import Claim, ManualClock, Store
from statemachine import Refused
from tests.cases.launches import LEASE, queue, stored, take


def test_hbt_05_start_lapsed_in_the_queue(store: Store, clock: ManualClock) -> None:
    """HBT-05: a claim that lapsed before its slot was free does not start what another took.

    An attempt is a claim: one that never started counts until the run is requeued or parked.
    """
    for name in ("r1", "r2", "r3"):
        queue(store, name, max_attempts=3)
    claims = store.runs.claim_many("slow", LEASE, limit=3)
    assert store.runs.mark_running(claims[0])
    clock.advance(LEASE)

    heir = take(store, "r3", by="quick")
    late = store.runs.mark_running(claims[2])

    assert isinstance(heir, Claim)
    assert isinstance(late, Refused)
    assert late.lost is not None
    assert late.lost.holder == "quick"
    assert store.runs.mark_running(heir)
    run = stored(store, "r3")
    assert (run.lease_holder, run.attempts) == ("quick", 2)
    started = [e.actor.name for e in store.runs.history("r3") if e.transition == "mark_running"]
    assert started == ["quick"]


def test_hbt_05_unstarted_attempts_are_given_back(store: Store) -> None:
    """HBT-05: a holder that parks what it never started gives every attempt back."""
    queue(store, max_attempts=1)
    claim = take(store, by="slow")

    parked = store.runs.park(claim)

    assert parked
    assert stored(store).attempts == 0
    assert take(store, by="quick").run.attempts == 1
