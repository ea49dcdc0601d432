"""Cases of the kind stale-sweep: a sweep is `reap_due`, and `claim_next` of what was left behind.

SWP-03 stands in tests/test_contention.py: it needs processes.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from persistence import Claim, ManualClock, Store
from persistence.hosts import Worker
from persistence.hosts.at_work import AtWork
from statemachine import Reason, Refused
from tests.cases.launches import LEASE, MILLISECOND, queue, start, steps, stored, take
from tests.hosts.virtual import Time, reserve


def _finished_late(store: Store, claim: Claim) -> None:
    assert store.runs.finish(claim, result="late, but lawful")


def _finished_by_the_next(store: Store, _: Claim) -> None:
    assert store.runs.finish(start(store, by="next"), result="by the next owner")


@pytest.mark.parametrize("ended", [_finished_late, _finished_by_the_next])
def test_swp_01_decision_that_came_too_late(
    store: Store, clock: ManualClock, ended: Callable[[Store, Claim], None]
) -> None:
    """SWP-01: what a sweeper decided of a run that has ended since changes not one byte of it."""
    queue(store, max_attempts=2)
    claim = start(store)
    clock.advance(LEASE)
    (seen,) = store.runs.list(statuses=["running"])
    assert seen.lease_expires_at == clock.now()
    ended(store, claim)
    done, history = stored(store), store.runs.history("r")

    clock.advance(LEASE)
    late = [
        store.runs.reap("r"),
        store.runs.reap_cancelled("r"),
        store.runs.cancel_stale("r"),
        store.runs.requeue("r"),
        store.runs.reject("r", error_code="lost", error_message="lost"),
        store.runs.claim("r", runner_id="sweeper", lease=LEASE),
    ]

    assert [(o.reason, o.state) for o in late if isinstance(o, Refused)] == [
        (Reason.STATE, "done")
    ] * len(late)
    assert store.runs.reap_due() == []
    assert stored(store) == done
    assert store.runs.history("r") == history


def test_swp_05_collision_stops_no_sweep(store: Store, clock: ManualClock) -> None:
    """SWP-05: a run that cannot be taken up beside its session's other one holds up nobody.

    It stays as it is, without a step in its history, until the slot is free.
    """
    queue(store, "a", session="s")
    store.runs.park(start(store, "a"))
    clock.advance(MILLISECOND)
    queue(store, "b", session="s")
    queue(store, "c", session="z")
    store.runs.park(start(store, "c"))
    before = stored(store, "a"), stored(store, "b")

    taken = store.runs.claim_next("w", LEASE)
    again = store.runs.claim_next("w", LEASE)
    direct = store.runs.claim("a", runner_id="w", lease=LEASE)

    assert isinstance(taken, Claim)
    assert taken.run_id == "c"
    assert isinstance(again, Refused)
    assert again.reason is Reason.NOTHING
    assert isinstance(direct, Refused)
    assert (direct.reason, direct.guard) == (Reason.UNIQUE, "session reservation")
    assert direct.blocker == before[1]
    assert (stored(store, "a"), stored(store, "b")) == before
    store.runs.cancel("b")
    freed = store.runs.claim_next("w", LEASE)
    assert isinstance(freed, Claim)
    assert freed.run_id == "a"


def test_swp_05_worn_out_beside_a_parked_one(store: Store, clock: ManualClock) -> None:
    """SWP-05: worn-out runs fail in one sweep, whatever else their sessions have."""
    queue(store, "b", session="s")
    store.runs.park(start(store, "b"))
    for name, session in (("a", "s"), ("c", "z")):
        queue(store, name, session=session, max_attempts=1)
        start(store, name)
    parked = stored(store, "b")
    clock.advance(LEASE)

    ended = store.runs.reap_due()

    assert [(r.run_id, r.status, r.error_code) for r in ended] == [
        ("a", "failed", "lost"),
        ("c", "failed", "lost"),
    ]
    assert store.runs.reap_due() == []
    assert stored(store, "b") == parked


@pytest.mark.parametrize("directly", [False, True])
def test_swp_07_limit_does_not_count_the_run_itself(
    store: Store, clock: ManualClock, directly: bool
) -> None:
    """SWP-07: a session's only run, left behind by a dead owner, is not in its own way."""
    queue(store, session="s")
    start(store, by="dead")
    clock.advance(LEASE)

    assert store.runs.reap_due() == []
    if directly:
        claim: Claim | Refused = take(store, by="heir")
    else:
        claim = store.runs.claim_next("heir", LEASE)

    assert isinstance(claim, Claim)
    assert (claim.run_id, claim.generation, claim.run.lease_holder) == ("r", 2, "heir")
    assert steps(store) == ["reserve", "claim", "mark_running", "claim"]


def test_swp_07_session_takes_its_own_up(store: Store, clock: ManualClock) -> None:
    """SWP-07: nor is it in the way of its session."""
    queue(store, session="s")
    start(store, by="dead")
    clock.advance(LEASE)

    claim = store.runs.claim_next("heir", LEASE, session_id="s")

    assert isinstance(claim, Claim)
    assert claim.generation == 2


def test_swp_06_what_a_sweeper_does_not_know(store: Store, clock: ManualClock) -> None:
    """SWP-06: a worker recovers runs of a workflow that it does not know by their state alone.

    What has an attempt left is handed back for those who know it, never failed for being unknown.
    """
    virtual = Time(clock)
    for name, workflow, attempts in (
        ("a", "known", 2),
        ("b", "unknown", 2),
        ("worn", "unknown", 1),
    ):
        reserve(store.runs, name, workflow=workflow, max_attempts=attempts)
        start(store, name, by="dead")
    virtual.advance(LEASE.total_seconds())

    def rest(seconds: float) -> bool:
        virtual.advance(seconds)
        return False

    Worker(
        store,
        {"known": lambda *_: "done"},
        runner_id="w",
        at_work=AtWork(),
        now=virtual.now,
        sleep=virtual.advance,
        rest=rest,
    ).run(until_empty=True)

    assert [(stored(store, n).status, stored(store, n).error_code) for n in ("a", "b", "worn")] == [
        ("done", None),
        ("parked", None),
        ("failed", "lost"),
    ]
    assert steps(store, "b")[-2:] == ["claim", "park"]
    assert stored(store, "b").attempts == 0
    knowing = store.runs.claim("b", runner_id="knowing", lease=LEASE)
    assert isinstance(knowing, Claim)
