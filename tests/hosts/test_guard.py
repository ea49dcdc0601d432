"""Commands under guard: they end when their worker does, and nothing they say is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from persistence.hosts import command
from persistence.hosts.command import CommandEnd, CommandTask, How, run_guarded
from persistence.hosts.guard import KEPT_BYTES, Tail
from persistence.hosts.steady import CLOCK, steady_seconds

PYTHON = sys.executable
FOREVER = 3_600.0


@attrs.define
class FixedLease:
    """A lease of a given end that the test may change while a command runs under it."""

    work_until: float
    cancel_requested: bool = False
    stop_requested: bool = False

    @property
    def held(self) -> bool:
        """Whether its end has not come."""
        return steady_seconds() < self.work_until


def run(
    *argv: str,
    stdin: str = "",
    timeout_s: float | None = None,
    env: dict[str, str] | None = None,
    cwd: str | None = None,
    lease_s: float = FOREVER,
) -> CommandEnd:
    """Run a command under a lease of the given length."""
    task = CommandTask(argv=argv, stdin=stdin, timeout_s=timeout_s, env=env or {}, cwd=cwd)
    return run_guarded(task, FixedLease(steady_seconds() + lease_s))


def alive(pid: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually(holds: Callable[[], bool], *, seconds: float = 10.0) -> bool:
    """Wait until it holds."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def pid_in(path: Path) -> int:
    """Wait for a file that a command writes its process id to."""
    assert eventually(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def test_output_and_exit_status() -> None:
    """Exit status and both streams come back."""
    end = run("sh", "-c", "echo out; echo err >&2; exit 3")

    assert (end.how, end.code, end.stdout, end.stderr) == (How.EXITED, 3, b"out\n", b"err\n")
    assert end.dropped == (0, 0)


def test_death_by_signal() -> None:
    """A command that a signal ends reports that signal as a negative code."""
    assert run("sh", "-c", "kill -TERM $$").code == -signal.SIGTERM


def test_input_reaches_the_command() -> None:
    """The command reads its input to the end, however long it is."""
    text = "x" * 1_000_000

    end = run(PYTHON, "-c", "import sys; print(len(sys.stdin.read()))", stdin=text)

    assert end.stdout == b"1000000\n"


def test_ignored_input_blocks_nothing() -> None:
    """A command that leaves its input unread ends as if it had none."""
    assert run("true", stdin="x" * 1_000_000).code == 0


def test_much_output_keeps_its_end() -> None:
    """Of megabytes on both streams the last 64 KiB of each are kept, and the rest is counted."""
    script = (
        "import sys\n"
        "for n in range(200_000):\n"
        "    sys.stdout.write(f'{n:9}\\n'); sys.stderr.write(f'{-n:9}\\n')\n"
    )

    end = run(PYTHON, "-c", script)

    assert (len(end.stdout), len(end.stderr)) == (KEPT_BYTES, KEPT_BYTES)
    assert end.stdout.endswith(b"   199999\n")
    assert end.stderr.endswith(b"  -199999\n")
    assert end.dropped == (2_000_000 - KEPT_BYTES, 2_000_000 - KEPT_BYTES)


@pytest.mark.parametrize("size", [KEPT_BYTES - 1, KEPT_BYTES, KEPT_BYTES + 1])
def test_last_words_are_kept(size: int) -> None:
    """All that a command wrote right before its exit is there, up to the bound."""
    end = run(PYTHON, "-c", f"import os; os.write(1, b'x' * {size}); os._exit(0)")

    assert min(size, KEPT_BYTES) == len(end.stdout)


def test_timeout_kills_the_whole_group(tmp_path: Path) -> None:
    """At its timeout a command dies with its children, even those that ignore signals."""
    script = f"trap '' TERM INT HUP; sleep 600 & echo $! > {tmp_path}/pid; wait"

    end = run("sh", "-c", script, timeout_s=0.5)

    assert (end.how, end.code) == (How.TIMEOUT, -signal.SIGKILL)
    assert eventually(lambda: not alive(pid_in(tmp_path / "pid")))


def test_background_child_does_not_hold_the_end_up(tmp_path: Path) -> None:
    """A background child that keeps the output open ends with its command."""
    end = run("sh", "-c", f"sleep 600 & echo $! > {tmp_path}/pid; echo done")

    assert (end.how, end.code, end.stdout) == (How.EXITED, 0, b"done\n")
    assert end.seconds < 60
    assert eventually(lambda: not alive(pid_in(tmp_path / "pid")))


def test_detached_flood_does_not_hold_the_end_up(tmp_path: Path) -> None:
    """A child in a session of its own that writes for ever does not keep the guard reading."""
    end = run("sh", "-c", f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec yes' & sleep 0.3; exit 4")
    os.kill(pid_in(tmp_path / "pid"), signal.SIGKILL)

    assert (end.how, end.code) == (How.EXITED, 4)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has left the group")
def test_force_reaches_those_that_left_the_group(tmp_path: Path) -> None:
    """A command that is ended by force takes along what it had detached from its group."""
    script = f"setsid sh -c 'setsid sleep 600 & echo $! > {tmp_path}/pid; wait' & wait"

    end = run("sh", "-c", script, timeout_s=0.5)

    assert end.how == How.TIMEOUT
    assert eventually(lambda: not alive(pid_in(tmp_path / "pid")))


def test_unrenewed_lease_ends_the_command() -> None:
    """The command is killed when the deadline passes and nobody has told a later one."""
    begun = steady_seconds()
    end = run("sleep", "600", lease_s=0.4)

    assert end.how == How.LEASE
    # From before the start: a busy machine takes much of the lease to start a process.
    assert 0.4 <= steady_seconds() - begun < 30


def test_renewals_keep_the_command_running() -> None:
    """A command runs on for as long as later deadlines are told."""

    class Renewed:
        """A lease that is renewed every time somebody looks."""

        cancel_requested = stop_requested = False
        held = True

        @property
        def work_until(self) -> float:
            return steady_seconds() + 0.5

    end = run_guarded(CommandTask(argv=["sleep", "1.2"]), Renewed())

    assert (end.how, end.code) == (How.EXITED, 0)


def test_nothing_starts_after_the_deadline(tmp_path: Path) -> None:
    """A command whose lease has run out already is never started."""
    end = run("touch", str(tmp_path / "started"), lease_s=-0.001)

    assert (end.how, end.code) == (How.LEASE, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wish", ["cancel_requested", "stop_requested"])
def test_wishes_end_the_command(wish: str) -> None:
    """A requested cancellation or stop ends the command."""
    lease = FixedLease(steady_seconds() + FOREVER)
    setattr(lease, wish, True)

    assert run_guarded(CommandTask(argv=["sleep", "600"]), lease).how == How.STOPPED


@pytest.mark.parametrize(
    ("argv", "cwd", "error"),
    [
        (["no-such-program"], None, "No such file or directory: no-such-program"),
        (["/dev/null"], None, "Permission denied: /dev/null"),
        (["true"], "/no/such/directory", "No such file or directory: /no/such/directory"),
    ],
)
def test_command_that_cannot_start(argv: list[str], cwd: str | None, error: str) -> None:
    """A command that cannot be started says why."""
    end = run(*argv, cwd=cwd)

    assert (How.UNSTARTABLE, error) == (end.how, end.error)


def test_environment_and_directory(tmp_path: Path) -> None:
    """The command sees this process's variables, those given on top, and its directory."""
    os.environ["SQLATCH_TEST_OWN"] = "own"
    try:
        end = run(
            "sh",
            "-c",
            'echo "$SQLATCH_TEST_OWN $GIVEN"; pwd',
            env={"GIVEN": "gïven"},
            cwd=str(tmp_path),
        )
    finally:
        del os.environ["SQLATCH_TEST_OWN"]

    assert f"own gïven\n{tmp_path}\n" == end.stdout.decode()


def test_command_holds_no_pipe_of_the_guard() -> None:
    """A command inherits its three streams and nothing else, and no ignored signals."""
    script = "import os, signal; print(sorted(os.listdir('/proc/self/fd'), key=int)[:-1])"

    assert run(PYTHON, "-c", script).stdout == b"['0', '1', '2']\n"
    ignored = int(run("sh", "-c", "grep SigIgn /proc/self/status").stdout.split()[1], 16)
    # make ignores the C library's own signals 32 and 33, which nobody can set.
    assert ignored & 0x7FFFFFFF == 0


def start_worker(tmp_path: Path, *, lease_s: float) -> subprocess.Popen[bytes]:
    """Start a process, in a group of its own, that runs an endless command under guard."""
    script = f"""
import sys
from persistence.hosts.command import CommandTask, run_guarded
from persistence.hosts.steady import steady_seconds
from tests.hosts.test_guard import FixedLease
command = "sleep 600 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/pid; wait"
task = CommandTask(argv=["sh", "-c", command])
end = run_guarded(task, FixedLease(steady_seconds() + {lease_s}))
print(end.how)
"""
    return subprocess.Popen(
        [PYTHON, "-c", script], process_group=0, stdout=subprocess.PIPE, cwd=Path.cwd()
    )


def test_killed_worker_group_takes_the_command_along(tmp_path: Path) -> None:
    """`kill -9` of the worker's whole process group ends the command and its children."""
    worker = start_worker(tmp_path, lease_s=FOREVER)
    pid, child = pid_in(tmp_path / "pid"), pid_in(tmp_path / "child")

    os.killpg(worker.pid, signal.SIGKILL)
    worker.communicate()

    assert eventually(lambda: not alive(pid) and not alive(child))


def test_stopped_worker_loses_the_command(tmp_path: Path) -> None:
    """A worker that is stopped past its lease finds its command ended, and is told why."""
    worker = start_worker(tmp_path, lease_s=2.0)
    pid = pid_in(tmp_path / "pid")
    os.kill(worker.pid, signal.SIGSTOP)

    ended = eventually(lambda: not alive(pid))
    os.kill(worker.pid, signal.SIGCONT)
    out, _ = worker.communicate(timeout=30)

    assert ended
    assert out == b"lease\n"


def guard_of(command_pid: int) -> int:
    """Return the process id of a command's guard."""
    return int(Path(f"/proc/{command_pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def test_killed_guard_takes_the_command_along(tmp_path: Path) -> None:
    """Even `kill -9` of the guard itself leaves nothing running, and the worker is told."""
    worker = start_worker(tmp_path, lease_s=FOREVER)
    pid, child = pid_in(tmp_path / "pid"), pid_in(tmp_path / "child")

    os.kill(guard_of(pid), signal.SIGKILL)
    out, _ = worker.communicate(timeout=30)

    assert out == b"guard_lost\n"
    assert eventually(lambda: not alive(pid) and not alive(child))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_terminated_guard_ends_the_command(tmp_path: Path, number: signal.Signals) -> None:
    """A guard that is asked to end ends its command first."""
    worker = start_worker(tmp_path, lease_s=FOREVER)
    pid = pid_in(tmp_path / "pid")

    os.kill(guard_of(pid), number)
    out, _ = worker.communicate(timeout=30)

    assert out == b"stopped\n"
    assert not alive(pid)


def test_untold_guard_starts_nothing() -> None:
    """A worker that dies before its task is told whole starts nothing."""
    guard = subprocess.run(
        [PYTHON, "-I", "-S", str(command._GUARD)],
        input=json.dumps({"argv": ["echo", "started"], "clock": CLOCK}).encode(),
        capture_output=True,
        check=True,
    )

    assert (guard.stdout, guard.stderr) == (b"", b"")


def test_tail_forgets_what_is_too_old() -> None:
    """A tail holds the last 64 KiB of any number of pieces."""
    tail = Tail()
    for n in range(50_000):
        tail.add(b"%9d\n" % n)

    assert tail.total == 500_000
    assert b"".join(b"%9d\n" % n for n in range(50_000))[-KEPT_BYTES:] == tail.kept()
