"""Cases about PostgreSQL as others use it: poolers, time-outs, conflicts, cut calls."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from persistence import Claim, Store, open_store
from persistence.aio import AsyncStore, open_async_store
from persistence.stores.run_holding import Finish
from statemachine import Refused, RunStatus
from statemachine.errors import CommitUnknown, StoreBusy, StoreUnavailable
from statemachine.machines import RUN_LAUNCH, Run
from statemachine.row_call import RowCall
from tests.proxy import Proxy
from tests.stores.owed import notify, owe, taken

LEASE = timedelta(seconds=30)
LAUNCH: dict[str, Any] = {
    "workflow": "w",
    "source_ref": "r",
    "source": {},
    "definition_digest": "d",
}
BORN: dict[str, Any] = {"workflow": "w", "source_ref": "r"}


def _claimed(store: Store, run_id: str = "r1") -> Claim:
    store.runs.reserve(run_id=run_id, **LAUNCH)
    claim = store.runs.claim(run_id, runner_id="a", lease=LEASE)
    assert isinstance(claim, Claim)
    assert store.runs.mark_running(claim)
    return claim


def _operations(store: Store, name: str) -> Iterator[Callable[[], object]]:
    """Each kind of call once, in an order in which each of them moves or finds something."""
    runs, session = store.runs, f"s-{name}"
    claims: dict[str, Claim] = {}

    def take(call: Callable[[], object]) -> bool:
        claim = call()
        taken = claim[0] if isinstance(claim, list) else claim
        assert isinstance(taken, Claim)
        claims[taken.run_id] = taken
        return taken.run_id == name

    def block() -> bool:
        with store.transaction():
            return bool(runs.pause(name)) and bool(runs.resume(name))

    yield partial(runs.reserve, run_id=name, **LAUNCH)
    yield partial(take, partial(runs.claim, name, runner_id="a", lease=LEASE))
    yield lambda: runs.mark_running(claims[name])
    yield lambda: runs.renew(claims[name], lease=LEASE)
    yield lambda: runs.verify(claims[name])
    yield lambda: runs.park(claims[name], waiting=True)
    yield partial(runs.wake, name)
    yield partial(take, partial(runs.claim_next, "a", LEASE))
    yield block
    yield lambda: runs.append_event(name, type="noted")
    yield lambda: runs.park(claims[name])
    yield partial(take, partial(runs.claim_many, "a", LEASE, limit=2))
    yield lambda: all(runs.finish_many([Finish(claims[name])]))
    yield partial(runs.get, name)
    yield partial(runs.list, limit=3)
    yield partial(runs.history, name)
    yield partial(store.events_after, None, 3)
    yield lambda: runs.reap_due() == []
    yield partial(runs.enqueue, run_id=f"{name}.2", runner_id="a", lease=LEASE, **BORN)
    yield partial(runs.cancel, f"{name}.2")
    yield partial(owe, store, f"i-{name}", run_id=name, target_session_id=session, eligible=True)
    yield partial(taken, store, f"i-{name}", session_id=session)
    yield partial(notify, store, run_id=name, target_session_id=session)
    yield partial(store.notifications.claim_batch, session, holder="a", lease=LEASE)


@contextmanager
def _elsewhere(store: Store) -> Iterator[None]:
    """Lend the store's present connection to another thread, so that a call gets another one."""
    has, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with store.engine.backend.session():
            has.set()
            let_go.wait(30)

    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(hold)
        assert has.wait(30)
        yield
        let_go.set()
        held.result()


def test_pgt_03_nothing_depends_on_a_session(postgres_url: str) -> None:
    """PGT-03: statements, settings and locks of a session may vanish between two calls.

    So may the session itself: every other call is made by another backend than the one before.
    """
    path = postgres_url.partition("search_path%3D")[2]
    plain = postgres_url.partition("?")[0]
    with open_store(plain, schema=path, through_pooler=True, pool_size=2) as store:
        backends = set()
        for number in range(10):
            for turn, step in enumerate(_operations(store, f"r{number}")):
                with _elsewhere(store) if turn % 2 else nullcontext():
                    answer = step()
                    with store.engine.backend.session() as session:
                        session.script(("DEALLOCATE ALL", "RESET ALL"))
                        rows, _ = session.execute("SELECT pg_backend_pid()", {})
                assert answer, (turn, answer)
                backends.add(rows[0][0])

        ended = store.runs.list(statuses=(RunStatus.DONE, RunStatus.CANCELLED))
    assert len(ended) == 20
    assert len(backends) == 2


