"""The store for asyncio: the same answers, awaited; leases that a busy loop cannot lose."""

from __future__ import annotations

import asyncio
import gc
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from datetime import timedelta
from typing import Any

import pytest

from persistence import ManualClock, open_store
from persistence.aio import AsyncLease, AsyncStore, AsyncWorker, keep, open_async_store
from persistence.aio.faces import AsyncIntents, AsyncNotifications, AsyncRows, AsyncRuns
from persistence.hosts import LeaseKeeper, LeaseTerms
from persistence.hosts.short_runs import LAST
from persistence.hosts.steady import steady_seconds
from persistence.stores.intents import Intents
from persistence.stores.notifications import Notifications
from persistence.stores.rows import Rows
from persistence.stores.runs import Runs
from statemachine import Reason, Refused, RunStatus
from statemachine.errors import (
    InvalidArgument,
    LeaseLost,
    StoreClosed,
    StoreUnavailable,
    UniquenessConflict,
)
from statemachine.machines import Run
from tests.conftest import SQLITE_FILE, SQLITE_MEMORY, Capabilities
from tests.order import ORDER, OrderState

LEASE = timedelta(seconds=30)
LAUNCH: dict[str, Any] = {
    "workflow": "w",
    "source_ref": "ref",
    "source": {"a": 1},
    "definition_digest": "d",
}


@asynccontextmanager
async def _opened(database: str) -> AsyncIterator[AsyncStore]:
    async with await open_async_store(database, clock=ManualClock(), machines=(ORDER,)) as store:
        yield store


def _run(database: str, story: Callable[[AsyncStore], Awaitable[None]]) -> None:
    async def told() -> None:
        async with _opened(database) as store:
            await story(store)

    asyncio.run(told())


@pytest.mark.parametrize(
    ("sync", "awaited"),
    [
        (Runs, AsyncRuns),
        (Intents, AsyncIntents),
        (Notifications, AsyncNotifications),
        (Rows, AsyncRows),
    ],
)
def test_each_face_has_the_same_calls(sync: type, awaited: type) -> None:
    """Whatever the synchronous face offers, the asyncio one offers under the same name."""
    names = [
        sorted(name for name in vars(face) if not name.startswith("_")) for face in (sync, awaited)
    ]

    assert names[0] == names[1]
    assert [vars(sync)[n].__doc__ for n in names[0]] == [vars(awaited)[n].__doc__ for n in names[0]]


@pytest.mark.parametrize("used", [True, False])
def test_a_closed_store_says_so(database: str, *, used: bool) -> None:
    """Whatever is asked of it then, the answer is our own error; also where it was never used."""

    async def story() -> None:
        async with _opened(database) as store:
            if used:
                await store.runs.list()
        for call in (store.runs.list(), store.runs.reserve(run_id="r", **LAUNCH)):
            with pytest.raises(StoreUnavailable, match="the store is closed"):
                await call

    asyncio.run(story())


def test_who_waits_for_a_store_that_is_closed_is_told(database: str) -> None:
    """Of many calls at once each is answered, or told that the store was closed."""

    async def story() -> None:
        async with _opened(database) as store:
            calls = [asyncio.ensure_future(store.runs.list()) for _ in range(20)]
            await asyncio.sleep(0)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(answer) for answer in answers} <= {list, StoreClosed}

    asyncio.run(story())


@pytest.mark.parametrize(
    "capabilities", [SQLITE_MEMORY, SQLITE_FILE], indirect=True, ids=lambda backend: backend.name
)
def test_a_transaction_ends_with_the_store(database: str, capabilities: Capabilities) -> None:
    """A store is closed although a transaction is open; nothing of that is kept, nobody hangs."""

    async def story() -> None:
        go = asyncio.Event()

        async def write() -> None:
            async with store.transaction():
                await store.runs.reserve(run_id="r", **LAUNCH)
                go.set()
                await asyncio.sleep(0.1)
                await store.runs.reserve(run_id="s", **LAUNCH)

        async with _opened(database) as store:
            writing = asyncio.create_task(write())
            await go.wait()
        with pytest.raises(StoreUnavailable, match="the store is closed"):
            await writing

    asyncio.run(asyncio.wait_for(story(), 60))
    if capabilities.reopens:
        with open_store(database) as store:
            assert store.runs.list() == []


