"""The worker: every claimed run is carried out once, and ends, parks or is left as it should."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from persistence import CancelRequested, ManualClock, Store, open_store
from persistence.hosts import Done, Failed, Handler, Lease, Park, Worker
from persistence.hosts.at_work import AtWork
from persistence.hosts.inline import InlineExecutor
from statemachine.errors import InvalidArgument, LeaseLost, StoreBusy, StoreClosed
from statemachine.kinds import JsonValue
from statemachine.machines import Run, RunOutcome, RunStatus
from tests.hosts.virtual import Time, reserve, stored, transitions, worker_of

LEASE = timedelta(seconds=30)


@pytest.fixture
def virtual(clock: ManualClock) -> Time:
    """Virtual time, shared by store and worker; waiting moves it."""
    return Time(clock)


def worked(store: Store, virtual: Time, handler: Handler, **facts: Any) -> Run:
    """Have one run of the handler's workflow worked to its end; return it."""
    reserve(store.runs, "r1", **facts)
    worker_of(store, virtual, {"demo": handler}).run(until_empty=True)
    return stored(store)


def test_result_ends_the_run(store: Store, virtual: Time) -> None:
    """A handler is given the run and its lease; what it returns is the result of a done run."""

    def double(run: Run, lease: Lease) -> JsonValue:
        assert isinstance(run.input, int)
        return {"doubled": run.input * 2, "of": lease.run_id, "status": run.status}

    run = worked(store, virtual, double, input=21)

    assert (run.status, run.outcome) == (RunStatus.DONE, RunOutcome.COMPLETED)
    assert run.result == {"doubled": 42, "of": "r1", "status": "running"}
    assert transitions(store) == ["reserve", "claim", "mark_running", "finish"]


def test_outcome_of_a_done_run(store: Store, virtual: Time) -> None:
    """A handler may say how the run ended, such as at a checkpoint."""
    run = worked(store, virtual, lambda *_: Done({"at": 3}, RunOutcome.CHECKPOINTED))

    assert (run.status, run.outcome, run.result) == ("done", "checkpointed", {"at": 3})


def test_raised_error_fails_the_run(store: Store, virtual: Time) -> None:
    """A handler that raises fails its run, with one line that holds no secret."""

    def fail(_: Run, __: Lease) -> JsonValue:
        raise ValueError("cannot log in:\npassword=hunter2 is wrong")

    run = worked(store, virtual, fail)

    assert (run.status, run.outcome) == ("failed", "failed")
    assert run.error_code == "activation_failed"
    assert run.error_message == "cannot log in: password=[redacted] is wrong"


@pytest.mark.parametrize("raised", [True, False])
def test_failure_with_its_own_code(store: Store, virtual: Time, *, raised: bool) -> None:
    """A handler may say how its run has failed, and keep a result."""
    failed = Failed(code="tooBig", message="no", outcome=RunOutcome.TIMED_OUT, result=[1])

    def fail(_: Run, __: Lease) -> Failed:
        if raised:
            raise failed
        return failed

    run = worked(store, virtual, fail)

    assert (run.status, run.outcome) == ("failed", "timed_out")
    assert (run.error_code, run.error_message, run.result) == ("tooBig", "no", [1])


def test_result_that_is_no_json(store: Store, virtual: Time) -> None:
    """A result that cannot be stored fails the run, with the reason."""
    run = worked(store, virtual, lambda *_: {"bad": float("nan")})

    assert (run.status, run.error_code) == ("failed", "input_invalid")
    assert run.error_message == "result must be JSON with finite numbers"


@pytest.mark.parametrize("raised", [True, False])
def test_parked_until_woken(store: Store, virtual: Time, *, raised: bool) -> None:
    """A handler may lay its run aside until somebody wakes it."""
    calls = []

    def park(run: Run, _: Lease) -> Park:
        calls.append(run.run_id)
        if raised:
            raise Park(waiting=True)
        return Park(waiting=True)

    run = worked(store, virtual, park)

    assert (run.status, run.waiting, calls) == ("parked", True, ["r1"])


