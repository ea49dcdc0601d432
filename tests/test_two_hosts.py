"""Two worker hosts on one PostgreSQL: one is killed, the server restarts, and no run is lost."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from persistence import Store, open_store
from persistence.hosts import Lease, Worker
from statemachine import RunStatus
from statemachine.errors import SqlatchError
from statemachine.machines import RUN_LAUNCH, Run
from tests.servers import NoServer, restartable_server, server_programs

RUNS = 5_000
BATCH = 500
LAUNCH: dict[str, Any] = {
    "workflow": "w",
    "source_ref": "r",
    "source": {},
    "definition_digest": "d",
}


@pytest.fixture(name="server")
def _server() -> Iterator[tuple[str, Callable[[], None]]]:
    programs = server_programs()
    if programs is None:
        if os.environ.get("SQLATCH_REQUIRE_POSTGRES"):
            pytest.fail("NO PROGRAMS OF A POSTGRESQL SERVER")
        pytest.skip("NOT TESTED: no programs of a PostgreSQL server to start and restart one")
    try:
        with restartable_server(programs) as server:
            yield server
    except NoServer as reason:
        pytest.fail(str(reason))


def _host(url: str, name: str, log: str) -> None:
    """A worker host: each handler notes when it begins and ends."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(run_id: str, what: str) -> None:
        os.write(descriptor, f"{run_id} {name} {what} {time.monotonic_ns()}\n".encode())

    def handle(run: Run, _: Lease) -> None:
        note(run.run_id, "start")
        note(run.run_id, "end")

    with open_store(url) as store:
        Worker(
            store,
            {"w": handle},
            runner_id=name,
            lease=timedelta(seconds=4),
            renew_every=timedelta(seconds=1),
            poll=timedelta(milliseconds=200),
            concurrency=4,
        ).run(until_empty=True)


def _reserve(store: Store) -> None:
    for first in range(0, RUNS, BATCH):
        with store.transaction():
            for number in range(first, first + BATCH):
                store.runs.reserve(run_id=f"r{number:04}", **LAUNCH)


def _done(url: str) -> int:
    """Count what is done, also while the server is away."""
    try:
        with open_store(url, create=False, busy_timeout=timedelta(seconds=2)) as store:
            return _count(store)
    except SqlatchError:
        return 0


def _count(store: Store) -> int:
    total, after = 0, None
    while page := store.runs.list(statuses=(RunStatus.DONE,), limit=1_000, after=after):
        total += len(page)
        after = page[-1].run_id
    return total


def _await(url: str, count: int) -> None:
    deadline = time.monotonic() + 240
    while _done(url) < count:
        assert time.monotonic() < deadline, f"only {_done(url)} of {count} done"
        time.sleep(0.3)


def test_no_run_is_lost_or_done_twice_at_once(
    server: tuple[str, Callable[[], None]], tmp_path: Path
) -> None:
    """5,000 runs, a host killed halfway, the server restarted: each run ends once, unoverlapped."""
    url, restart = server
    log = str(tmp_path / "log")
    with open_store(url) as store:
        _reserve(store)
    context = multiprocessing.get_context("spawn")
    hosts = [context.Process(target=_host, args=(url, name, log)) for name in ("a", "b")]
    for host in hosts:
        host.start()

    _await(url, RUNS // 4)
    restart()
    _await(url, RUNS // 2)
    assert hosts[0].pid is not None
    os.kill(hosts[0].pid, signal.SIGKILL)
    hosts[1].join(timeout=300)

    assert hosts[1].exitcode == 0
    assert _done(url) == RUNS
    _check_log(Path(log))
    with open_store(url) as store:
        _check_histories(store)


def _check_log(log: Path) -> None:
    """Executions of one run, ordered by their beginning, never overlap."""
    spans: dict[str, list[tuple[int, int | None, str]]] = defaultdict(list)
    for line in log.read_text().splitlines():
        run_id, host, what, at = line.split()
        if what == "start":
            spans[run_id].append((int(at), None, host))
        else:
            begun, _, _ = spans[run_id][-1]
            spans[run_id][-1] = (begun, int(at), host)

    assert len(spans) == RUNS
    for run_id, executions in spans.items():
        for (_, end, host), (begun, _, _) in pairwise(executions):
            assert (end is None and host == "a") or (end is not None and end <= begun), run_id


def _check_histories(store: Store) -> None:
    cursor, steps = None, defaultdict(list)
    while (page := store.events_after(cursor, 1_000)).events:
        cursor = page.cursor
        for event in page.events:
            steps[event.key].append(event)

    assert len(steps) == RUNS
    for run_id, events in steps.items():
        assert list(range(1, len(events) + 1)) == [event.revision for event in events], run_id
        finals = [e for e in events if getattr(e, "dest", None) in RUN_LAUNCH.final]
        assert [events[-1]] == finals, run_id