@pytest.mark.parametrize(
    "capabilities", [SQLITE_MEMORY, SQLITE_FILE], indirect=True, ids=lambda backend: backend.name
)
def test_a_cancelled_task_stays_cancelled(database: str) -> None:
    """Who is cancelled within a transaction of a store that is closed ends as cancelled."""

    async def story() -> None:
        begun = asyncio.Event()

        async def write() -> None:
            async with store.transaction():
                begun.set()
                await asyncio.sleep(60)

        async with _opened(database) as store:
            writing = asyncio.create_task(write())
            await begun.wait()
        writing.cancel()
        await asyncio.wait([writing])
        assert writing.cancelled()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_run_goes_from_reservation_to_end(database: str) -> None:
    """Reserve, claim, begin and finish answer as the synchronous store does."""

    async def story(store: AsyncStore) -> None:
        reserved = await store.runs.reserve(run_id="r1", **LAUNCH)
        claim = await store.runs.claim_next("a", LEASE)
        assert claim
        nothing = await store.runs.claim_next("b", LEASE)
        assert await store.runs.mark_running(claim)
        done = await store.runs.finish(claim, result=[1])
        late = await store.runs.finish(claim)
        steps = await store.runs.history("r1")
        page = await store.events_after()
        while len(page.events) < len(steps):  # until foreign write transactions have ended
            await asyncio.sleep(0.01)
            page = await store.events_after()

        assert RunStatus.QUEUED is reserved.status
        assert isinstance(nothing, Refused)
        assert Reason.NOTHING is nothing.reason
        assert isinstance(done, Run)
        assert (done.status, done.result) == (RunStatus.DONE, [1])
        assert isinstance(late, Refused)
        assert [s.transition for s in steps] == ["reserve", "claim", "mark_running", "finish"]
        assert list(page.events) == steps

    _run(database, story)


def test_many_tasks_claim_each_run_once(database: str) -> None:
    """Twenty tasks that claim at once share forty runs without taking one twice."""

    async def story(store: AsyncStore) -> None:
        for number in range(40):
            await store.runs.reserve(run_id=f"r{number}", **LAUNCH)
        taken: list[str] = []

        async def drain(name: str) -> None:
            while True:
                claim = await store.runs.claim_next(name, LEASE)
                if isinstance(claim, Refused):
                    if claim.reason is Reason.NOTHING:
                        return
                    continue
                taken.append(claim.run_id)

        await asyncio.gather(*(drain(f"t{n}") for n in range(20)))

        assert sorted(f"r{n}" for n in range(40)) == sorted(taken)

    _run(database, story)


def test_a_transaction_is_all_or_nothing_and_a_tasks_own(database: str) -> None:
    """What a block wrote is undone with it; a task that it started does not write in it."""

    async def story(store: AsyncStore) -> None:
        async def failing() -> None:
            async with store.transaction():
                await store.runs.reserve(run_id="r1", **LAUNCH)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await failing()
        async with store.transaction():
            await store.runs.reserve(run_id="r2", origin_session_id="s", **LAUNCH)
            with pytest.raises(UniquenessConflict):
                await store.runs.reserve(run_id="r3", origin_session_id="s", **LAUNCH)
            with pytest.raises(ZeroDivisionError):
                await failing()
            await store.runs.reserve(run_id="r4", **LAUNCH)

        assert [run.run_id for run in await store.runs.list()] == ["r2", "r4"]

    _run(database, story)


