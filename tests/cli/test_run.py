"""`run`, as a user runs it: real processes, real commands, interrupted and repeated."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from persistence import Store, open_store
from statemachine.machines import Run, RunStatus
from tests.cli.programs import ROOT, eventually, launch_file, sqlatch, start

PYTHON = sys.executable


def runs_in(db: Path) -> dict[str, Run]:
    """Return all runs of a database by id."""
    with open_store(str(db)) as store:
        return {run.run_id: run for run in store.runs.list(limit=1_000)}


def held_by(store: Store, run_id: str) -> int:
    """Wait until a run is running; return the process id of its worker."""
    found: list[str] = []

    def is_running() -> bool:
        run = store.runs.get(run_id)
        if run is None or run.status is not RunStatus.RUNNING:
            return False
        found.append(run.lease_holder or "")
        return True

    assert eventually(is_running)
    return int(found[-1].split("-")[-2])


def test_run_to_the_end_and_again(tmp_path: Path) -> None:
    """Launches are run, shown in the file's order, and run once however often it is repeated."""
    db, log = tmp_path / "run.db", tmp_path / "log"
    launches: list[dict[str, Any]] = [
        {"id": "good", "command": ["sh", "-c", f"echo ran >> {log}; cat"], "input": {"x": 1}},
        {"id": "bad", "command": ["sh", "-c", f"echo ran >> {log}; echo no >&2; exit 3"]},
        {"id": "slow", "command": ["sleep", "600"], "timeout": 0.3},
        {"id": "odd", "command": ["true"], "workflow": "report"},
    ]
    file = launch_file(tmp_path / "launches.jsonl", launches)

    first = sqlatch("run", file, "--workers", "2", db=db)
    second = sqlatch("run", file, "--workers", "2", db=db)
    shown = sqlatch("show", "good", db=db)

    assert [first.returncode, second.returncode] == [4, 4]
    assert first.stderr.startswith("4 launched, 0 known before\n")
    assert "bad failed exit status 3: no\n" in first.stderr
    assert second.stderr == "0 launched, 4 known before\n"
    for said in (first.stdout, second.stdout):
        names = [line.split("│")[1].strip() for line in said.splitlines() if line.startswith("│")]
        assert names == ["good", "bad", "slow", "odd"]
        assert said.splitlines()[-1] == "4 launches: 2 done, 2 failed"
    assert log.read_text() == "ran\nran\n"
    assert shown.stdout.endswith('--- stdout ---\n{"x": 1}\n--- stderr ---\n')


def test_all_good_exits_with_0(tmp_path: Path) -> None:
    """Without a failure the exit code is 0; the records are printed as JSON where asked for."""
    file = launch_file(tmp_path / "l", [{"id": "a", "command": ["true"]}])
    said = sqlatch("run", file, "--workers", "1", "--json", db=tmp_path / "run.db")

    assert (said.returncode, said.stderr) == (0, "")
    assert [run["status"] for run in json.loads(said.stdout)] == ["done"]


def test_what_cannot_be_run(tmp_path: Path) -> None:
    """A launch that is paused is left as it is, and `run` says that it was not run."""
    db = tmp_path / "run.db"
    file = launch_file(tmp_path / "l", [{"id": "a", "command": ["true"]}])
    sqlatch("launch", file, db=db)
    sqlatch("pause", "a", db=db)
    said = sqlatch("run", file, "--workers", "1", db=db)

    assert said.returncode == 1
    assert said.stderr.endswith("sqlatch: 1 launches could not be run; `sqlatch list` says why\n")


def test_interrupt_parks_and_a_repeat_goes_on(tmp_path: Path) -> None:
    """Ctrl-C stops gracefully: what ran is parked, and the same command carries on at once."""
    db, mark = tmp_path / "run.db", tmp_path / "mark"
    script = f"test -e {mark} || {{ touch {mark}; sleep 600; }}"
    file = launch_file(tmp_path / "l", [{"id": "a", "command": ["sh", "-c", script]}])
    with open_store(str(db)) as store:
        running = start("run", file, "--workers", "1", db=db)
        held_by(store, "a")
        assert eventually(mark.exists)
        os.killpg(running.pid, signal.SIGINT)
        code = running.wait(30)
        parked = store.runs.get("a")
        again = sqlatch("run", file, "--workers", "1", db=db)
        done = store.runs.get("a")

    assert parked is not None
    assert (code, parked.status, parked.lease_holder) == (130, "parked", None)
    assert done is not None
    assert (again.returncode, done.status) == (0, "done")


