"""Many calls in one commit, each with an outcome of its own."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from persistence import Claim, ManualClock, Store, open_store
from persistence.stores.run_holding import Finish
from statemachine import Reason, Refused, RunOutcome, RunStatus
from statemachine.errors import InvalidArgument
from statemachine.machines import RUN_LAUNCH, Run
from statemachine.row_call import RowCall
from tests.order import ORDER, OrderState

LEASE = timedelta(seconds=30)
SEED = bytes(range(32))
LAUNCH: dict[str, Any] = {
    "workflow": "w",
    "source_ref": "r",
    "source": {},
    "definition_digest": "d",
}


def _reserve(store: Store, count: int) -> list[str]:
    ids = [f"r{number:02}" for number in range(count)]
    for run_id in ids:
        store.runs.reserve(run_id=run_id, **LAUNCH)
    return ids


def test_many_runs_are_claimed_in_order_with_a_token_each(store: Store) -> None:
    """The batch is what as many single calls would have taken, each held under its own token."""
    ids = _reserve(store, 7)

    claims = store.runs.claim_many("a", LEASE, limit=5, exclude=("r01",))

    assert [i for i in ids if i != "r01"][:5] == [claim.run_id for claim in claims]
    assert len({claim.token for claim in claims}) == 5
    assert all(store.runs.mark_running(claim) for claim in claims)
    assert [claim.run_id for claim in store.runs.claim_many("b", LEASE, limit=100)] == [
        "r01",
        "r06",
    ]
    assert store.runs.claim_many("b", LEASE, limit=100) == []


def test_a_batch_takes_expired_leases_before_waiting_runs(store: Store, clock: ManualClock) -> None:
    """The arms of the selection are emptied in their order."""
    _reserve(store, 3)
    assert store.runs.claim("r02", runner_id="dead", lease=timedelta(seconds=1))
    clock.advance(timedelta(seconds=2))

    claims = store.runs.claim_many("a", LEASE, limit=2)

    assert [claim.run_id for claim in claims] == ["r02", "r00"]
    assert [claim.generation for claim in claims] == [2, 1]


def test_a_batch_passes_interactive_runs_over(store: Store) -> None:
    """`claim_many` is for headless runs."""
    store.runs.reserve(run_id="mine", origin_session_id="s", **LAUNCH)
    _reserve(store, 1)

    assert [claim.run_id for claim in store.runs.claim_many("a", LEASE, limit=9)] == ["r00"]


def test_a_repeated_batch_answers_the_same_claims(store: Store) -> None:
    """One call id and one seed: the same runs, generations and tokens, and no more of them."""
    _reserve(store, 5)

    first = store.runs.claim_many("a", LEASE, limit=2, token=SEED, call="c")
    again = store.runs.claim_many("a", LEASE, limit=2, token=SEED, call="c")

    assert [claim.run_id for claim in first] == ["r00", "r01"]
    assert first == again
    assert [claim.run_id for claim in store.runs.claim_many("a", LEASE, limit=1)] == ["r02"]


def test_each_end_of_a_batch_has_its_own_outcome(store: Store) -> None:
    """A stale claim among good ones is refused alone, and says who holds the run."""
    _reserve(store, 3)
    claims = store.runs.claim_many("a", LEASE, limit=3)
    assert store.runs.finish(claims[1])

    outcomes = store.runs.finish_many(
        [
            Finish(claims[2], outcome=RunOutcome.CHECKPOINTED, result={"n": 2}),
            Finish(claims[1]),
            Finish(claims[0]),
        ]
    )

    assert [isinstance(outcome, Run) for outcome in outcomes] == [True, False, True]
    moved, refused, _ = outcomes
    assert isinstance(moved, Run)
    assert (moved.run_id, moved.status, moved.result) == ("r02", RunStatus.DONE, {"n": 2})
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.state, refused.key) == (Reason.STATE, "done", "r01")
    assert [len(store.runs.history(claim.run_id)) for claim in claims] == [3] * 3


def test_a_row_given_twice_is_refused_before_anything_is_written(store: Store) -> None:
    """Which of the two came first would be anybody's guess."""
    _reserve(store, 1)
    claim = store.runs.claim_next("a", LEASE)
    assert isinstance(claim, Claim)

    with pytest.raises(InvalidArgument, match="calls"):
        store.runs.finish_many([Finish(claim), Finish(claim)])
    with pytest.raises(InvalidArgument, match="ends"):
        store.runs.finish_many([claim])  # type: ignore[list-item]  # on purpose

    assert store.runs.finish_many([]) == []
    assert len(store.runs.history("r00")) == 2


def test_a_repeated_call_of_a_batch_is_answered_from_history(store: Store) -> None:
    """A batch repeated under the same ids moves nothing twice, also mixed with new calls."""
    _reserve(store, 2)
    first, second = store.runs.claim_many("a", LEASE, limit=2)

    store.runs.finish_many([Finish(first, call="f0")])
    outcomes = store.runs.finish_many([Finish(first, call="f0"), Finish(second, call="f1")])

    assert [o.status for o in outcomes if isinstance(o, Run)] == [RunStatus.DONE] * 2
    assert [len(store.runs.history(run_id)) for run_id in ("r00", "r01")] == [3, 3]


def test_own_machines_have_batches_too(database: str) -> None:
    """`apply_many` is for any transition of any machine; what breaks a rule is refused alone."""
    with open_store(database, clock=ManualClock(), machines=(ORDER,)) as store:
        orders = store.machine(ORDER)
        for number in range(3):
            orders.create("place", {"order_id": f"o{number}", "basket": f"b{number}"})

        outcomes = orders.apply_many(
            "pay", [RowCall("o2"), RowCall("missing"), RowCall("o0", call="mine")]
        )

        assert [None if isinstance(o, Refused) else o.state for o in outcomes] == [
            OrderState.PAID,
            None,
            OrderState.PAID,
        ]
        assert outcomes[1].reason is Reason.MISSING
        assert orders.history("o0")[-1].call == "mine"


def test_adoptions_in_one_batch_that_collide_leave_one_winner(store: Store) -> None:
    """A rule that two rows of one batch would break between them refuses the second alone."""
    _reserve(store, 2)
    runs = store.machine(RUN_LAUNCH)

    outcomes = runs.apply_many(
        "adopt",
        [RowCall("r00", {"session_id": "s"}), RowCall("r01", {"session_id": "s"})],
    )

    assert [o.origin_session_id for o in outcomes if not isinstance(o, Refused)] == ["s"]
    refused = next(o for o in outcomes if isinstance(o, Refused))
    assert (refused.reason, refused.guard) == (Reason.UNIQUE, "session reservation")


def test_overlapping_batches_in_opposite_order_do_not_deadlock(
    database: str, tmp_path: Path
) -> None:
    """Rows are locked in the order of their keys, whatever order they were given in."""
    url = str(tmp_path / "batch.db") if database == ":memory:" else database
    with open_store(url) as store:
        ids = _reserve(store, 40)
        runs = store.machine(RUN_LAUNCH)
        trouble: list[BaseException] = []

        def toggle(keys: list[str]) -> None:
            try:
                for _ in range(6):
                    for name in ("pause", "resume"):
                        runs.apply_many(name, [RowCall(key) for key in keys])
            except BaseException as error:
                trouble.append(error)
                raise

        threads = [threading.Thread(target=toggle, args=(keys,)) for keys in (ids, ids[::-1]) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert trouble == []
        for run_id in ids:
            steps = store.runs.history(run_id)
            assert list(range(1, len(steps) + 1)) == [step.revision for step in steps]
