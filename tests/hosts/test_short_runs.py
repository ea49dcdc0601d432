"""Short runs are taken, begun and ended together, and nobody else can tell but by the speed."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from persistence import Cancelled, CancelRequested, ManualClock, Store, open_store
from persistence.hosts import Failed, Handler, Lease, Park, Worker
from persistence.hosts.at_work import AtWork
from persistence.hosts.batch import Batch, timer
from persistence.hosts.short_runs import LAST, ShortRuns
from statemachine.kinds import JsonValue
from statemachine.machines import Run, RunStatus
from tests.hosts.virtual import Time, reserve, stored, transitions, worker_of

STEPS = ["reserve", "claim", "mark_running", "finish"]


@pytest.fixture
def virtual(clock: ManualClock) -> Time:
    """Virtual time, shared by store and worker; waiting moves it."""
    return Time(clock)


@define
class Alarm:
    """What a test rings in a batch's alarm's stead."""

    calls: list[Callable[[], None]] = field(factory=list)

    def set(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Note a call."""
        assert 0 < seconds <= 0.25
        self.calls.append(call)
        return lambda: self.calls.remove(call) if call in self.calls else None

    def ring(self) -> None:
        """Call back from another thread, as when the time is up; wait until that is done."""
        thread = threading.Thread(target=self.calls.pop())
        thread.start()
        thread.join(30)
        assert not thread.is_alive()


def quick(
    store: Store, virtual: Time, handlers: Mapping[str, Handler], **more: Any
) -> tuple[Worker, Alarm]:
    """Return a worker whose last runs were short, and its alarm."""
    alarm = Alarm()
    worker = worker_of(store, virtual, handlers, **{"alarm": alarm.set, **more})
    for _ in range(LAST):
        worker._short.note(0.0)
    return worker, alarm


def queue(store: Store, count: int, **facts: Any) -> list[str]:
    """Reserve runs; return their ids in the order in which they are taken."""
    names = [f"r{number:02}" for number in range(count)]
    for name in names:
        reserve(store.runs, name, **facts)
    return names


def at_once(store: Store) -> int:
    """Count the runs that have begun and not ended."""
    return store.runs.counts()[RunStatus.RUNNING]


def test_how_many_are_short() -> None:
    """Twenty are known, at most two of them are longer than 5 ms; then 50 ms in all, or `most`."""
    short = ShortRuns(50)
    for seconds in (0.0,) * (LAST - 1):
        short.note(seconds)
        assert short.together() == 1
    short.note(0.0)
    assert short.together() == 50
    for seconds, together in ((9.0, 50), (9.0, 50), (0.005, 10), (0.0051, 1)):
        short.note(seconds)
        assert short.together() == together
    short.forget()
    assert short.together() == 1
    for _ in range(LAST):
        short.note(0.002)
    assert short.together() == 25


def test_short_runs_go_together(
    store: Store, virtual: Time, caplog: pytest.LogCaptureFixture
) -> None:
    """Once twenty were short, the next are begun and ended together, and the worker says so.

    Once they are long again, they go one by one, and it says so too.
    """
    caplog.set_level(logging.INFO, "persistence.hosts.worker")
    names = queue(store, 60)
    seen: list[int] = []
    order: list[str] = []

    def handle(run: Run, _: Lease) -> JsonValue:
        seen.append(at_once(store))
        order.append(run.run_id)
        assert run.status is RunStatus.RUNNING
        if run.run_id >= "r40":
            virtual.advance(0.1)
        return {"was": run.run_id}

    worker_of(store, virtual, {"demo": handle}, together=10).run(until_empty=True)

    assert order[:43] == names[:43]
    assert seen[:20] == [1] * 20
    assert seen[20:43] == [10] * 23
    assert seen[-10:] == [1] * 10
    for name in names:
        assert stored(store, name).result == {"was": name}
        assert transitions(store, name)[-1] == "finish"
    assert transitions(store, names[0]) == transitions(store, names[25]) == STEPS
    assert [record.getMessage() for record in caplog.records] == [
        "worker w: runs are short, up to 10 at a time",
        "worker w: one run at a time again",
    ]


