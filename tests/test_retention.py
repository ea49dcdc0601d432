"""Retention: what ended long ago goes, in bounded batches, whole; nothing else does."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from persistence import Claim, ManualClock, Store, open_store, retention
from persistence.compile import Statement
from statemachine import RUN_LAUNCH, Event, HostEvent, IllegalTransition, InvalidArgument
from tests.cases.launches import LEASE, queue, start, steps, stored, take
from tests.conftest import Capabilities
from tests.order import ORDER

DAY = timedelta(days=1)


def _following(store: Store, cursor: str | None, count: int) -> tuple[Event | HostEvent, ...]:
    """Read the feed once it shows so many events: transactions of other tests delay it."""
    deadline = time.monotonic() + 30
    while len(events := store.events_after(cursor).events) < count:
        assert time.monotonic() < deadline, events
        time.sleep(0.01)
    return events


def _end(store: Store, run_id: str) -> None:
    queue(store, run_id)
    store.runs.append_event(run_id, type="noted")
    store.runs.finish(start(store, run_id))


def _ids(store: Store) -> list[str]:
    return [run.run_id for run in store.runs.list()]


def test_old_final_runs_go(store: Store, clock: ManualClock) -> None:
    """Of the final runs those go that ended at least as long ago as is asked, histories too."""
    _end(store, "old")
    clock.advance(DAY - timedelta(milliseconds=1))
    _end(store, "young")

    assert store.runs.prune(DAY) == 0
    clock.advance(timedelta(milliseconds=1))
    assert store.runs.prune(DAY) == 1
    assert store.runs.prune(DAY) == 0

    assert _ids(store) == ["young"]
    assert store.runs.history("old") == []
    assert {event.key for event in _following(store, None, 5)} == {"young"}
    assert steps(store, "young") == ["reserve", "claim", "mark_running", "finish"]


def test_runs_that_have_not_ended_stay(store: Store, clock: ManualClock) -> None:
    """However old, a run that may still go on is kept: its worker goes on with it."""
    for name in ("queued", "starting", "running", "parked"):
        queue(store, name)
    take(store, "starting", lease=10 * DAY)
    claim = start(store, "running", lease=10 * DAY)
    store.runs.park(start(store, "parked"))
    before = store.runs.list()
    clock.advance(2 * DAY)

    assert store.runs.prune(DAY) == 0

    assert store.runs.list() == before
    assert store.runs.finish(claim)


def test_each_way_of_ending_counts(store: Store, clock: ManualClock) -> None:
    """Done, failed and cancelled runs go alike."""
    for name in ("done", "failed", "cancelled"):
        queue(store, name)
    store.runs.finish(start(store, "done"))
    store.runs.fail(start(store, "failed"), error_code="e", error_message="m")
    store.runs.cancel("cancelled")
    clock.advance(DAY)

    assert store.runs.prune(DAY) == 3

    assert store.runs.list() == []


def test_batches_are_bounded(store: Store, clock: ManualClock) -> None:
    """A call deletes at most so many, those first that ended first."""
    for number in range(5):
        _end(store, f"r{number}")
        clock.advance(timedelta(minutes=1))
    clock.advance(DAY)

    assert [store.runs.prune(DAY, limit=2) for _ in range(4)] == [2, 2, 1, 0]


def test_parent_goes_before_its_continuation(store: Store, clock: ManualClock) -> None:
    """A continuation keeps its parent's slot for as long as the parent is there."""
    queue(store, "z-parent")
    store.runs.finish(start(store, "z-parent"), outcome="checkpointed")
    queue(store, "a-child", parent="z-parent")
    clock.advance(timedelta(milliseconds=1))
    store.runs.finish(start(store, "a-child"))
    clock.advance(DAY)

    assert store.runs.prune(DAY, limit=1) == 1

    assert _ids(store) == ["a-child"]
    assert stored(store, "a-child").parent_run_id == "z-parent"


def test_other_projects_stay(database: str, clock: ManualClock, capabilities: Capabilities) -> None:
    """A store of one project forgets that project's runs; one of all, all."""
    if not capabilities.reopens:
        pytest.skip("a database in memory is opened once")
    with (
        open_store(database, clock=clock) as mine,
        open_store(database, clock=clock, project="other") as other,
        open_store(database, clock=clock, project=None) as every,
    ):
        _end(mine, "mine")
        _end(other, "others")
        clock.advance(DAY)

        assert mine.runs.prune(DAY) == 1
        assert _ids(every) == ["others"]
        assert every.runs.prune(DAY) == 1