def test_parked_until_later(store: Store, virtual: Time) -> None:
    """A handler may lay its run aside until an instant; the worker then takes it again."""
    times: list[float] = []

    def twice(_: Run, __: Lease) -> JsonValue | Park:
        times.append(virtual.steady)
        if len(times) == 1:
            return Park(available_at=virtual.clock.now() + timedelta(seconds=5))
        return "done"

    run = worked(store, virtual, twice)

    assert run.status is RunStatus.DONE
    assert times[1] - times[0] >= 5


@pytest.mark.parametrize("answer", ["raise", "park", "fail"])
def test_requested_cancellation_wins(store: Store, virtual: Time, answer: str) -> None:
    """With a cancellation requested a run that fails or parks is cancelled (CAN-02)."""

    def cancelled(run: Run, _: Lease) -> Failed | Park:
        assert isinstance(store.runs.cancel(run.run_id), CancelRequested)
        if answer == "park":
            return Park()
        if answer == "fail":
            return Failed(code="x", message="x")
        raise RuntimeError("interrupted")

    run = worked(store, virtual, cancelled)

    assert (run.status, run.outcome, run.error_code) == ("cancelled", "cancelled", "cancelled")


def test_done_in_spite_of_a_requested_cancellation(store: Store, virtual: Time) -> None:
    """Work that was done before anybody noticed is done, and the request stays on record."""

    def finish(run: Run, _: Lease) -> JsonValue:
        store.runs.cancel(run.run_id)
        return "done"

    run = worked(store, virtual, finish)

    assert run.status is RunStatus.DONE
    assert run.cancel_requested_at is not None


def test_called_off_before_it_began(store: Store, virtual: Time) -> None:
    """A run that is cancelled between claim and start never starts (CAN-01)."""
    calls: list[str] = []

    class CancelsOnClaim(AtWork):
        """Has somebody cancel each run right after it was claimed."""

        def enter(self, run_id: str) -> bool:
            store.runs.cancel(run_id)
            return super().enter(run_id)

    reserve(store.runs, "r1")
    handlers: Mapping[str, Handler] = {"demo": lambda run, _: calls.append(run.run_id)}
    worker_of(store, virtual, handlers, at_work=CancelsOnClaim()).run(until_empty=True)

    assert (stored(store).status, calls) == ("cancelled", [])


def test_lost_lease_writes_nothing_more(store: Store, virtual: Time) -> None:
    """A worker whose run was taken by another changes nothing of it any more."""

    def lose(run: Run, lease: Lease) -> JsonValue:
        virtual.advance(31)
        taken = store.runs.claim(run.run_id, runner_id="other", lease=timedelta(days=1))
        assert taken
        if run.input == "check":
            lease.check()
        if run.input == "raise":
            raise RuntimeError("late")
        return "late"

    for given in ("check", "raise", "return"):
        reserve(store.runs, given, input=given)
    worker = worker_of(store, virtual, {"demo": lose})
    worker._pace.idle = lambda *_, **__: worker.stop()  # type: ignore[method-assign]  # one look
    worker.run()

    runs = [stored(store, given) for given in ("check", "raise", "return")]
    assert [(run.status, run.lease_holder) for run in runs] == [("starting", "other")] * 3


def test_own_copy_is_not_started_beside(store: Store, virtual: Time) -> None:
    """A run whose lease was lost is not taken again here while its handler has not returned."""
    at_work = AtWork()
    reserve(store.runs, "r1")
    seen: list[RunStatus] = []

    def lose(_: Run, __: Lease) -> JsonValue:
        virtual.advance(31)
        calls: list[str] = []
        handlers: Mapping[str, Handler] = {"demo": lambda run, _: calls.append(run.run_id)}
        beside = worker_of(store, virtual, handlers, runner_id="b", at_work=at_work)
        beside._pace.idle = lambda *_, **__: beside.stop()  # type: ignore[method-assign]  # one look
        beside.run()
        assert calls == []
        seen.append(stored(store).status)
        elsewhere = worker_of(store, virtual, handlers, runner_id="c")
        elsewhere.run(until_empty=True)
        assert calls == ["r1"]
        return "late"

    worker_of(store, virtual, {"demo": lose}, at_work=at_work).run(until_empty=True)

    assert seen == [RunStatus.RUNNING]
    assert stored(store).result is None