def test_never_where_that_is_not_wanted(store: Store, virtual: Time) -> None:
    """A worker may be told to take one at a time."""
    queue(store, 5)
    seen: list[int] = []
    worker, _ = quick(store, virtual, {"demo": lambda *_: seen.append(at_once(store))}, together=1)
    worker.run(until_empty=True)

    assert seen == [1] * 5


def test_on_end_is_told_of_each(store: Store, virtual: Time) -> None:
    """Whoever asked is told of each end, also where runs end together."""
    names = queue(store, 8)
    told: list[str] = []
    worker, _ = quick(
        store, virtual, {"demo": lambda *_: 1}, on_end=lambda run: told.append(run.run_id)
    )
    worker.run(until_empty=True)

    assert told == names


def test_a_long_run_holds_nobody_up(store: Store, virtual: Time) -> None:
    """While a handler takes long, what had ended is finished, and what had not begun given back.

    Others take it at once, at its old place in the queue, with no attempt used up.
    """
    queue(store, 6, max_attempts=2)
    before = [stored(store, f"r{n:02}").available_at for n in range(6)]
    virtual.advance(60)
    reserve(store.runs, "younger")
    other: list[str] = []

    def handle(run: Run, lease: Lease) -> JsonValue:
        if run.run_id == "r02":
            alarm.ring()
            states = [str(stored(store, f"r{n:02}").status) for n in range(6)]
            assert states == ["done", "done", "running", "parked", "parked", "parked"]
            for number in range(3, 6):
                given_back = stored(store, f"r{number:02}")
                assert (given_back.attempts, given_back.lease_holder) == (0, None)
                assert given_back.available_at == before[number]
            claim = store.runs.claim_next("other", timedelta(seconds=30))
            assert claim
            other.append(claim.run_id)
            assert lease.held
        return run.run_id

    worker, alarm = quick(store, virtual, {"demo": handle}, together=6)
    worker.run(until_empty=True)

    assert other == ["r03"]
    assert stored(store, "r02").result == "r02"
    assert transitions(store, "r02") == STEPS
    assert transitions(store, "r05") == [*STEPS[:3], "park", *STEPS[1:]]
    assert all(stored(store, name).status is RunStatus.DONE for name in ("r00", "r05", "younger"))


def test_the_time_is_looked_at_while_a_handler_is_at_work(store: Store, virtual: Time) -> None:
    """A handler that waits for another run of its batch does not wait for ever."""
    queue(store, 2)

    def wait_for_other(run: Run, _: Lease) -> None:
        until = time.monotonic() + 20
        while run.run_id == "r00" and stored(store, "r01").status is not RunStatus.PARKED:
            assert time.monotonic() < until
            time.sleep(0.01)

    worker, _ = quick(store, virtual, {"demo": wait_for_other}, alarm=timer)
    worker.run(until_empty=True)

    assert transitions(store, "r00") == STEPS
    assert transitions(store, "r01") == [*STEPS[:3], "park", *STEPS[1:]]


def test_a_batch_ends_when_its_time_is_up(store: Store, virtual: Time) -> None:
    """After a run that took long the rest is given back, and runs go one by one for a while."""
    queue(store, 8)
    seen: list[int] = []

    def handle(run: Run, _: Lease) -> JsonValue:
        seen.append(at_once(store))
        if run.run_id == "r02":
            virtual.advance(0.25)
        return None

    worker, _ = quick(store, virtual, {"demo": handle}, together=8)
    worker.run(until_empty=True)

    assert seen == [8] * 3 + [1] * 5
    assert store.runs.counts()[RunStatus.DONE] == 8