def test_rows_of_an_own_machine_go_too(database: str, clock: ManualClock) -> None:
    """The triggers keep every row of an own machine; final ones alone can be let go."""
    with open_store(database, clock=clock, machines=(ORDER,)) as store:
        orders = store.machine(ORDER)
        for number, ending in enumerate(("cancel", "pay", "cancel")):
            orders.create("place", {"order_id": f"o-{number}", "basket": f"b-{number}"})
            orders.apply(ending, f"o-{number}")
        assert orders.prune(DAY) == 0
        clock.advance(DAY)
        queue(store, "r")
        store.runs.cancel("r")

        assert [orders.prune(DAY, limit=1) for _ in range(3)] == [1, 1, 0]

        assert [order.order_id for order in orders.list()] == ["o-1"]
        assert (orders.history("o-0"), len(orders.history("o-1"))) == ([], 2)
        assert _ids(store) == ["r"]
        for older_than, limit in ((timedelta(0), 1), (DAY, 0), (DAY, 1_001)):
            with pytest.raises(InvalidArgument):
                orders.prune(older_than, limit=limit)


def test_permit_ends_with_the_call(store: Store, clock: ManualClock) -> None:
    """Nobody else may delete, neither afterwards nor meanwhile."""
    _end(store, "old")
    _end(store, "kept")
    clock.advance(DAY)
    assert store.runs.prune(DAY, limit=1) == 1

    with (
        store.engine.backend.session() as session,
        pytest.raises(IllegalTransition, match="retention"),
    ):
        session.script(["DELETE FROM runs"])


def test_forgotten_id_can_be_used_anew(store: Store, clock: ManualClock) -> None:
    """What is forgotten has never been: the id is free, and a new history begins."""
    _end(store, "again")
    clock.advance(DAY)
    store.runs.prune(DAY)

    _end(store, "again")

    assert steps(store, "again") == ["reserve", "claim", "mark_running", "finish"]


def test_followers_of_the_feed_go_on(store: Store, clock: ManualClock) -> None:
    """EVT-03: a reader that was behind the forgotten events sees what comes next, once.

    The newest events of the feed are forgotten too: their places are not given a second time.
    """
    _end(store, "old")
    _following(store, None, 5)
    cursor = store.events_after().cursor
    clock.advance(DAY)
    store.runs.prune(DAY)

    queue(store, "new")

    assert [event.key for event in _following(store, cursor, 1)] == ["new"]


def test_claimers_do_not_wait(store: Store, clock: ManualClock, capabilities: Capabilities) -> None:
    """Where rows are locked one by one, runs are claimed while a batch is being deleted."""
    if not capabilities.row_locks:
        pytest.skip("one writer at a time: a batch is short instead")
    _end(store, "old")
    queue(store, "new")
    clock.advance(DAY)

    with ThreadPoolExecutor(1) as pool, store.transaction():
        assert store.runs.prune(DAY) == 1
        claim = pool.submit(store.runs.claim_next, "w", LEASE).result(timeout=10)

    assert isinstance(claim, Claim)
    assert claim.run_id == "new"


@pytest.mark.parametrize("limit", [0, 1_001, True, "1"])
def test_bounds(store: Store, limit: object) -> None:
    """A batch is bounded, and an age is a duration."""
    with pytest.raises(InvalidArgument, match="limit"):
        store.runs.prune(DAY, limit=limit)  # type: ignore[arg-type]  # it is wrong on purpose
    with pytest.raises(InvalidArgument, match="older_than"):
        store.runs.prune(timedelta())


def test_ended_runs_are_found_by_an_index(store: Store, capabilities: Capabilities) -> None:
    """Finding the oldest neither scans nor sorts; nor does forgetting their histories."""
    if capabilities.row_locks:
        pytest.skip("PostgreSQL's plans depend on its statistics")
    with store.engine.backend.session() as session:
        plans = {
            name: [
                str(row[-1])
                for row in session.execute(
                    f"EXPLAIN QUERY PLAN {statement.sql}",
                    {
                        "machine": "run_launch",
                        "sys_keys": '["a"]',
                        "sys_age": 1,
                        "sys_limit": 1,
                        "project": "default",
                    },
                )[0]
            ]
            for name, statement in _statements(store).items()
        }

    assert plans["ended"][0].startswith("SEARCH runs USING INDEX runs_ended (updated_at<?)")
    assert plans["delete"][0].startswith("SEARCH runs USING")
    assert plans["forget"][0].startswith(
        "SEARCH sqlatch_history USING COVERING INDEX sqlatch_history_row (machine=? AND key=?)"
    )
    assert [line for plan in plans.values() for line in plan if "B-TREE" in line] == []


def _statements(store: Store) -> dict[str, Statement]:
    program = store.engine.program(RUN_LAUNCH)
    return {
        "ended": retention._ended(program, ("project",)),
        "delete": retention._delete(program),
        "forget": retention._forget(program),
    }
