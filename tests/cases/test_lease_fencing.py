"""Cases of the kind lease-fencing. LSE-05 stands in tests/hosts/test_keeper.py.

The convention: the expiry instant counts as expired; that lets others in and does not throw the
holder out. What goes on with the work needs a live lease; what ends it needs one that nobody took.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from persistence import Claim, ManualClock, Store
from statemachine import Reason, Refused, Run
from tests.cases.launches import LEASE, MILLISECOND, forged, queue, start, steps, stored, take
from tests.conftest import START


def _at(clock: ManualClock, seconds: float) -> None:
    clock.instant = START + timedelta(seconds=seconds)


@pytest.mark.parametrize("call", ["renew", "verify", "mark_running", "finish", "claim"])
@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_lse_01_expiry_instant(store: Store, clock: ManualClock, call: str, beside: int) -> None:
    """LSE-01: at the expiry, and one millisecond beside it, all agree who may do what."""
    queue(store)
    claim = take(store)
    clock.instant = claim.expires_at + beside * MILLISECOND

    match call:
        case "renew":
            passed = bool(store.runs.renew(claim, lease=LEASE))
        case "verify":
            passed = store.runs.verify(claim)
        case "mark_running":
            passed = bool(store.runs.mark_running(claim))
        case "finish":
            passed = bool(store.runs.finish(claim))
        case _:
            passed = bool(store.runs.claim("r", runner_id="contender", lease=LEASE))

    live = beside < 0
    expected = {"finish": True, "claim": not live}.get(call, live)
    assert passed is expected


def test_lse_02_expired_lease_is_not_revived(store: Store, clock: ManualClock) -> None:
    """LSE-02: a late renewal is told that the lease is not live, and moves nothing.

    Once a contender has the run, the old holder's finish changes nothing.
    """
    queue(store)
    claim = start(store, by="old")
    clock.advance(LEASE)

    late = store.runs.renew(claim, lease=LEASE)
    assert isinstance(late, Refused)
    assert (late.reason, late.guard, late.lost) == (Reason.GUARD, "live", None)
    assert stored(store).lease_expires_at == claim.expires_at

    contender = take(store, by="new")
    assert contender.generation == claim.generation + 1
    held = stored(store)
    finished = store.runs.finish(claim)
    assert isinstance(finished, Refused)
    assert finished.lost is not None
    lost = finished.lost
    assert (finished.state, lost.presented, lost.present, lost.holder) == ("starting", 1, 2, "new")
    assert stored(store) == held


def test_lse_04_name_is_no_proof(store: Store, clock: ManualClock) -> None:
    """LSE-04: two processes of one name: only the token's holder may renew and let go."""
    queue(store)
    claim = start(store, by="same")
    held = stored(store)

    again = store.runs.claim("r", runner_id="same", lease=LEASE)
    other = forged(held)
    outcomes = [again, store.runs.renew(other, lease=LEASE), store.runs.park(other)]

    assert [(o.reason, o.guard) for o in outcomes if isinstance(o, Refused)] == [
        (Reason.GUARD, "free"),
        (Reason.GUARD, "held"),
        (Reason.GUARD, "held"),
    ]
    assert stored(store) == held
    assert store.runs.renew(claim, lease=LEASE)
    clock.advance(LEASE)
    assert take(store, by="same").generation == 2


def test_lse_06_late_result_of_an_old_generation(store: Store, clock: ManualClock) -> None:
    """LSE-06: a holder that slept through its lease overwrites nothing of its successor."""
    queue(store)
    old = start(store, by="a")
    assert store.runs.verify(old)
    clock.advance(LEASE)
    new = start(store, by="b")
    store.runs.finish(new, result={"by": "b"})
    done = stored(store)

    late = store.runs.finish(old, result={"by": "a"})

    assert isinstance(late, Refused)
    assert late.lost is not None
    assert (late.lost.presented, late.lost.present) == (1, 2)
    assert stored(store) == done
    assert done.result == {"by": "b"}
    assert [e.actor.name for e in store.runs.history("r")][3:] == ["b", "b", "b"]


def test_lse_08_clock_steps_back_for_the_holder(store: Store, clock: ManualClock) -> None:
    """LSE-08: a clock that steps back shortens no held lease, and moves no instant back."""
    _at(clock, 0)
    queue(store)
    claim = start(store, lease=timedelta(seconds=1_000))
    _at(clock, 900)
    before = store.runs.renew(claim, lease=timedelta(seconds=1))
    assert isinstance(before, Claim)

    _at(clock, 400)
    renewed = store.runs.renew(claim, lease=timedelta(seconds=100))
    assert isinstance(renewed, Claim)
    paused = store.runs.pause("r")
    assert isinstance(paused, Run)

    assert renewed.expires_at == START + timedelta(seconds=1_000)
    assert renewed.run.lease_heartbeat_at == START + timedelta(seconds=900)
    assert paused.updated_at >= before.run.updated_at
    instants = [event.at for event in store.runs.history("r")]
    assert instants == sorted(instants)


def test_lse_08_clock_steps_back_for_a_contender(store: Store, clock: ManualClock) -> None:
    """LSE-08: who comes with a clock behind decides by that clock, on any database alike."""
    queue(store)
    claim = start(store, lease=timedelta(seconds=300))
    _at(clock, 500)
    store.runs.pause("r")

    _at(clock, 299)
    early = store.runs.claim("r", runner_id="contender", lease=LEASE)
    _at(clock, 400)
    taken = take(store, by="contender")

    assert isinstance(early, Refused)
    assert early.guard == "free"
    assert taken.generation == claim.generation + 1
    assert taken.expires_at == START + timedelta(seconds=430)
    assert taken.run.updated_at == START + timedelta(seconds=500)


def test_lse_09_holder_sets_the_length(store: Store, clock: ManualClock) -> None:
    """LSE-09: a contender's own, shorter lease does not shorten the one that is held."""
    queue(store)
    take(store, by="holder", lease=timedelta(seconds=60))
    short = timedelta(seconds=10)

    granted = {}
    for second in (20, 59, 60):
        _at(clock, second)
        granted[second] = bool(store.runs.claim("r", runner_id="contender", lease=short))

    assert granted == {20: False, 59: False, 60: True}


def test_lse_10_release_of_a_lost_lease(store: Store, clock: ManualClock) -> None:
    """LSE-10: letting go of what another holds by now is refused as lost, each time."""
    queue(store)
    old = start(store, by="a")
    clock.advance(LEASE)
    new = take(store, by="b")

    for late in (store.runs.park(old), store.runs.park(old)):
        assert isinstance(late, Refused)
        assert late.lost is not None
        assert late.lost.holder == "b"

    assert store.runs.verify(new)
    assert [r.lease_holder for r in store.runs.list(statuses=["starting", "running"])] == ["b"]
    assert steps(store) == ["reserve", "claim", "mark_running", "claim"]


def test_lse_10_release_of_a_lost_control_lease(store: Store, clock: ManualClock) -> None:
    """LSE-10: nor does a controller let go of another's lease."""
    queue(store)
    old = store.runs.claim_for_control("r", holder="a", lease=LEASE)
    assert isinstance(old, Claim)
    clock.advance(LEASE)
    new = store.runs.claim_for_control("r", holder="b", lease=LEASE)
    assert isinstance(new, Claim)

    for late in (store.runs.release_control(old), store.runs.release_control(old)):
        assert isinstance(late, Refused)
        assert late.lost is not None
        assert late.lost.holder == "b"

    assert store.runs.verify(new)