def test_pgt_04_no_session_idles_in_a_transaction(postgres_url: str) -> None:
    """PGT-04: while a handler works, the library holds no transaction open."""
    url = postgres_url.replace(
        "options=",
        "application_name=pgt04&options=-c%20idle_in_transaction_session_timeout%3D200%20",
    )
    with open_store(url) as store:
        claim = _claimed(store)
        seen = []
        with psycopg.connect(postgres_url, autocommit=True) as watcher:
            for _ in range(20):
                time.sleep(0.05)
                seen += watcher.execute(
                    "SELECT state FROM pg_stat_activity WHERE application_name = 'pgt04'"
                ).fetchall()
        renewed = store.runs.renew(claim, lease=LEASE)
        assert isinstance(renewed, Claim)
        done = store.runs.finish(renewed)

    assert isinstance(done, Run)
    assert seen
    assert not [state for (state,) in seen if "transaction" in str(state)]


def test_pgt_05_opposite_batches_and_a_sweep_do_not_deadlock(postgres_url: str) -> None:
    """PGT-05: batches over the same rows in opposite order, beside a reaper: no error escapes.

    Their leases run out one after the other meanwhile, so that the reaper ends them under way.
    """
    with open_store(postgres_url) as store:
        ids = [f"r{number:02}" for number in range(50)]
        for number, run_id in enumerate(ids):
            store.runs.reserve(run_id=run_id, max_attempts=1, **LAUNCH)
            lease = timedelta(milliseconds=300 + 40 * number)
            assert store.runs.claim(run_id, runner_id="a", lease=lease)
        trouble: list[BaseException] = []
        reaped: list[str] = []
        done = threading.Event()

        def guarded(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException as error:
                trouble.append(error)
                raise

        def toggle(keys: list[str]) -> None:
            runs = store.machine(RUN_LAUNCH)
            for number in range(100):
                name = ("pause", "resume")[number % 2]
                runs.apply_many(name, [RowCall(key) for key in keys])

        def sweep() -> None:
            while not done.is_set() or len(reaped) < len(ids):
                reaped.extend(run.run_id for run in store.runs.reap_due())

        batches = [
            threading.Thread(target=guarded, args=(lambda keys=keys: toggle(keys),))
            for keys in (ids, ids[::-1])
        ]
        sweeper = threading.Thread(target=guarded, args=(sweep,))
        for thread in (*batches, sweeper):
            thread.start()
        for thread in batches:
            thread.join()
        done.set()
        sweeper.join(60)

        assert trouble == []
        assert sorted(reaped) == ids
        for run_id in ids:
            steps = store.runs.history(run_id, limit=1_000)
            assert [step.revision for step in steps] == list(range(1, len(steps) + 1))
            assert [step.transition for step in steps].count("reap") == 1
            assert steps[-1].transition == "reap"


@pytest.mark.parametrize("heard", [False, True], ids=["before", "after"])
def test_int_03_a_cut_finish_is_resolved(postgres_url: str, *, heard: bool) -> None:
    """INT-03: the answer is "unknown"; a look tells; the same call ends it once."""
    with Proxy(postgres_url) as proxy, open_store(proxy.url, through_pooler=True) as store:
        claim = _claimed(store)
        proxy.cut_on(b"UPDATE runs", forward_first=heard)

        with pytest.raises(CommitUnknown) as trouble:
            store.runs.finish(claim, call="end")
        looked = store.runs.get("r1")
        again = store.runs.finish(claim, call="end")

        assert trouble.value.call == "end"
        assert looked is not None
        assert looked.status is (RunStatus.DONE if heard else RunStatus.RUNNING)
        assert isinstance(again, Run)
        assert (again.status, again.attempts) == (RunStatus.DONE, 1)
        steps = [step.transition for step in store.runs.history("r1")]
        assert steps == ["reserve", "claim", "mark_running", "finish"]


def test_int_06_a_spoiled_block_is_not_passed_off_as_stored(postgres_url: str) -> None:
    """INT-06: who swallows an error that spoiled the transaction is told at its end.

    Nobody is woken for what was not stored.
    """
    with (
        open_store(postgres_url) as holder,
        open_store(postgres_url) as watcher,
        open_store(postgres_url, busy_timeout=timedelta(milliseconds=200)) as store,
    ):
        holder.runs.reserve(run_id="held", **LAUNCH)
        with holder.transaction():
            holder.runs.pause("held")

            def block() -> None:
                with store.transaction():
                    store.runs.reserve(run_id="mine", **LAUNCH)
                    with pytest.raises(StoreBusy):
                        store.runs.pause("held")

            while watcher.wait_for_change(timedelta(milliseconds=50)):
                pass  # what was reserved above
            with pytest.raises(StoreUnavailable, match="nothing of it was stored"):
                block()
            woken = watcher.wait_for_change(timedelta(milliseconds=200))

        assert not woken
        assert watcher.wait_for_change(timedelta(seconds=20))
        assert store.runs.get("mine") is None
        assert [step.transition for step in store.runs.history("held")] == ["reserve", "pause"]


def test_int_07_a_cancelled_task_leaves_no_transaction_behind(postgres_url: str) -> None:
    """INT-07: whenever a task is cancelled, the pool's next user finds a clean session."""
    chance = random.Random(3)

    async def once(store: AsyncStore, run_id: str, *, block: bool) -> None:
        if not block:
            await store.runs.reserve(run_id=run_id, call=run_id, **LAUNCH)
            return
        async with store.transaction():
            await store.runs.reserve(run_id=run_id, call=run_id, **LAUNCH)
            await store.runs.pause(run_id)

    async def told() -> None:
        async with await open_async_store(postgres_url, pool_size=3) as store:
            await once(store, "warm", block=True)
            for number in range(20):
                run_id = f"c{number}"
                task = asyncio.create_task(once(store, run_id, block=number % 2 == 0))
                await asyncio.sleep(chance.random() * 0.01)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                settled = await store.runs.reserve(run_id=run_id, call=run_id, **LAUNCH)
                assert settled.run_id == run_id
            assert _open_transactions(postgres_url) == 0
            for number in range(50):
                await once(store, f"n{number}", block=False)
            assert len(await store.runs.list(limit=1_000)) == 71
            assert len(await store.runs.history("c0")) <= 2
            assert _open_transactions(postgres_url) == 0

    asyncio.run(told())


def _open_transactions(url: str) -> int:
    """Count the sessions that hold a lock of the table, whether they are at work or idle."""
    with psycopg.connect(url, autocommit=True) as watcher:
        row = watcher.execute(
            "SELECT count(*) FROM pg_locks WHERE relation = 'runs'::regclass"
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls-back"])
def test_efx_03_a_slow_appender_is_not_passed_over(postgres_url: str, *, commits: bool) -> None:
    """EFX-03: a reader waits for the older transaction, and a rolled-back number stalls nothing."""
    with open_store(postgres_url) as store, open_store(postgres_url) as slow:
        store.runs.reserve(run_id="r1", **LAUNCH)
        start = store.events_after()
        while not start.events:
            start = store.events_after()

        def block() -> None:
            with slow.transaction():
                slow.runs.append_event("r1", type="first")
                store.runs.append_event("r1", type="second")
                assert store.events_after(start.cursor).events == ()
                if not commits:
                    raise ZeroDivisionError

        if commits:
            block()
        else:
            with pytest.raises(ZeroDivisionError):
                block()
        wanted = ["first", "second"] if commits else ["second"]
        types: list[str] = []
        cursor = start.cursor
        while len(types) < len(wanted):
            page = store.events_after(cursor)
            cursor = page.cursor
            types += [event.type for event in page.events if not hasattr(event, "transition")]

        assert types == wanted
        assert store.events_after(cursor).events == ()


def test_rty_04_a_transient_conflict_is_retried(postgres_url: str) -> None:
    """RTY-04: a serialization failure of the first two attempts is no failure of the call."""
    with open_store(postgres_url) as store:
        claim = _claimed(store)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("CREATE SEQUENCE tries")
            connection.execute(
                "CREATE FUNCTION stumble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " IF nextval('tries') <= 2 THEN"
                " RAISE EXCEPTION 'could not serialize' USING ERRCODE = '40001'; END IF;"
                " RETURN NEW; END $$"
            )
            connection.execute(
                "CREATE TRIGGER stumble BEFORE UPDATE ON runs"
                " FOR EACH ROW EXECUTE FUNCTION stumble()"
            )

        done = store.runs.finish(claim)

        assert isinstance(done, Run)
        steps = [step.transition for step in store.runs.history("r1")]
        assert steps == ["reserve", "claim", "mark_running", "finish"]


def test_stricter_isolation_is_tolerated(postgres_url: str) -> None:
    """Under REPEATABLE READ and SERIALIZABLE a race is still won once and explained."""
    for level in ("repeatable%20read", "serializable"):
        url = postgres_url.replace(
            "options=", f"options=-c%20default_transaction_isolation%3D'{level}'%20"
        ).replace("'", "")
        url = url.replace(level, level.replace("%20", "\\%20"))
        with open_store(url) as store:
            run_id = f"r-{level[:6]}"
            store.runs.reserve(run_id=run_id, **LAUNCH)
            answers: list[object] = []
            gate = threading.Barrier(4)

            def race(run_id: str = run_id, gate: threading.Barrier = gate) -> None:
                gate.wait()
                answers.append(store.runs.claim(run_id, runner_id="a", lease=LEASE))  # noqa: B023 - joined below

            threads = [threading.Thread(target=race) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

            assert [isinstance(answer, Claim) for answer in answers].count(True) == 1
            assert [isinstance(answer, Refused) for answer in answers].count(True) == 3
