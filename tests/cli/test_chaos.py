"""No lost and no double work: processes are killed and stopped at random while launches run."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from attrs import define, field

from persistence import CancelRequested, Store, open_store
from statemachine.interpret import holds
from statemachine.machines import RUN_LAUNCH, Run, RunStatus
from statemachine.outcome import Event
from tests.cli.programs import eventually, launch_file, start

LAUNCHES, WORKERS, LEASE_S, STOPPED_S = 200, 4, 2.0, 6.0
SEED = int(os.environ.get("SQLATCH_CHAOS_SEED", "20260101"))
SHORT_S, LONG_S = (0.05, 0.35), 1.2
LONG_EVERY = 10

# A command holds a lock of its own for as long as it lives: a second copy would find it taken.
COMMAND = """
import fcntl, os, sys, time
run_id, seconds, place = sys.argv[1], float(sys.argv[2]), sys.argv[3]
log = os.open(f"{place}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
lock = os.open(f"{place}/{run_id}.lock", os.O_WRONLY | os.O_CREAT)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    os.write(log, f"overlap {run_id}\\n".encode())
    sys.exit(9)
os.write(log, f"start {run_id}\\n".encode())
time.sleep(seconds)
os.write(log, f"end {run_id}\\n".encode())
"""


@define
class Havoc:
    """What is done to a running `sqlatch run`, and what became of it.

    Attributes:
        store: The same database, opened beside it.

        file: The launches.

        db: The database's path.

        chance: Draws moments and victims.

        running: The present `sqlatch run`.

        done: How often each thing was done.

        called_off: The runs whose cancellation was asked for.
    """

    store: Store
    file: str
    db: Path
    chance: random.Random
    running: subprocess.Popen[bytes] = field(init=False)
    done: Counter[str] = field(factory=Counter, init=False)
    called_off: list[str] = field(factory=list, init=False)
    _stopped: list[tuple[float, int]] = field(factory=list, init=False)

    def begin(self) -> None:
        """Start `sqlatch run`."""
        self.running = start(
            *("run", self.file, "--workers", str(WORKERS), "--lease", str(LEASE_S)), db=self.db
        )

    def end(self) -> None:
        """Leave nothing running."""
        with suppress(ProcessLookupError):
            os.killpg(self.running.pid, signal.SIGKILL)
        self.running.wait()

    def pause(self, low: float, high: float) -> None:
        """Let some time pass; what was stopped for long enough goes on."""
        until = time.monotonic() + self.chance.uniform(low, high)
        while time.monotonic() < until:
            self.wake()
            time.sleep(0.02)

    def wake(self, *, everybody: bool = False) -> None:
        """Continue the workers that have been stopped for six seconds."""
        for entry in list(self._stopped):
            if everybody or time.monotonic() - entry[0] > STOPPED_S:
                self._stopped.remove(entry)
                with suppress(ProcessLookupError):
                    os.kill(entry[1], signal.SIGCONT)

    def workers(self) -> list[int]:
        """Return the process ids of the workers that are not stopped."""
        path = Path(f"/proc/{self.running.pid}/task/{self.running.pid}/children")
        with suppress(FileNotFoundError):
            stopped = [pid for _, pid in self._stopped]
            return [pid for pid in map(int, path.read_text().split()) if pid not in stopped]
        return []

    def kill_everything(self) -> None:
        """`kill -9` of the whole process group, and start again."""
        with suppress(ProcessLookupError):
            os.killpg(self.running.pid, signal.SIGKILL)
        self.running.wait()
        self.done["everything"] += 1
        self.begin()

    def kill_one(self) -> None:
        """`kill -9` of one worker."""
        assert eventually(lambda: bool(self.workers()))
        os.kill(self.chance.choice(self.workers()), signal.SIGKILL)
        self.done["one"] += 1

    def stop_one(self) -> None:
        """SIGSTOP of one worker, for three times its lease."""
        assert eventually(lambda: bool(self.workers()))
        pid = self.chance.choice(self.workers())
        os.kill(pid, signal.SIGSTOP)
        self._stopped.append((time.monotonic(), pid))
        self.done["stopped"] += 1

    def kill_between_claim_and_start(self) -> None:
        """`kill -9` of a worker that has claimed a run and not yet marked it running."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            self.wake()
            for run in self.store.runs.list(statuses=(RunStatus.STARTING,)):
                if self._kill_holder(run, RunStatus.STARTING):
                    self.done["between"] += 1
                    return
        pytest.fail("no worker was caught between claim and start")

    def kill_while_cancelling(self) -> None:
        """`kill -9` of a worker whose run is to be cancelled, before it can know of it."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            self.wake()
            for run in self.store.runs.list(statuses=(RunStatus.RUNNING,)):
                if not run.run_id.startswith("long") or run.cancel_requested_at is not None:
                    continue
                self.called_off.append(run.run_id)
                if not isinstance(self.store.runs.cancel(run.run_id), CancelRequested):
                    continue
                if self._kill_holder(run, RunStatus.RUNNING):
                    self.done["cancelling"] += 1
                    return
            time.sleep(0.005)
        pytest.fail("no worker was caught with a requested cancellation")

    def _kill_holder(self, run: Run, status: RunStatus) -> bool:
        """Stop a run's worker; kill it if the run is still as it was seen, else let it go on."""
        pid = int((run.lease_holder or "").split("-")[-2])
        if pid not in self.workers():
            return False
        os.kill(pid, signal.SIGSTOP)
        now = self.store.runs.get(run.run_id)
        seen = (status, run.lease_generation)
        left = now is not None and (now.status, now.lease_generation) == seen
        os.kill(pid, signal.SIGKILL if left else signal.SIGCONT)
        return left


def launches(place: Path, chance: random.Random) -> list[dict[str, object]]:
    """Return short launches, every tenth somewhat longer, that log their start and their end."""
    given = []
    for number in range(LAUNCHES):
        long = number % LONG_EVERY == 0
        run_id = f"{'long' if long else 'short'}-{number}"
        seconds = LONG_S if long else chance.uniform(*SHORT_S)
        argv = [sys.executable, "-I", "-S", "-c", COMMAND, run_id, f"{seconds:.3f}", str(place)]
        given.append({"id": run_id, "command": argv, "max_attempts": 50})
    return given


def all_runs(store: Store) -> list[Run]:
    """Return every run."""
    return store.runs.list(limit=1_000)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="workers are found by /proc")
