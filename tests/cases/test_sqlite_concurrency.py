"""Cases about several writers of one SQLite file; STO: `tests/test_files_and_faults.py`."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
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


def test_sqc_01_under_load_nobody_sees_a_lock(database: str) -> None:
    """SQC-01: eight writers at once, each in transactions that read before they write."""
    with open_store(database, busy_timeout=PATIENT) as store:

        def work(number: int) -> None:
            for step in range(10):
                run_id = f"r{number}-{step}"
                with store.transaction():
                    assert store.runs.get(run_id) is None
                    queue(store, run_id)
                    assert store.runs.get(run_id)
                assert store.runs.cancel(run_id)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(8)))

        assert len(store.runs.list(statuses=["cancelled"], limit=1_000)) == 80


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
        for number in range(160):
            queue(store, f"r{number:03}")
        taken: list[str] = []
        undone: list[str] = []

        def work(number: int) -> None:
            for step in range(20):
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

    assert len(undone) == 2
    assert sorted(taken) == sorted(set(taken)) == [run.run_id for run in done]
    assert len(taken) == 158
    assert len(queued) == 2


CROWD = 12
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
def crowd() -> Iterator[Callable[[list[str]], list[list[str]]]]:
    """Start processes that open databases at once."""
    context = get_context("spawn")
    gate = context.Barrier(CROWD)
    with ProcessPoolExecutor(CROWD, context, _enter, (gate,)) as pool:

        def run(urls: list[str]) -> list[list[str]]:
            parts = [pool.submit(_open_and_move, urls, f"r{number:02}") for number in range(CROWD)]
            return [part.result(300) for part in parts]

        yield run


@pytest.mark.slow
def test_sqc_06_twelve_processes_open_a_new_database_at_once(
    tmp_path: Path, postgres_server: str
) -> None:
    """SQC-06: the layout is made once, everybody's move is made, the log is kept; many rounds."""
    files = [str(tmp_path / f"new-{number}" / "runs.db") for number in range(8)]
    schemas = [f"crowd_{tmp_path.name.lower().replace('-', '_')}_{number}" for number in range(2)]
    with psycopg.connect(postgres_server, autocommit=True) as server:
        for schema in schemas:
            server.execute(f'CREATE SCHEMA "{schema}"'.encode())
        urls = [f"{postgres_server}?options=-csearch_path%3D{schema}" for schema in schemas]
        try:
            with crowd() as open_at_once:
                on_files = open_at_once(files)
                on_server = open_at_once(urls)
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
