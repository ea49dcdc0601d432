"""Runs one command under a guard process for as long as a lease is held."""

from __future__ import annotations

import enum
import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from attrs import field, frozen

from persistence.hosts import steady

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GUARD = Path(__file__).with_name("guard.py")
_LISTEN_MS = 100
_CHUNK = 65_536


class HeldLease(Protocol):
    """What a guarded command needs of its lease."""

    @property
    def work_until(self) -> float:
        """Steady seconds at which the command must have ended, unless it is renewed before."""
        ...

    @property
    def held(self) -> bool:
        """Whether it is surely still held."""
        ...

    @property
    def cancel_requested(self) -> bool:
        """Whether a cancellation was requested."""
        ...

    @property
    def stop_requested(self) -> bool:
        """Whether the worker is stopping."""
        ...


@frozen(kw_only=True)
class CommandTask:
    """A command to run.

    Attributes:
        argv: The program and its arguments; never a shell.

        env: Variables on top of this process's own.

        cwd: Its directory; None: this process's own.

        timeout_s: Seconds after which it is killed; None: never.

        stdin: What it may read.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(factory=dict, repr=False)
    cwd: str | None = None
    timeout_s: float | None = None
    stdin: str = field(default="", repr=False)


class How(enum.StrEnum):
    """How a guarded command ended."""

    EXITED = "exited"
    TIMEOUT = "timeout"
    LEASE = "lease"
    STOPPED = "stopped"
    UNSTARTABLE = "unstartable"
    GUARD_LOST = "guard_lost"


@frozen(kw_only=True)
class CommandEnd:
    """How a guarded command ended. Nothing of its process group is left.

    Attributes:
        how: By itself; by force at the timeout, at the lease's end or on demand; not started at
            all; or its guard was killed and the command with it.

        code: Its exit code; below 0: killed by that signal; None: there is none.

        seconds: How long it ran.

        stdout, stderr: The last 64 KiB of its output.

        dropped: How many earlier bytes of stdout and of stderr were not kept.

        error: Why it could not be started.
    """

    how: How
    code: int | None = None
    seconds: float = 0.0
    stdout: bytes = b""
    stderr: bytes = b""
    dropped: tuple[int, int] = (0, 0)
    error: str | None = None


def run_guarded(task: CommandTask, lease: HeldLease) -> CommandEnd:
    """Run the command to its end; its guard survives this process, and ends the command then.

    It is ended by force when the lease is not renewed in time, when it is lost, and when a
    cancellation or a stop is requested.
    """
    # A session of its own: whoever kills this process's group does not kill the guard.
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(_GUARD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None and stdout is not None  # noqa: PT018 - both are pipes, as asked
        try:
            heard = _converse(stdin.fileno(), stdout.fileno(), task, lease)
        finally:
            # Its end ends the command too, should we be leaving early.
            stdin.close()
    return _understood(heard)


def _converse(to_guard: int, from_guard: int, task: CommandTask, lease: HeldLease) -> bytes:
    """Tell the guard of renewals and wishes until it has said everything."""
    told_until, stopping = lease.work_until, False
    _tell(to_guard, _described(task, told_until))
    poller = select.poll()
    poller.register(from_guard, select.POLLIN)
    heard = bytearray()
    while True:
        if poller.poll(_LISTEN_MS):
            data = os.read(from_guard, _CHUNK)
            if not data:
                return bytes(heard)
            heard += data
        if lease.work_until > told_until:
            told_until = lease.work_until
            _tell(to_guard, f"{told_until!r}\n")
        if not stopping and (lease.cancel_requested or lease.stop_requested or not lease.held):
            stopping = True
            _tell(to_guard, "stop\n")


def _described(task: CommandTask, deadline: float) -> str:
    described = {
        "argv": list(task.argv),
        "env": dict(task.env),
        "cwd": task.cwd,
        "timeout": task.timeout_s,
        "stdin": task.stdin,
        "clock": steady.CLOCK,
        "deadline": deadline,
    }
    return json.dumps(described) + "\n"


def _tell(fd: int, text: str) -> None:
    """Write to the guard; where it is gone already, reading from it will tell."""
    data = memoryview(text.encode())
    with suppress(BrokenPipeError):
        while data:
            data = data[os.write(fd, data) :]


def _understood(heard: bytes) -> CommandEnd:
    """Read what the guard said: `started`, then `ended` and the output; or one line alone."""
    first, _, rest = heard.partition(b"\n")
    started = json.loads(first) if rest or heard.endswith(b"\n") else {}
    if "how" in started:
        return CommandEnd(how=How(started["how"]), error=started.get("error"))
    last, ended, output = rest.partition(b"\n")
    report: dict[str, Any] = json.loads(last) if ended else {"kept": [0, 0]}
    out, err = report["kept"]
    if not ended or len(output) != out + err:
        if "pid" in started:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(started["pid"], signal.SIGKILL)
        return CommandEnd(how=How.GUARD_LOST)
    return CommandEnd(
        how=How(report["how"]),
        code=report["code"],
        seconds=report["seconds"],
        stdout=output[:out],
        stderr=output[out:],
        dropped=(report["total"][0] - out, report["total"][1] - err),
    )