def test_run_without_a_handler_is_handed_back(store: Store, virtual: Time) -> None:
    """A run that nobody here can carry out is parked for others, once, without a hot loop."""
    reserve(store.runs, "r1", workflow="unknown")
    reserve(store.runs, "r2")
    worker = worker_of(store, virtual, {"demo": lambda *_: "done"})
    before = virtual.steady
    worker.run(until_empty=True)

    run = stored(store)
    assert transitions(store) == ["reserve", "claim", "park"]
    assert (run.status, run.waiting, run.attempts) == ("parked", False, 0)
    assert run.available_at <= virtual.clock.now() + timedelta(seconds=3)
    assert stored(store, "r2").status is RunStatus.DONE
    assert virtual.steady - before < 10


def test_another_worker_takes_what_was_handed_back(store: Store, virtual: Time) -> None:
    """What one worker has no handler for another one gets."""
    reserve(store.runs, "r1", workflow="special")
    worker_of(store, virtual, {}).run(until_empty=True)
    worker_of(store, virtual, {"special": lambda *_: "done"}).run(until_empty=True)

    assert stored(store).status is RunStatus.DONE


def test_fallback_finds_a_handler(store: Store, virtual: Time) -> None:
    """A handler may be found by anything else of the run."""
    reserve(store.runs, "r1", workflow="any")
    worker_of(store, virtual, {}, fallback=lambda run: lambda *_: run.source).run(until_empty=True)

    assert stored(store).result == {"of": "any"}


def test_left_run_is_taken_up(store: Store, virtual: Time) -> None:
    """A worker that is to stop when all is done waits for what a dead one had begun."""
    reserve(store.runs, "r1")
    claim = store.runs.claim_next("dead", LEASE)
    assert claim
    assert store.runs.mark_running(claim)

    worker_of(store, virtual, {"demo": lambda *_: "done"}).run(until_empty=True)

    run = stored(store)
    assert (run.status, run.lease_generation, run.attempts) == ("done", 2, 2)


def test_worn_out_and_cancelled_runs_are_reaped(store: Store, virtual: Time) -> None:
    """At each poll the worker ends what nobody may take any more, and tells of it."""
    for run_id in ("worn", "cancelled"):
        reserve(store.runs, run_id, max_attempts=1 if run_id == "worn" else None)
        claim = store.runs.claim(run_id, runner_id="dead", lease=LEASE)
        assert claim
        assert store.runs.mark_running(claim)
    store.runs.cancel("cancelled")
    told: list[tuple[str, RunStatus]] = []

    worker_of(
        store,
        virtual,
        {"demo": lambda *_: 1},
        on_end=lambda run: told.append((run.run_id, run.status)),
    ).run(until_empty=True)

    assert sorted(told) == [("cancelled", "cancelled"), ("worn", "failed")]
    assert stored(store, "worn").error_code == "lost"


def test_paused_and_waiting_runs_are_not_waited_for(store: Store, virtual: Time) -> None:
    """A queue in which nothing can move by itself is empty."""
    reserve(store.runs, "r1")
    store.runs.pause("r1")
    worker_of(store, virtual, {"demo": lambda *_: 1}).run(until_empty=True)

    assert stored(store).status is RunStatus.QUEUED


def test_worker_runs_again(store: Store, virtual: Time) -> None:
    """A worker that has emptied the queue can be run again, and still renews its leases."""
    expiries: list[bool] = []

    def watch(_: Run, lease: Lease) -> JsonValue:
        before = lease.deadline
        virtual.steady += 11
        until = time.monotonic() + 10
        while lease.deadline == before and time.monotonic() < until:
            # The keeper's thread waits in real time, unless something makes it look.
            with worker._keeper._changed:
                worker._keeper._changed.notify()
            time.sleep(0.01)
        expiries.append(lease.deadline > before)
        return "done"

    worker = worker_of(store, virtual, {"demo": watch})
    for run_id in ("r1", "r2"):
        reserve(store.runs, run_id)
        worker.run(until_empty=True)

    assert (stored(store, "r2").status, expiries) == ("done", [True, True])