def test_a_task_that_is_cancelled_ends(database: str) -> None:
    """Also one that gets its connection in the very moment, of which Python 3.11 keeps silent."""

    async def for_ever(store: AsyncStore, name: str) -> None:
        for number in itertools.count():
            async with store.transaction():
                await store.runs.reserve(run_id=f"{name}-{number}", **LAUNCH)

    async def story() -> None:
        async with await open_async_store(database, pool_size=2) as store:
            for turn in range(10):
                names = [f"{turn}-{side}" for side in range(6)]
                tasks = [asyncio.create_task(for_ever(store, name)) for name in names]
                await asyncio.sleep(0.01 + 0.001 * turn)
                for task in tasks:
                    task.cancel()
                _, going_on = await asyncio.wait(tasks, timeout=30)
                assert not going_on
            assert len(await store.runs.list(limit=1)) == 1

    asyncio.run(story())


def test_a_cancelled_task_leaves_nothing_open(database: str) -> None:
    """Wherever a task is cancelled: what it began is undone or done whole, and nobody waits.

    A thread that is about to begin a transaction for it begins all the same.
    """

    async def story(store: AsyncStore) -> None:
        async def block(run_id: str) -> None:
            async with store.transaction():
                await store.runs.reserve(run_id=run_id, **LAUNCH)
                await store.runs.pause(run_id)

        async def cancelled(run_id: str, turns: int) -> None:
            task = asyncio.create_task(block(run_id))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        async with asyncio.timeout(60):
            for turns in range(12):
                await asyncio.gather(*(cancelled(f"c{turns}-{side}", turns) for side in range(6)))
                async with await _another(store, database) as other:
                    await other.runs.reserve(run_id=f"r{turns}", **LAUNCH)
                for run in await store.runs.list(limit=1_000):
                    assert run.paused or run.run_id.startswith("r")

    _run(database, story)