def test_killed_worker_is_replaced(tmp_path: Path) -> None:
    """`kill -9` of the only worker costs a lease, not the run."""
    db, log = tmp_path / "run.db", tmp_path / "log"
    script = f"echo begun >> {log}; sleep 1.5; echo ended >> {log}"
    file = launch_file(tmp_path / "l", [{"id": "a", "command": ["sh", "-c", script]}])
    with open_store(str(db)) as store:
        running = start("run", file, "--workers", "1", "--lease", "2", db=db)
        pid = held_by(store, "a")
        assert eventually(log.exists)
        os.kill(pid, signal.SIGKILL)
        code = running.wait(60)
        run = store.runs.get("a")

    assert run is not None
    assert (code, run.status, run.attempts, run.lease_generation) == (0, "done", 2, 2)
    assert log.read_text() == "begun\nbegun\nended\n"


def test_worker_that_stays_stopped(tmp_path: Path) -> None:
    """A worker that is stopped for good holds nothing up: its run is taken, and `run` ends."""
    db, mark = tmp_path / "run.db", tmp_path / "mark"
    script = f"test -e {mark} || {{ touch {mark}; sleep 600; }}"
    file = launch_file(tmp_path / "l", [{"id": "a", "command": ["sh", "-c", script]}])
    with open_store(str(db)) as store:
        running = start("run", file, "--workers", "2", "--lease", "1", db=db)
        pid = held_by(store, "a")
        assert eventually(mark.exists)
        os.kill(pid, signal.SIGSTOP)
        code = running.wait(60)
        run = store.runs.get("a")

    assert run is not None
    assert (code, run.status, run.lease_generation) == (0, "done", 2)
    assert not Path(f"/proc/{pid}").exists()


def test_work_serves_what_was_launched(tmp_path: Path) -> None:
    """`launch` and `work` are the two halves of `run`, for several hosts."""
    db = tmp_path / "run.db"
    launches = [{"id": f"r{n}", "command": ["sh", "-c", f"exit {n}"]} for n in range(3)]
    sqlatch("launch", launch_file(tmp_path / "l", launches), db=db)
    said = sqlatch("work", "--until-empty", "--concurrency", "3", db=db)

    assert said.returncode == 4
    assert sorted(said.stdout.splitlines()) == [
        "r0 done",
        "r1 failed exit status 1",
        "r2 failed exit status 2",
    ]


def test_worker_that_is_terminated(tmp_path: Path) -> None:
    """A worker without work stops at once when it is told to."""
    worker = start("work", db=tmp_path / "run.db")
    assert eventually((tmp_path / "run.db").exists)
    with open_store(str(tmp_path / "run.db")) as store:
        store.runs.reserve(
            run_id="a",
            workflow="command",
            source_ref="command:true",
            source={"kind": "command", "argv": ["true"], "cwd": None},
            definition_digest="sha256:0",
        )
        assert eventually(lambda: getattr(store.runs.get("a"), "status", "") == "done")
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(20) == 130


def test_password_is_on_no_command_line(tmp_path: Path) -> None:
    """The workers learn the database by their environment, not by arguments that anybody sees."""
    db, seen = tmp_path / "run.db", tmp_path / "seen"
    script = (
        "import os, pathlib\n"
        "guard = os.getppid()\n"
        "stat = pathlib.Path(f'/proc/{guard}/stat').read_text()\n"
        "worker = stat.rsplit(')', 1)[1].split()[1]\n"
        f"line = pathlib.Path(f'/proc/{{worker}}/cmdline').read_bytes()\n"
        f"pathlib.Path({str(seen)!r}).write_bytes(line)\n"
    )
    file = launch_file(tmp_path / "l", [{"command": [PYTHON, "-c", script]}])
    sqlatch("run", file, "--workers", "1", "--db", str(db), db=db)

    assert b"work" in seen.read_bytes()
    assert str(db).encode() not in seen.read_bytes()


@pytest.mark.slow
def test_examples_run_in_a_minute(tmp_path: Path) -> None:
    """The examples, at least 40 real commands, run to their end in well under a minute."""
    examples = Path(ROOT) / "examples" / "launches.jsonl"
    db = tmp_path / "run.db"
    said = sqlatch("run", str(examples), "--workers", "4", db=db, cwd=tmp_path)

    runs = runs_in(db)
    assert said.returncode == 4
    assert len(runs) == len(examples.read_text().splitlines()) >= 40
    failed = {run_id for run_id, run in runs.items() if run.status is RunStatus.FAILED}
    assert failed == {
        *("exit-1", "exit-3", "exception", "killed-by-itself", "no-such-program"),
        *("no-such-directory", "missing-file", "too-slow", "stubborn", "endless-output"),
    }