def test_stop_in_the_middle(store: Store, virtual: Time) -> None:
    """A stop finishes what has ended and gives back what has not begun; nothing more begins."""
    names = queue(store, 5, max_attempts=3)
    began: list[str] = []

    def handle(run: Run, lease: Lease) -> JsonValue | Park:
        began.append(run.run_id)
        if run.run_id == "r01":
            worker.stop()
            assert lease.stop_requested
            return Park()
        return None

    worker, _ = quick(store, virtual, {"demo": handle}, together=5)
    worker.run()

    runs = [stored(store, name) for name in names]
    assert began == names[:2]
    assert [str(run.status) for run in runs] == ["done", *("parked",) * 4]
    assert [(run.attempts, run.lease_holder) for run in runs[1:]] == [(0, None)] * 4


def test_stop_before_the_begin(store: Store, virtual: Time) -> None:
    """A batch that was taken when the stop came is given back without being begun."""
    names = queue(store, 3, max_attempts=3)

    class StopsOnSecond(AtWork):
        """Stops the worker right after the second claim."""

        def enter(self, run_id: str) -> bool:
            if run_id == "r01":
                worker.stop()
            return super().enter(run_id)

    began: list[str] = []
    handlers: Mapping[str, Handler] = {"demo": lambda run, _: began.append(run.run_id)}
    worker, _ = quick(store, virtual, handlers, at_work=StopsOnSecond())
    worker.run()

    assert began == []
    assert [transitions(store, name) for name in names] == [["reserve", "claim", "park"]] * 3


def test_interrupt_in_the_middle(store: Store, virtual: Time) -> None:
    """Ctrl-C in a handler parks its run, and leaves nothing of the batch held."""
    names = queue(store, 4)

    def interrupt(run: Run, _: Lease) -> JsonValue:
        if run.run_id == "r01":
            raise KeyboardInterrupt
        return None

    worker, _ = quick(store, virtual, {"demo": interrupt})
    with pytest.raises(KeyboardInterrupt):
        worker.run()

    assert [str(stored(store, name).status) for name in names] == ["done", *("parked",) * 3]


