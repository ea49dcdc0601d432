"""Cases of the kind claim-race. CLM-01 stands in tests/test_contention.py: it needs processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from persistence import Cancelled, Claim, Store
from statemachine import Reason, Refused
from tests.cases.launches import LEASE, forged, queue, start, steps, stored, take
from tests.conftest import Capabilities


def test_clm_02_claim_beside_an_open_transaction(store: Store, capabilities: Capabilities) -> None:
    """CLM-02: what another has claimed, but not committed, is not granted a second time.

    Where rows are locked one by one, the next run is granted at once; else after the commit.
    """
    names = [f"r{n}" for n in range(5)]
    for name in names:
        queue(store, name)

    with ThreadPoolExecutor(1) as pool:
        with store.transaction():
            first = store.runs.claim_next("a", LEASE)
            other = pool.submit(store.runs.claim_next, "b", LEASE)
            if capabilities.row_locks:
                other.result(timeout=10)
        second = other.result(timeout=10)

    assert isinstance(first, Claim)
    assert isinstance(second, Claim)
    assert (first.run_id, second.run_id) == ("r0", "r1")
    assert stored(store, "r0").lease_token_hash == first.run.lease_token_hash


def test_clm_02_all_is_locked(store: Store, capabilities: Capabilities) -> None:
    """CLM-02: "all that could be taken is locked just now" is not "there is nothing to take"."""
    queue(store)

    with ThreadPoolExecutor(1) as pool:
        with store.transaction():
            first = store.runs.claim_next("a", LEASE)
            other = pool.submit(store.runs.claim_next, "b", LEASE)
            if capabilities.row_locks:
                other.result(timeout=10)
        second = other.result(timeout=10)
    third = store.runs.claim_next("b", LEASE)

    assert isinstance(first, Claim)
    assert isinstance(second, Refused)
    assert second.reason is (Reason.LOCKED if capabilities.row_locks else Reason.NOTHING)
    assert isinstance(third, Refused)
    assert third.reason is Reason.NOTHING


def test_clm_04_late_start_and_late_failure(store: Store) -> None:
    """CLM-04: who listed a run but never got it cannot start or fail what another has finished."""
    seen = queue(store)
    claim = start(store, by="a")
    store.runs.finish(claim, result="ok")
    done = stored(store)

    late = forged(seen)
    outcomes = [
        store.runs.mark_running(late),
        store.runs.fail(late, error_code="late", error_message="late"),
    ]

    for outcome in outcomes:
        assert isinstance(outcome, Refused)
        assert (outcome.reason, outcome.state) == (Reason.STATE, "done")
        assert outcome.lost is not None
        assert (outcome.lost.presented, outcome.lost.present) == (0, 1)
    assert stored(store) == done
    assert steps(store) == ["reserve", "claim", "mark_running", "finish"]


def test_clm_05_cancelled_before_it_started(store: Store) -> None:
    """CLM-05: a launch that was called off leaves its session free for the next one at once."""
    queue(store, "r", session="s")

    assert isinstance(store.runs.cancel("r"), Cancelled)
    refused = store.runs.claim("r", runner_id="w", lease=LEASE)
    assert isinstance(refused, Refused)
    assert refused.state == "cancelled"
    assert store.runs.find_reservation("s") is None
    second = queue(store, "r2", session="s")
    assert store.runs.find_reservation("s") == second
    assert take(store, "r2").run_id == "r2"
    assert [r.run_id for r in store.runs.list(statuses=["queued", "starting", "running"])] == ["r2"]
