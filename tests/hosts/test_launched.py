"""Commands as runs: what they are given, and what is kept of them."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from persistence import Store, open_store
from persistence.hosts import Worker, is_command, run_command
from statemachine.kinds import canonical_json
from statemachine.machines import Run
from tests.hosts.virtual import reserve

PYTHON = sys.executable


@pytest.fixture
def real_store(tmp_path: Path) -> Store:
    """A store on a file, on the process's clock."""
    return open_store(str(tmp_path / "commands.db"))


def ran(store: Store, *argv: str, source: Any = None, **facts: Any) -> Run:
    """Run one command by a worker; return its run."""
    store.runs.reserve(
        run_id="r1",
        workflow="command",
        source_ref="command:test",
        source=source or {"kind": "command", "argv": list(argv), "cwd": None},
        definition_digest="sha256:0",
        **facts,
    )
    worker = Worker(
        store,
        {"command": run_command},
        runner_id="w",
        lease=timedelta(seconds=10),
        renew_every=timedelta(seconds=3),
        poll=timedelta(seconds=0.1),
    )
    worker.run(until_empty=True)
    run = store.runs.get("r1")
    assert run is not None
    store.close()
    return run


def test_result_of_a_command(real_store: Store) -> None:
    """Exit 0 is done; exit code, output and duration are kept."""
    run = ran(real_store, "sh", "-c", "echo out; echo err >&2")

    assert run.status == "done"
    assert isinstance(run.result, dict)
    assert run.result.pop("seconds") < 30
    assert run.result == {
        "exit_code": 0,
        "stdout": "out\n",
        "stderr": "err\n",
        "stdout_dropped_bytes": 0,
        "stderr_dropped_bytes": 0,
    }


def test_other_exit(real_store: Store) -> None:
    """Another exit is a failure that says its status and last words, with the output kept."""
    run = ran(real_store, "sh", "-c", "echo out; echo 'token=abc is bad' >&2; exit 7")

    assert (run.status, run.outcome, run.error_code) == ("failed", "failed", "exitStatus")
    assert run.error_message == "exit status 7: token=[redacted] is bad"
    assert isinstance(run.result, dict)
    assert (run.result["exit_code"], run.result["stdout"]) == (7, "out\n")


def test_timeout(real_store: Store) -> None:
    """A command that outlasts its timeout has failed as timed out, with the output kept."""
    run = ran(real_store, "sh", "-c", "echo begun; sleep 600", launch_options={"timeout": 0.3})

    assert (run.status, run.outcome, run.error_code) == ("failed", "timed_out", "timedOut")
    assert isinstance(run.result, dict)
    assert run.result["stdout"] == "begun\n"


def test_input_is_json(real_store: Store) -> None:
    """The input goes to the command's standard input as one line of JSON."""
    run = ran(real_store, "cat", input={"n": [1, None], "name": "Zoë"})

    assert isinstance(run.result, dict)
    assert run.result["stdout"] == '{"n": [1, null], "name": "Zoë"}\n'


def test_no_input_is_empty(real_store: Store) -> None:
    """Without an input the command reads nothing."""
    run = ran(real_store, "wc", "-c")

    assert isinstance(run.result, dict)
    assert run.result["stdout"].strip() == "0"


def test_environment(real_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables are texts or taken from the worker; the run's id and generation are there too."""
    monkeypatch.setenv("WORKERS_OWN", "from the worker")
    script = 'echo "$GIVEN|$TAKEN|$SQLATCH_RUN_ID|$SQLATCH_GENERATION"'
    env = {"GIVEN": "as text", "TAKEN": {"from": "WORKERS_OWN"}}
    run = ran(real_store, "sh", "-c", script, launch_options={"env": env})

    assert isinstance(run.result, dict)
    assert run.result["stdout"] == "as text|from the worker|r1|1\n"


def test_missing_variable(real_store: Store) -> None:
    """A variable that the worker does not have fails the run by its name."""
    env = {"A": {"from": "NO_SUCH_VARIABLE"}}
    run = ran(real_store, "true", launch_options={"env": env})

    assert (run.status, run.error_code) == ("failed", "environmentMissing")
    assert run.error_message == "the worker's environment has no variable NO_SUCH_VARIABLE"


def test_command_that_cannot_start(real_store: Store) -> None:
    """A command that cannot be started has failed, and says why."""
    run = ran(real_store, "no-such-program")

    assert (run.status, run.error_code) == ("failed", "notStarted")
    assert run.error_message == "No such file or directory: no-such-program"


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "command"},
        {"kind": "command", "argv": []},
        {"kind": "command", "argv": [1]},
        {"kind": "command", "argv": ["true"], "cwd": 1},
    ],
    ids=str,
)
def test_source_that_is_no_command(real_store: Store, source: dict[str, object]) -> None:
    """A run that names no command fails; it does not break the worker."""
    run = ran(real_store, source=source)

    assert (run.status, run.error_code) == ("failed", "notACommand")


def test_worst_output_fits_the_record(real_store: Store) -> None:
    """Output that is no text is kept as U+FFFD, and the worst 64 KiB twice fit the result."""
    script = (
        "import os\n"
        "for fd in (1, 2):\n"
        "    os.write(fd, b'\\x00' * 5 + b'\\xff' * 5)\n"
        "    os.write(fd, b'\\x1b' * 65536)\n"
    )
    run = ran(real_store, PYTHON, "-c", script)

    assert run.status == "done"
    assert isinstance(run.result, dict)
    assert run.result["stdout"] == "\x1b" * 65_536
    assert run.result["stderr_dropped_bytes"] == 10
    assert len(canonical_json(run.result, "result", 1_048_576)) > 700_000


def test_output_that_is_no_text(real_store: Store) -> None:
    """Bytes that are no UTF-8, and U+0000, are kept as U+FFFD."""
    run = ran(real_store, PYTHON, "-c", "import os; os.write(1, b'a\\x00b\\xffc')")

    assert isinstance(run.result, dict)
    assert run.result["stdout"] == "a\ufffdb\ufffdc"


def test_cut_halves_no_character(real_store: Store) -> None:
    """Where the cut falls into a character its rest is left out."""
    run = ran(real_store, PYTHON, "-c", "import os; os.write(1, ('x' + '€' * 30_000).encode())")

    assert isinstance(run.result, dict)
    assert set(run.result["stdout"]) == {"€"}


def test_cancellation_ends_the_command(real_store: Store, tmp_path: Path) -> None:
    """A command whose cancellation is requested is killed, and its run ends as cancelled."""
    with open_store(str(tmp_path / "commands.db")) as other:
        cancel = [
            *(PYTHON, "-m", "persistence.cli", "cancel", "r1"),
            *("--db", str(tmp_path / "commands.db")),
        ]
        script = f"import subprocess, time; subprocess.run({cancel!r}); time.sleep(600)"
        run = ran(real_store, PYTHON, "-c", script)
        events = [event.transition for event in other.runs.history("r1")]

    assert run.status == "cancelled"
    assert events == ["reserve", "claim", "mark_running", "request_cancel", "abort"]


def test_what_is_a_command(real_store: Store) -> None:
    """A run is a command by the kind of its source, whatever its workflow is called."""
    other = reserve(real_store.runs, "r2")
    run = ran(real_store, "true")

    assert (is_command(run), is_command(other)) == (True, False)
