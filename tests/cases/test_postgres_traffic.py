"""Cases about PostgreSQL as others use it: poolers, time-outs, conflicts, cut calls."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from persistence import Claim, Store, open_store
from persistence.aio import AsyncStore, open_async_store
from statemachine import Refused, RunStatus
from statemachine.errors import CommitUnknown, StoreBusy, StoreUnavailable
from statemachine.machines import RUN_LAUNCH, Run
from statemachine.row_call import RowCall
from tests.proxy import Proxy

LEASE = timedelta(seconds=30)
LAUNCH: dict[str, Any] = {
    "workflow": "w",
    "source_ref": "r",
    "source": {},
    "definition_digest": "d",
}


def _claimed(store: Store, run_id: str = "r1") -> Claim:
    store.runs.reserve(run_id=run_id, **LAUNCH)
    claim = store.runs.claim(run_id, runner_id="a", lease=LEASE)
    assert isinstance(claim, Claim)
    assert store.runs.mark_running(claim)
    return claim


def _operations(store: Store, run_id: str) -> list[Callable[[], object]]:
    """Each kind of call once."""
    runs = store.runs
    return [
        partial(runs.reserve, run_id=run_id, **LAUNCH),
        partial(runs.claim_many, "a", LEASE, limit=2),
        partial(runs.get, run_id),
        partial(runs.pause, run_id),
        partial(runs.list, limit=3),
        runs.reap_due,
        store.events_after,
        partial(runs.cancel, run_id),
    ]


def test_pgt_03_nothing_depends_on_a_session(postgres_url: str) -> None:
    """PGT-03: statements, settings and locks of a session may vanish between two calls."""
    path = postgres_url.partition("search_path%3D")[2]
    plain = postgres_url.partition("?")[0]
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(f'ALTER SCHEMA "{path}" RENAME TO "{path}_"')
        connection.execute(f'CREATE SCHEMA "{path}"')
    with open_store(plain, schema=path, through_pooler=True, pool_size=1) as store:
        for number in range(10):
            for step in _operations(store, f"r{number}"):
                step()
                with store.engine.backend.session() as session:
                    session.script(("DEALLOCATE ALL", "RESET ALL"))

        ended = store.runs.list(statuses=(RunStatus.CANCELLED,))
    assert len(ended) == 10


def test_pgt_04_no_session_idles_in_a_transaction(postgres_url: str) -> None:
    """PGT-04: while a handler works, the library holds no transaction open."""
    separator = "&" if "?" in postgres_url else "?"
    del separator
    url = postgres_url.replace(
        "options=",
        "application_name=pgt04&options=-c%20idle_in_transaction_session_timeout%3D200%20",
    )
    with open_store(url) as store:
        claim = _claimed(store)
        seen = []
        with psycopg.connect(postgres_url, autocommit=True) as watcher:
            for _ in range(10):
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
    """PGT-05: batches over the same rows in opposite order, beside a reaper: no error escapes."""
    with open_store(postgres_url) as store:
        ids = [f"r{number:02}" for number in range(30)]
        for run_id in ids:
            store.runs.reserve(run_id=run_id, max_attempts=1, **LAUNCH)
        trouble: list[BaseException] = []
        done = threading.Event()

        def guarded(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException as error:
                trouble.append(error)
                raise

        def toggle(keys: list[str]) -> None:
            runs = store.machine(RUN_LAUNCH)
            for number in range(20):
                name = ("pause", "resume")[number % 2]
                runs.apply_many(name, [RowCall(key) for key in keys])

        def sweep() -> None:
            while not done.is_set():
                store.runs.reap_due()

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
        sweeper.join()

        assert trouble == []
        for run_id in ids:
            steps = store.runs.history(run_id)
            assert [step.revision for step in steps] == list(range(1, len(steps) + 1))


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
    """INT-06: who swallows an error that spoiled the transaction is told at its end."""
    with (
        open_store(postgres_url) as holder,
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

            with pytest.raises(StoreUnavailable, match="nothing of it was stored"):
                block()

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
            for number in range(50):
                await once(store, f"n{number}", block=False)
            assert len(await store.runs.list(limit=1_000)) == 71
            assert len(await store.runs.history("c0")) <= 2

    asyncio.run(told())
    with psycopg.connect(postgres_url, autocommit=True) as watcher:
        locked = watcher.execute(
            "SELECT count(*) FROM pg_locks WHERE relation = 'runs'::regclass"
        ).fetchone()
    assert locked == (0,)


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
