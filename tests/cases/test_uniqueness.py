"""Cases of the kind uniqueness: one reservation a session, one continuation a parent."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from persistence import Claim, Store
from statemachine import IdentityConflict, Run, SqlatchError, UniquenessConflict
from tests.cases.launches import queue, start, steps, stored

THREADS, ROUNDS = 6, 50


def test_unq_01_six_launches_of_one_session(store: Store) -> None:
    """UNQ-01: of six that launch for one session at once, one does; five are told who did."""
    gate = threading.Barrier(THREADS)

    def launch(run_id: str) -> Run | UniquenessConflict:
        gate.wait(timeout=30)
        try:
            return queue(store, run_id, session="s")
        except UniquenessConflict as conflict:
            return conflict

    with ThreadPoolExecutor(THREADS) as pool:
        for number in range(ROUNDS):
            answers = list(pool.map(launch, [f"r{number}.{n}" for n in range(THREADS)]))

            (won,) = [answer for answer in answers if isinstance(answer, Run)]
            lost = [answer for answer in answers if isinstance(answer, UniquenessConflict)]
            assert [c.blocker for c in lost] == [won] * (THREADS - 1)
            assert {c.rule for c in lost} == {"session reservation"}
            store.runs.finish(start(store, won.run_id))


class _Undone(Exception):
    """Ends a transaction."""


def test_unq_02_the_other_launch_is_undone(store: Store) -> None:
    """UNQ-02: a launch that waited for another, which was then undone, is accepted."""
    begun = threading.Event()

    def launch() -> Run | SqlatchError:
        begun.set()
        try:
            return queue(store, "b", session="s")
        except SqlatchError as error:
            return error

    with ThreadPoolExecutor(1) as pool:
        with suppress(_Undone), store.transaction():
            queue(store, "a", session="s")
            other = pool.submit(launch)
            assert begun.wait(timeout=10)
            raise _Undone
        answer = other.result(timeout=10)

    assert isinstance(answer, Run)
    assert store.runs.get("a") is None
    assert store.runs.find_reservation("s") == answer


def _continue(store: Store, claim: Claim, child: str) -> Run:
    """End a run at a checkpoint and reserve its continuation, both or neither."""
    with store.transaction():
        assert store.runs.finish(claim, outcome="checkpointed")
        return queue(store, child, parent=claim.run_id)


def test_unq_06_continuation_repeated(store: Store) -> None:
    """UNQ-06: the same continuation again is the same run, and can be continued itself.

    Another payload, or another run of the same parent, is a conflict.
    """
    queue(store, "p")
    first = _continue(store, start(store, "p"), "c1")

    assert queue(store, "c1", parent="p") == first
    with pytest.raises(IdentityConflict):
        queue(store, "c1", parent="p", max_attempts=3)
    with pytest.raises(UniquenessConflict) as caught:
        queue(store, "other", parent="p")
    assert (caught.value.rule, caught.value.blocker) == ("one continuation", first)

    second = _continue(store, start(store, "c1"), "c2")
    assert (second.parent_run_id, stored(store, "c1").outcome) == ("c1", "checkpointed")
    assert [r.run_id for r in store.runs.list()] == ["c1", "c2", "p"]


def test_unq_06_continuation_and_end_are_one(store: Store) -> None:
    """UNQ-06: where the continuation cannot be made, its parent has not ended."""
    queue(store, "p")
    claim = start(store, "p")
    queue(store, "taken")

    with pytest.raises(IdentityConflict):
        _continue(store, claim, "taken")

    assert stored(store, "p").status == "running"
    assert steps(store, "p") == ["reserve", "claim", "mark_running"]
    assert _continue(store, claim, "c1").parent_run_id == "p"
