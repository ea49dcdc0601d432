"""A worker that dies in the middle of a batch: nothing is lost, nothing is at work twice."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import defaultdict
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from persistence import open_store
from persistence.hosts import Lease, Worker
from persistence.hosts.short_runs import LAST
from statemachine import RunStatus
from statemachine.machines import Run
from tests.hosts.virtual import reserve, stored, transitions

RUNS, TOGETHER, DEADLY = 24, 10, "r05"


def _work(url: str, log: str) -> None:
    """Drain a queue in batches; one of its runs kills whoever carries it out."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def handle(run: Run, lease: Lease) -> str:
        os.write(descriptor, f"{run.run_id} {lease.generation} start\n".encode())
        if run.run_id == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(descriptor, f"{run.run_id} {lease.generation} end\n".encode())
        return run.run_id

    with open_store(url) as store:
        worker = Worker(
            store,
            {"demo": handle},
            runner_id=f"w{os.getpid()}",
            lease=timedelta(seconds=1),
            renew_every=timedelta(seconds=0.3),
            poll=timedelta(seconds=0.1),
            together=TOGETHER,
        )
        for _ in range(LAST):
            worker._short.note(0.0)
        worker.run(until_empty=True)


@pytest.mark.slow
def test_a_deadly_run_ruins_no_other(database: str, tmp_path: Path) -> None:
    """A run that kills its workers until it is lost takes none of its batch along.

    Each of the others is done, with one attempt to spare for the batch that was killed; what had
    ended in that batch, but was not finished, is done once more, not beside itself.
    """
    url = str(tmp_path / "deadly.db") if database == ":memory:" else database
    log = tmp_path / "log"
    context = multiprocessing.get_context("spawn")
    names = [f"r{number:02}" for number in range(RUNS)]
    codes: list[int | None] = []
    begun: list[int] = []
    with open_store(url) as store:
        for name in names:
            reserve(store.runs, name, max_attempts=3 if name == DEADLY else 2)
        while 0 not in codes and len(codes) < 9:
            child = context.Process(target=_work, args=(url, str(log)))
            child.start()
            child.join(60)
            codes.append(child.exitcode)
            begun.append(store.runs.counts()[RunStatus.RUNNING])

        deadly = stored(store, DEADLY)
        assert codes == [-signal.SIGKILL] * 3 + [0]
        # The batch; then one by one, as their leases ran out, up to the deadly one, each time.
        assert begun == [TOGETHER, TOGETHER - DEADLY_AT, 1, 0]
        assert (deadly.status, deadly.error_code, deadly.attempts) == ("failed", "lost", 3)
        for name in names:
            if name != DEADLY:
                assert (stored(store, name).status, stored(store, name).result) == ("done", name)
                assert transitions(store, name)[-1] == "finish"
                assert transitions(store, name).count("finish") == 1

    told: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for line in log.read_text().splitlines():
        name, generation, what = line.split()
        told[name].append((int(generation), what))
    twice = [name for name in names if len(told[name]) > 2 and name != DEADLY]
    assert twice == names[:DEADLY_AT]
    for name in twice:
        assert told[name] == [(1, "start"), (1, "end"), (2, "start"), (2, "end")]
    for first, second in pairwise(told[DEADLY]):
        assert first[0] < second[0]


DEADLY_AT = int(DEADLY[1:])