def test_run_pinned_elsewhere_is_not_waited_for(store: Store, virtual: Time) -> None:
    """A worker does not stay for a run that is kept for another runner."""
    until = virtual.clock.now() + timedelta(days=1)
    reserve(store.runs, "r1", affinity_runner_id="other", affinity_until=until)
    worker_of(store, virtual, {"demo": lambda *_: 1}).run(until_empty=True)

    assert stored(store).status is RunStatus.QUEUED


def test_stop_parks_what_runs(store: Store, virtual: Time) -> None:
    """A stop is seen by the handler, which parks; nothing more is claimed."""
    for run_id in ("r1", "r2"):
        reserve(store.runs, run_id)

    def until_stopped(_: Run, lease: Lease) -> Park:
        before = lease.stop_requested
        worker.stop()
        assert (before, lease.stop_requested) == (False, True)
        return Park()

    worker = worker_of(store, virtual, {"demo": until_stopped})
    worker.run()

    assert [stored(store, run_id).status for run_id in ("r1", "r2")] == ["parked", "queued"]


def test_stop_before_the_start(store: Store, virtual: Time) -> None:
    """A run that was claimed when the stop came is parked without being started."""
    calls: list[str] = []

    class StopsOnClaim(AtWork):
        """Stops the worker right after a claim."""

        def enter(self, run_id: str) -> bool:
            worker.stop()
            return super().enter(run_id)

    reserve(store.runs, "r1")
    handlers: Mapping[str, Handler] = {"demo": lambda run, _: calls.append(run.run_id)}
    worker = worker_of(store, virtual, handlers, at_work=StopsOnClaim())
    worker.run()

    assert (stored(store).status, calls) == ("parked", [])


def test_stop_cancels_where_that_was_requested(store: Store, virtual: Time) -> None:
    """A stopped worker ends as cancelled what was to be cancelled."""

    def stopped(run: Run, _: Lease) -> Park:
        store.runs.cancel(run.run_id)
        worker.stop()
        return Park()

    reserve(store.runs, "r1")
    worker = worker_of(store, virtual, {"demo": stopped})
    worker.run()

    assert stored(store).status is RunStatus.CANCELLED


def test_interrupted_handler_is_parked(store: Store, virtual: Time) -> None:
    """Ctrl-C in a handler parks its run and ends the worker."""

    def interrupt(_: Run, __: Lease) -> JsonValue:
        raise KeyboardInterrupt

    reserve(store.runs, "r1")
    with pytest.raises(KeyboardInterrupt):
        worker_of(store, virtual, {"demo": interrupt}).run()

    assert stored(store).status is RunStatus.PARKED


def test_concurrency_is_bounded(tmp_path: Path) -> None:
    """At most as many handlers run at a time as was said, and as many where there is work."""
    gate = threading.Barrier(3, timeout=20)
    lock = threading.Lock()
    now_running: list[str] = []
    most: list[int] = []

    def meet(run: Run, _: Lease) -> JsonValue:
        with lock:
            now_running.append(run.run_id)
            most.append(len(now_running))
        gate.wait()
        with lock:
            now_running.remove(run.run_id)
        return None

    with open_store(str(tmp_path / "many.db")) as store:
        for n in range(9):
            reserve(store.runs, f"r{n}")
        Worker(store, {"demo": meet}, runner_id="w", concurrency=3).run(until_empty=True)
        done = store.runs.list(statuses=(RunStatus.DONE,))

    assert (len(done), max(most)) == (9, 3)