def test_nobody_is_told_of_an_error_that_nobody_waits_for(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal by the database is no news once the task that would hear it is cancelled."""

    async def story(store: AsyncStore) -> None:
        orders = store.machine(ORDER)
        await orders.create("place", {"order_id": "o", "basket": "b"})

        async def refused(order_id: str) -> None:
            await orders.create("place", {"order_id": order_id, "basket": "b"})

        for turns in range(8):
            task = asyncio.create_task(refused(f"o{turns}"))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError, UniquenessConflict):
                await task
        assert await orders.get("o") is not None

    _run(database, story)
    gc.collect()

    assert [record for record in caplog.records if record.name == "asyncio"] == []


async def _another(store: AsyncStore, database: str) -> AbstractAsyncContextManager[AsyncStore]:
    """Return another store on the database; the same one where the database is its own."""
    if database == ":memory:":
        return nullcontext(store)
    return await open_async_store(database, machines=(ORDER,), busy_timeout=timedelta(seconds=2))


def test_own_machines_are_awaited_too(database: str) -> None:
    """`machine(M)` has the same calls for a user's own machine."""

    async def story(store: AsyncStore) -> None:
        orders = store.machine(ORDER)
        await orders.create("place", {"order_id": "o", "basket": "b"})
        paid = await orders.apply("pay", "o")

        assert OrderState.PAID is paid.state

    _run(database, story)


def test_a_bad_value_is_refused_before_anything_is_written(database: str) -> None:
    """Arguments are validated as in the synchronous store."""

    async def story(store: AsyncStore) -> None:
        with pytest.raises(InvalidArgument, match="run_id"):
            await store.runs.reserve(run_id="r1\n", **LAUNCH)

        assert await store.runs.list() == []

    _run(database, story)


def test_a_handler_that_blocks_the_loop_loses_no_lease(database: str) -> None:
    """Renewals go on while a handler keeps the loop busy for longer than its lease."""
    runs: list[bool] = []

    async def blocking(_: Run, lease: AsyncLease) -> str:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            pass
        runs.append(lease.held)
        await lease.check()
        return "done"

    async def told() -> None:
        async with await open_async_store(database) as store:
            await store.runs.reserve(run_id="r1", **LAUNCH)
            worker = AsyncWorker(
                store,
                {"w": blocking},
                runner_id="a",
                lease=timedelta(seconds=1),
                renew_every=timedelta(milliseconds=200),
                poll=timedelta(milliseconds=50),
            )
            await asyncio.wait_for(worker.run(until_empty=True), 20)
            run = await store.runs.get("r1")
            assert run is not None
            assert (run.status, run.result, run.attempts) == (RunStatus.DONE, "done", 1)

    asyncio.run(told())
    assert runs == [True]


def test_a_worker_awaits_handlers_side_by_side_and_stops_gracefully(database: str) -> None:
    """Handlers run in one loop at once; a stop lets them park what they hold."""

    async def told() -> None:
        async with await open_async_store(database) as store:
            for number in range(3):
                await store.runs.reserve(run_id=f"r{number}", **LAUNCH)
            begun = 0

            async def patient(_: Run, lease: AsyncLease) -> None:
                nonlocal begun
                begun += 1
                while not lease.stop_requested:
                    if begun == 3:
                        worker.stop()
                    await asyncio.sleep(0.01)

            worker = AsyncWorker(
                store, {"w": patient}, runner_id="a", poll=timedelta(milliseconds=50), concurrency=3
            )
            await asyncio.wait_for(worker.run(), 20)
            statuses = [run.status for run in await store.runs.list()]

            assert begun == 3
            assert statuses == [RunStatus.DONE] * 3

    asyncio.run(told())


def test_short_handlers_are_awaited_in_batches(database: str) -> None:
    """A worker for coroutines makes batches as the other does; each run has its own result."""

    async def told() -> None:
        async with await open_async_store(database) as store:
            for number in range(80):
                await store.runs.reserve(run_id=f"r{number:02}", **LAUNCH)

            async def echo(run: Run, _: AsyncLease) -> str:
                return run.run_id

            with pytest.raises(InvalidArgument, match="together"):
                AsyncWorker(store, {"w": echo}, runner_id="a", together=0)
            worker = AsyncWorker(store, {"w": echo}, runner_id="a", concurrency=2, together=10)
            for _ in range(LAST):
                worker._worker._short.note(0.0)
            await asyncio.wait_for(worker.run(until_empty=True), 60)
            done = await store.runs.list(statuses=[RunStatus.DONE])

            assert [run.result for run in done] == [f"r{number:02}" for number in range(80)]

    asyncio.run(told())


def test_a_lost_lease_is_told_in_the_loop(database: str) -> None:
    """`keep` calls `on_lost` once in the loop; `check` then raises."""

    async def told() -> None:
        async with await open_async_store(database) as store:
            await store.runs.reserve(run_id="r1", **LAUNCH)
            terms = LeaseTerms(
                lease=timedelta(seconds=5), renew_every=timedelta(milliseconds=50), jitter=0
            )
            keeper = LeaseKeeper(store.sync.runs, terms)
            sent_at = steady_seconds()
            claim = await store.runs.claim_next("a", terms.lease)
            assert claim
            lost = asyncio.Event()
            async with keep(
                keeper, keeper.lease(claim, sent_at=sent_at), on_lost=lambda _: lost.set()
            ) as lease:
                assert await store.runs.cancel("r1")
                await asyncio.wait_for(lost.wait(), 10)

                assert not lease.held
                with pytest.raises(LeaseLost):
                    await lease.check()
            keeper.close()

    asyncio.run(told())


def test_both_call_styles_see_one_database(database: str) -> None:
    """What one wrote, the other reads: the synchronous store is at hand as `sync`."""

    async def told() -> None:
        async with await open_async_store(database) as store:
            await store.runs.reserve(run_id="r1", **LAUNCH)
            changed = await store.wait_for_change(timedelta(milliseconds=1))

            assert isinstance(changed, bool)
            assert store.sync.runs.get("r1") is not None

    asyncio.run(told())