def test_what_ends_a_worker_leaves_nothing_at_work(
    store: Store, virtual: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a batch cannot be ended its leases run out: nothing renews them, others may begin."""
    queue(store, 3)
    at_work = AtWork()

    def broken(*_: object) -> None:
        raise RuntimeError("not to be expected")

    monkeypatch.setattr(Batch, "_finish", broken)
    worker, _ = quick(store, virtual, {"demo": lambda *_: 1}, at_work=at_work)
    with pytest.raises(RuntimeError, match="not to be expected"):
        worker.run(until_empty=True)

    assert at_work.run_ids() == ()
    assert worker._keeper._kept == []
    virtual.advance(30)
    assert store.runs.claim_next("heir", timedelta(seconds=1))


def test_a_lease_lost_in_the_middle(store: Store, virtual: Time) -> None:
    """What another has taken meanwhile is neither begun nor ended here; the rest is as it was."""
    queue(store, 5)
    began: list[str] = []

    def handle(run: Run, _: Lease) -> JsonValue:
        began.append(run.run_id)
        if run.run_id == "r01":
            virtual.advance(31)
            for name in ("r00", "r03"):
                assert store.runs.claim(name, runner_id="other", lease=timedelta(days=1))
            worker.stop()
        return "done"

    worker, _ = quick(store, virtual, {"demo": handle})
    worker.run()

    assert began == ["r00", "r01"]
    for name in ("r00", "r03"):
        run = stored(store, name)
        assert (run.status, run.lease_holder, run.lease_generation) == ("starting", "other", 2)
    # What was done is done as long as nobody has taken it.
    assert (stored(store, "r01").status, stored(store, "r01").result) == ("done", "done")
    for name in ("r02", "r04"):
        assert transitions(store, name) == STEPS[:3]
        assert store.runs.claim(name, runner_id="heir", lease=timedelta(days=1))


def test_what_is_lost_before_its_turn_does_not_begin(store: Store, virtual: Time) -> None:
    """A handler is not called under a lease that is known to be lost; its run is left to others."""
    queue(store, 4)
    began: list[str] = []

    def handle(run: Run, _: Lease) -> None:
        began.append(run.run_id)
        if run.run_id == "r00":
            (kept,) = [k for k in worker._keeper._kept if k.lease.run_id == "r02"]
            kept.lease.lose()
        if run.run_id == "r03":
            worker.stop()

    worker, _ = quick(store, virtual, {"demo": handle})
    worker.run()

    assert began == ["r00", "r01", "r03"]
    assert transitions(store, "r02") == STEPS[:3]
    virtual.advance(30)
    assert store.runs.claim("r02", runner_id="heir", lease=timedelta(seconds=1))


def test_called_off_in_a_batch(store: Store, virtual: Time) -> None:
    """A run that is cancelled between claim and begin never begins; the others do (CAN-01)."""
    queue(store, 3)

    class CancelsSecond(AtWork):
        """Has somebody cancel a run right after it was claimed."""

        def enter(self, run_id: str) -> bool:
            if run_id == "r01":
                assert isinstance(store.runs.cancel(run_id), Cancelled)
            return super().enter(run_id)

    began: list[str] = []
    handlers: Mapping[str, Handler] = {"demo": lambda run, _: began.append(run.run_id)}
    worker, _ = quick(store, virtual, handlers, at_work=CancelsSecond())
    worker.run(until_empty=True)

    assert began == ["r00", "r02"]
    assert transitions(store, "r01") == ["reserve", "claim", "cancel"]


@pytest.mark.parametrize("how", ["fail", "given back"])
def test_cancellation_is_requested_in_a_batch(store: Store, virtual: Time, how: str) -> None:
    """A run of the batch that is to be cancelled ends as cancelled, unless it is done (CAN-02)."""
    queue(store, 4)

    def handle(run: Run, _: Lease) -> JsonValue | Failed:
        if run.run_id == "r00":
            for name in ("r01", "r02"):
                assert isinstance(store.runs.cancel(name), CancelRequested)
            if how == "given back":
                alarm.ring()
        return Failed(code="x", message="x") if run.run_id == "r01" else "done"

    worker, alarm = quick(store, virtual, {"demo": handle})
    worker.run(until_empty=True)

    ends = [stored(store, f"r{number:02}") for number in range(4)]
    expected = "done" if how == "fail" else "cancelled"
    assert [str(run.status) for run in ends] == ["done", "cancelled", expected, "done"]
    assert ends[2].cancel_requested_at is not None


def test_each_run_of_a_batch_ends_its_own_way(store: Store, virtual: Time) -> None:
    """One fails, one parks, one answers what is no JSON: the others are done all the same."""
    queue(store, 5)
    shared: dict[str, JsonValue] = {}

    def handle(run: Run, _: Lease) -> JsonValue | Park:
        shared["last"] = run.run_id
        match run.run_id:
            case "r01":
                raise ValueError("no")
            case "r02":
                return Park(waiting=True)
            case "r03":
                return {"bad": float("nan")}
            case _:
                return shared

    worker, _ = quick(store, virtual, {"demo": handle})
    worker.run(until_empty=True)

    runs = [stored(store, f"r{number:02}") for number in range(5)]
    assert [str(run.status) for run in runs] == ["done", "failed", "parked", "failed", "done"]
    assert [run.result for run in runs] == [{"last": "r00"}, None, None, None, {"last": "r04"}]
    assert [run.error_code for run in runs][1:4:2] == ["activation_failed", "input_invalid"]


def test_interactive_runs_have_their_turn_alone(store: Store, virtual: Time) -> None:
    """A batch begins with the next run of all: an interactive one is not passed over for ever.

    Its session waits for its end, so it is carried out alone.
    """
    reserve(store.runs, "talk", origin_session_id="s")
    claim = store.runs.claim("talk", runner_id="session", lease=timedelta(seconds=30))
    assert claim
    assert store.runs.park(claim)
    virtual.advance(1)
    queue(store, 30)
    order: list[tuple[str, int]] = []

    def handle(run: Run, _: Lease) -> None:
        order.append((run.run_id, at_once(store)))

    worker, _ = quick(store, virtual, {"demo": handle}, together=10)
    worker.run(until_empty=True)

    assert order[0] == ("talk", 1)
    assert order[1] == ("r00", 10)


def test_pins_hold_in_batches(store: Store, virtual: Time) -> None:
    """A batch holds nothing that is kept for another runner, and its own runner's runs first."""
    until = virtual.clock.now() + timedelta(days=1)
    queue(store, 3)
    reserve(store.runs, "others", affinity_runner_id="x", affinity_until=until)
    reserve(store.runs, "own", affinity_runner_id="w", affinity_until=until)
    reserve(store.runs, "own.2", affinity_runner_id="w", affinity_until=until)
    order: list[str] = []
    handlers: Mapping[str, Handler] = {"demo": lambda run, _: order.append(run.run_id)}
    worker, _ = quick(store, virtual, handlers)
    worker.run(until_empty=True)

    assert order == ["own", "own.2", "r00", "r01", "r02"]
    assert stored(store, "others").status is RunStatus.QUEUED


@pytest.mark.parametrize("why", ["one attempt", "lost before"])
def test_what_a_dead_worker_could_ruin_is_taken_alone(
    store: Store, virtual: Time, why: str
) -> None:
    """A run that one more dead worker would end, or that was lost before, is in no batch.

    A batch that would have held it is undone: nobody's attempt is used up, no history written.
    """
    queue(store, 6, max_attempts=2)
    if why == "lost before":
        assert store.runs.claim("r03", runner_id="dead", lease=timedelta(milliseconds=1))
        virtual.advance(1)
        assert store.runs.requeue("r03")
    else:
        assert store.runs.cancel("r03")
        reserve(store.runs, "r03.", max_attempts=1)
    seen: list[int] = []

    def handle(run: Run, _: Lease) -> None:
        seen.append(at_once(store))
        if run.run_id == "r00":
            assert transitions(store, "r01") == ["reserve"]
            assert stored(store, "r01").attempts == 0

    worker, _ = quick(store, virtual, {"demo": handle})
    worker.run(until_empty=True)

    assert seen == [1] * 6
    assert transitions(store, "r01") == STEPS


def test_what_has_no_handler_here_is_handed_back_from_a_batch(store: Store, virtual: Time) -> None:
    """Runs of other workflows are parked for other workers, once; the batch goes on without."""
    queue(store, 3)
    reserve(store.runs, "r01.", workflow="unknown")
    worker, _ = quick(store, virtual, {"demo": lambda *_: at_once(store)})
    worker.run(until_empty=True)

    assert [stored(store, f"r0{n}").result for n in range(3)] == [3] * 3
    assert transitions(store, "r01.") == ["reserve", "claim", "park"]


@pytest.mark.parametrize("moment", ["begin", "end"])
def test_trouble_in_a_batch_passes(tmp_path: Path, moment: str) -> None:
    """A database out of reach when a batch begins or ends costs nothing once it is back."""
    path = str(tmp_path / "locked.db")
    virtual = Time(ManualClock())
    with (
        open_store(path, clock=virtual.clock, busy_timeout=timedelta(milliseconds=1)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as hog,
    ):
        names = queue(store, 3)
        slept: list[float] = []

        def release(seconds: float) -> None:
            slept.append(seconds)
            virtual.advance(seconds)
            if hog.in_transaction and len(slept) > 4:
                hog.execute("ROLLBACK")

        class Blocks(AtWork):
            """Has somebody lock the database right after the last claim."""

            def enter(self, run_id: str) -> bool:
                if moment == "begin" and run_id == names[-1]:
                    hog.execute("BEGIN IMMEDIATE")
                return super().enter(run_id)

        def handle(run: Run, _: Lease) -> JsonValue:
            if moment == "end" and run.run_id == names[-1]:
                hog.execute("BEGIN IMMEDIATE")
            return run.run_id

        worker, _ = quick(store, virtual, {"demo": handle}, at_work=Blocks(), sleep=release)
        worker.run(until_empty=True)

        assert len(slept) > 4
        assert [stored(store, name).result for name in names] == names
        assert [transitions(store, name) for name in names] == [STEPS] * 3