def test_renewals_stop_last(database: str, tmp_path: Path) -> None:
    """A stopping worker keeps its lease for as long as its handler needs (HBT-03)."""

    def slow(_: Run, __: Lease) -> JsonValue:
        worker.stop()
        until = time.monotonic() + 1.2
        while time.monotonic() < until:
            store.runs.reap_due()
            assert not other.runs.claim_next("other", timedelta(seconds=1))
            time.sleep(0.05)
        return "done"

    url = str(tmp_path / "stopping.db") if database == ":memory:" else database
    with open_store(url) as store, open_store(url) as other:
        reserve(store.runs, "r1", max_attempts=1)
        worker = Worker(
            store,
            {"demo": slow},
            runner_id="w",
            lease=timedelta(seconds=0.5),
            renew_every=timedelta(seconds=0.1),
        )
        worker.run()
        run = stored(store)

    assert (run.status, run.lease_generation) == ("done", 1)


def test_database_out_of_reach(tmp_path: Path) -> None:
    """A worker bears with a database out of reach for its patience, then says why it gives up."""
    path = str(tmp_path / "locked.db")
    virtual = Time(ManualClock())
    with open_store(path, clock=virtual.clock, busy_timeout=timedelta(milliseconds=1)) as store:
        worker = worker_of(store, virtual, {}, patience=timedelta(seconds=60))
        began = virtual.steady
        with closing(sqlite3.connect(path)) as hog:
            hog.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusy):
                worker.run()

    assert 60 < virtual.steady - began < 70


def test_database_back_in_reach(tmp_path: Path) -> None:
    """Trouble that passes within the patience costs nothing, also when a result is recorded."""
    path = str(tmp_path / "locked.db")
    virtual = Time(ManualClock())
    with (
        open_store(path, clock=virtual.clock, busy_timeout=timedelta(milliseconds=1)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as hog,
    ):
        reserve(store.runs, "r1")
        began = virtual.steady

        def release_in_time(seconds: float) -> None:
            virtual.advance(seconds)
            if hog.in_transaction and virtual.steady - began > 5:
                hog.execute("ROLLBACK")

        def block(_: Run, __: Lease) -> JsonValue:
            hog.execute("BEGIN IMMEDIATE")
            return "done"

        worker = worker_of(store, virtual, {"demo": block}, sleep=release_in_time)
        worker.run(until_empty=True)

        assert virtual.steady - began > 5
        assert stored(store).result == "done"


@pytest.mark.parametrize("at_work", [True, False], ids=["at work", "waiting"])
def test_a_worker_ends_with_its_store(database: str, *, at_work: bool) -> None:
    """What is closed never answers again: it asks once, and has no patience."""
    held, closed = threading.Event(), threading.Event()
    ended: list[BaseException] = []

    def work(_: Run, __: Lease) -> JsonValue:
        held.set()
        assert closed.wait(60)
        return None

    def run() -> None:
        try:
            worker.run()
        except StoreClosed as error:
            ended.append(error)

    store = open_store(database)
    long = timedelta(hours=1)
    worker = Worker(store, {"demo": work}, runner_id="w", lease=long, patience=long)
    if at_work:
        reserve(store.runs, "r1")
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert held.wait(30 if at_work else 0.2) == at_work
    store.close()
    closed.set()
    thread.join(60)

    assert [str(error) for error in ended] == ["the store is closed"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0},
        {"together": 0},
        {"together": 101},
        {"poll": timedelta()},
        {"lease": timedelta(seconds=10), "renew_every": timedelta(seconds=5)},
    ],
    ids=str,
)
def test_senseless_worker(store: Store, virtual: Time, wrong: dict[str, Any]) -> None:
    """A worker that could not keep a lease, or do anything, is refused when it is made."""
    with pytest.raises(InvalidArgument):
        worker_of(store, virtual, {}, **wrong)


def test_inline_executor_keeps_errors() -> None:
    """Work that is done at once still tells its outcome by its future."""

    def lose() -> None:
        raise LeaseLost("r1", 1)

    assert InlineExecutor().submit(lambda: 3).result() == 3
    with pytest.raises(LeaseLost):
        InlineExecutor().submit(lose).result()