def test_no_lost_and_no_double_work(tmp_path: Path) -> None:
    """200 launches, killed at ten random moments: each ends once, none runs twice at once."""
    chance = random.Random(SEED)
    db, log = tmp_path / "chaos.db", tmp_path / "log"
    file = launch_file(tmp_path / "launches.jsonl", launches(tmp_path, chance))
    with open_store(str(db)) as store, ExitStack() as cleanup:
        havoc = Havoc(store, file, db, chance)
        havoc.begin()
        cleanup.callback(havoc.end)
        assert eventually(lambda: len(all_runs(store)) == LAUNCHES)
        deeds = [
            *(havoc.kill_everything, havoc.kill_everything, havoc.kill_everything),
            *(havoc.kill_one, havoc.kill_one, havoc.stop_one, havoc.stop_one),
            *(havoc.kill_between_claim_and_start, havoc.kill_while_cancelling),
            havoc.kill_while_cancelling,
        ]
        chance.shuffle(deeds)
        for deed in deeds:
            havoc.pause(0.5, 2.5)
            deed()
        while havoc.running.poll() is None:
            havoc.pause(0.1, 0.1)
        havoc.wake(everybody=True)
        code, runs = havoc.running.returncode, all_runs(store)
        histories = {run.run_id: store.runs.history(run.run_id, limit=1_000) for run in runs}
    lines = [line.split() for line in log.read_text().splitlines()]

    assert sum(havoc.done.values()) == len(deeds)
    assert havoc.done["between"] >= 1
    assert havoc.done["cancelling"] >= 1
    assert code == 4
    assert [line for line in lines if line[0] == "overlap"] == []
    assert_each_ended_once(runs, histories, lines, havoc.called_off)
    assert_invariants_hold(db)


def assert_each_ended_once(
    runs: list[Run],
    histories: dict[str, list[Event]],
    lines: list[list[str]],
    called_off: list[str],
) -> None:
    """Every launch has one final status, a history without gaps, and did what its status says."""
    statuses = Counter(run.status for run in runs)
    assert statuses.keys() <= {RunStatus.DONE, RunStatus.CANCELLED}
    assert statuses.total() == LAUNCHES
    cancelled = [run.run_id for run in runs if run.status is RunStatus.CANCELLED]
    assert cancelled
    assert all(run_id in called_off for run_id in cancelled)
    ends = Counter(run_id for what, run_id in lines if what == "end")
    starts = Counter(run_id for what, run_id in lines if what == "start")
    for run in runs:
        events = histories[run.run_id]
        assert [event.revision for event in events] == list(range(1, run.revision + 1))
        assert [event.dest for event in events if event.dest in RUN_LAUNCH.final] == [run.status]
        if run.status is RunStatus.DONE:
            assert 1 <= ends[run.run_id] <= starts[run.run_id]


def assert_invariants_hold(db: Path) -> None:
    """Every stored row satisfies every invariant, and the file is whole."""
    with closing(sqlite3.connect(db)) as raw:
        raw.row_factory = sqlite3.Row
        rows = [dict(row) for row in raw.execute("SELECT * FROM runs")]
        whole = raw.execute("PRAGMA integrity_check").fetchall()

    broken = [
        (row["run_id"], invariant.name)
        for row in rows
        for invariant in RUN_LAUNCH.invariants
        if holds(invariant.condition, row, {}, 0) is False
    ]
    assert len(rows) == LAUNCHES
    assert broken == []
    assert [tuple(row) for row in whole] == [("ok",)]
