"""Cases about several writers of one SQLite file; STO: `tests/test_files_and_faults.py`."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psycopg
import pytest

from persistence import Claim, open_store
from statemachine import Refused
from statemachine.errors import SqlatchError, StoreBusy
from tests.cases.launches import LEASE, queue, take
from tests.conftest import Capabilities

PATIENT = timedelta(seconds=60)


@pytest.fixture(name="lasting")
def _lasting(database: str, tmp_path: Path) -> str:
    """URL of a database that several processes can open."""
    return str(tmp_path / "lasting.db") if database == ":memory:" else database


def test_sqc_01_a_transaction_takes_the_write_lock_before_it_reads(
    database: str, capabilities: Capabilities
) -> None:
    """SQC-01: another writer waits; what was read is what is written upon.

    Where single rows are locked, a read locks none: the call decides upon the row as it is then.
    """
    entered, done = threading.Event(), threading.Event()
    with open_store(database, busy_timeout=PATIENT) as store:
        queue(store)

        def interfere() -> object:
            entered.wait()
            paused = store.runs.pause("r")
            done.set()
            return paused

        with ThreadPoolExecutor(1) as threads, store.transaction():
            before = store.runs.get("r")
            other = threads.submit(interfere)
            entered.set()
            done.wait(0.2)
            claim = take(store)
        paused = other.result()
        history = [event.transition for event in store.runs.history("r")]

    assert before is not None
    passed_by = {1, 2} if capabilities.row_locks else {1}
    assert claim.run.revision - before.revision in passed_by
    assert paused
    assert sorted(history) == ["claim", "pause", "reserve"]


def test_sqc_01_a_callers_stale_snapshot_is_busy_as_a_whole(tmp_path: Path) -> None:
    """SQC-01: a deferred transaction that began by reading can only be tried again whole."""
    path = str(tmp_path / "runs.db")
    with open_store(path) as store:
        queue(store)
        mine = sqlite3.connect(path, isolation_level=None)
        mine.execute("BEGIN")
        assert store.on(mine).runs.get("r")
        assert store.runs.pause("r")

        with pytest.raises(StoreBusy):
            store.on(mine).runs.cancel("r")
        with pytest.raises(StoreBusy):
            store.on(mine).runs.cancel("r")
        mine.execute("ROLLBACK")
        mine.execute("BEGIN IMMEDIATE")
        assert store.on(mine).runs.cancel("r")
        mine.execute("COMMIT")
        mine.close()

        assert [event.transition for event in store.runs.history("r")][-1] == "cancel"


def _write_upon_what_was_read(url: str, number: int) -> None:
    """Make 200 moves, in transactions that read before they write."""
    with open_store(url, busy_timeout=timedelta(seconds=3)) as store:
        _gate[0].wait(60)
        for step in range(100):
            run_id = f"r{number}-{step:03}"
            with store.transaction():
                assert store.runs.get(run_id) is None
                queue(store, run_id)
                assert store.runs.get(run_id)
                assert store.runs.cancel(run_id)


@pytest.mark.slow
def test_sqc_01_under_load_nobody_sees_a_lock(lasting: str) -> None:
    """SQC-01: eight processes at once, 200 moves each, a wait of at most 3 s for a lock."""
    with open_store(lasting) as store:
        with crowd(WRITERS) as pool:
            work = [pool.submit(_write_upon_what_was_read, lasting, n) for n in range(WRITERS)]
            for part in work:
                part.result(120)

        assert len(store.runs.list(statuses=["cancelled"], limit=1_000)) == WRITERS * 100


def test_sqc_03_every_statement_is_fetched_to_its_end(
    database: str, capabilities: Capabilities
) -> None:
    """SQC-03: for no, one and several rows; the count is right and the commit goes through."""
    with open_store(database) as store:
        for number in range(5):
            queue(store, f"r{number}")
        for rows in (0, 1, 3):
            with store.transaction():
                listed = store.runs.list(limit=rows or 1, statuses=["done"] if not rows else [])
                claims = store.runs.claim_many("w", LEASE, limit=rows) if rows else []
                assert isinstance(store.runs.claim("gone", runner_id="w", lease=LEASE), Refused)
                events = store.events_after(limit=rows or 1).events
                assert len(listed) == len(claims) == rows
                assert len(events) <= max(rows, 1)
            for claim in claims:
                assert store.runs.mark_running(claim)
                assert store.runs.finish(claim)
        if capabilities.reopens and not capabilities.server_clock:
            other = sqlite3.connect(database.removeprefix("sqlite:///"), timeout=0)
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
            other.close()
        left = store.runs.claim_next("w", LEASE)

    assert isinstance(left, Claim)
    assert left.run_id == "r4"


class Broken(Exception):
    """What a block raises."""


def test_sqc_05_an_error_in_one_threads_block_undoes_its_own_work_alone(database: str) -> None:
    """SQC-05: one store, eight threads; every tenth block of one of them raises."""
    with open_store(database, busy_timeout=PATIENT) as store:
        with store.transaction():
            for number in range(800):
                queue(store, f"r{number:03}")
        taken: list[str] = []
        undone: list[str] = []

        def work(number: int) -> None:
            for step in range(100):
                try:
                    with store.transaction():
                        claim = store.runs.claim_next(f"w{number}", LEASE)
                        assert isinstance(claim, Claim)
                        assert store.runs.finish(claim)
                        if number == 0 and step % 10 == 5:
                            undone.append(claim.run_id)
                            raise Broken  # noqa: TRY301  # the block's own error
                except Broken:
                    continue
                taken.append(claim.run_id)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(8)))
        done = store.runs.list(statuses=["done"], limit=1_000)
        queued = store.runs.list(statuses=["queued"], limit=1_000)

    assert len(undone) == 10
    assert sorted(taken) == sorted(set(taken)) == [run.run_id for run in done]
    assert len(taken) == 790
    assert len(queued) == 10


CROWD, WRITERS = 12, 8
_gate: list[Barrier] = []


def _enter(gate: Barrier) -> None:
    _gate.append(gate)


def _open_and_move(urls: list[str], name: str) -> list[str]:
    """Open each new database at the same moment as all others, and make one move in it."""
    said = []
    for url in urls:
        _gate[0].wait(60)
        try:
            with open_store(url, busy_timeout=PATIENT) as store:
                queue(store, name)
                take(store, name)
                said.append(str(store.journal_mode))
        except SqlatchError as error:
            said.append(repr(error))
    return said


@contextmanager
def crowd(size: int) -> Iterator[ProcessPoolExecutor]:
    """Start processes that meet before each round."""
    context = get_context("spawn")
    gate = context.Barrier(size)
    with ProcessPoolExecutor(size, context, _enter, (gate,)) as pool:
        yield pool


def _opened_by_all(pool: ProcessPoolExecutor, urls: list[str]) -> list[list[str]]:
    parts = [pool.submit(_open_and_move, urls, f"r{number:02}") for number in range(CROWD)]
    return [part.result(300) for part in parts]


@pytest.mark.slow
def test_sqc_06_twelve_processes_open_a_new_database_at_once(
    tmp_path: Path, postgres_server: str
) -> None:
    """SQC-06: the layout is made once, everybody's move is made, the log is kept; 40 rounds.

    In each of them some come while the log of those who are done is being removed.
    """
    files = [str(tmp_path / f"new-{number}" / "runs.db") for number in range(40)]
    schemas = [f"crowd_{tmp_path.name.lower().replace('-', '_')}_{number}" for number in range(2)]
    with psycopg.connect(postgres_server, autocommit=True) as server:
        for schema in schemas:
            server.execute(f'CREATE SCHEMA "{schema}"'.encode())
        urls = [f"{postgres_server}?options=-csearch_path%3D{schema}" for schema in schemas]
        try:
            with crowd(CROWD) as pool:
                on_files = _opened_by_all(pool, files)
                on_server = _opened_by_all(pool, urls)
            found = []
            for url in (*files, *urls):
                with open_store(url, create=False) as store:
                    found.append([(run.run_id, run.status) for run in store.runs.list()])
        finally:
            for schema in schemas:
                server.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())

    assert on_files == [["wal"] * len(files)] * CROWD
    assert on_server == [["None"] * len(schemas)] * CROWD
    everybody = {(f"r{number:02}", "starting") for number in range(CROWD)}
    assert [set(runs) for runs in found] == [everybody] * len(found)
