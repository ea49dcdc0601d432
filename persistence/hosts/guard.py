"""Guard process around one command: ends it when its worker dies or its lease passes unrenewed.

Run as a plain file (`python -I -S guard.py`), so it imports next to nothing. It speaks over two
pipes. On standard input: one line of JSON, the task; then lines that each hold a later deadline in
seconds of the task's clock, or `stop`. The end of that input means that the worker is gone. On
standard output: one line of JSON once the command has started, and one when it has ended, followed
by the kept output of the command.

The command runs in a process group of its own. However it ended, that whole group is killed; where
it was ended by force, Linux also kills what had left the group.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

KEPT_BYTES = 65_536
_CHUNK = 65_536
_DRAINED_CHUNKS = 64
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class Tail:
    """The last bytes of a stream."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Append, and forget what is too old."""
        self.total += len(data)
        self._kept += data
        if len(self._kept) > 2 * KEPT_BYTES:
            del self._kept[:-KEPT_BYTES]

    def kept(self) -> bytes:
        """Return the last 64 KiB."""
        return bytes(self._kept[-KEPT_BYTES:])


class Guard:
    """One command: started, watched to its end, and reported."""

    def __init__(self, task: dict[str, Any], lines: bytes) -> None:
        self._clock = int(task["clock"])
        self._deadline = float(task["deadline"])
        self._timeout = float(task["timeout"] or "inf")
        self._task = task
        self._lines = lines
        self._forced: str | None = None
        self._poller = select.poll()
        self._served: dict[int, Any] = {}
        self._pid = 0

    def now(self) -> float:
        """Return the seconds of the clock that deadlines are told in."""
        return time.clock_gettime(self._clock)

    def run(self) -> None:
        """Start the command unless its deadline has passed, watch it, and report how it ended."""
        wake, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)
        began = self.now()
        ends = tuple(os.pipe() for _ in range(4))
        self._pid = os.fork()
        if self._pid == 0:
            self._become_command(ends)
        _set_group(self._pid)
        (theirs, given), (out, out_w), (err, err_w), (failed, failed_w) = ends
        for fd in (theirs, out_w, err_w, failed_w):
            os.close(fd)
        failure = _read_all(failed)
        if failure:
            os.waitpid(self._pid, 0)
            _say(json.loads(failure))
            return
        _say({"pid": self._pid})
        tails = (Tail(), Tail())
        self._serve(0, self._hear)
        self._serve(wake, lambda fd: self._signalled(os.read(fd, 512)))
        self._serve(out, lambda fd: self._keep(fd, tails[0]))
        self._serve(err, lambda fd: self._keep(fd, tails[1]))
        self._give(given, str(self._task["stdin"]).encode())
        self._obey(b"")
        self._watch(began + self._timeout)
        seconds = self.now() - began
        for fd, tail in zip((out, err), tails, strict=True):
            self._drain(fd, tail)
        _, status = os.waitpid(self._pid, 0)
        kept = [tail.kept() for tail in tails]
        report = {
            "how": self._forced or "exited",
            "code": os.waitstatus_to_exitcode(status),
            "seconds": seconds,
            "kept": [len(data) for data in kept],
            "total": [tail.total for tail in tails],
        }
        _say(report, *kept)

    def _watch(self, times_out: float) -> None:
        """Serve the pipes until the command has ended; then nothing of it is left."""
        while not self._ended():
            now = self.now()
            if now >= self._deadline:
                self._force("lease")
            elif now >= times_out:
                self._force("timeout")
            wait = 0.1 if self._forced else min(self._deadline, times_out, now + 3_600.0) - now
            for fd, _ in self._poller.poll(max(0, int(wait * 1_000)) + 1):
                if fd in self._served:
                    self._served[fd](fd)
        _kill_group(self._pid)
        if self._forced:
            _kill_strays(self._pid)

    def _ended(self) -> bool:
        """Reap what was left to us; return whether the command itself has ended (unreaped)."""
        while True:
            over = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if over is None or over.si_pid == self._pid:
                return over is not None
            os.waitpid(over.si_pid, 0)

    def _force(self, reason: str) -> None:
        """Kill the command's group; the first reason is the one that counts."""
        self._forced = self._forced or reason
        _kill_group(self._pid)

    def _serve(self, fd: int, handler: Any, events: int = select.POLLIN) -> None:
        os.set_blocking(fd, False)
        self._poller.register(fd, events)
        self._served[fd] = handler

    def _leave(self, fd: int) -> None:
        self._poller.unregister(fd)
        del self._served[fd]
        os.close(fd)

    def _hear(self, fd: int) -> None:
        """Take what the worker says; its silence for ever means that it is gone."""
        data = os.read(fd, _CHUNK)
        if data:
            self._obey(data)
        else:
            self._leave(fd)
            self._force("orphaned")

    def _obey(self, data: bytes) -> None:
        *lines, self._lines = (self._lines + data).split(b"\n")
        for line in lines:
            if line == b"stop":
                self._force("stopped")
            else:
                self._deadline = max(self._deadline, float(line))

    def _signalled(self, numbers: bytes) -> None:
        if any(number != signal.SIGCHLD for number in numbers):
            self._force("stopped")

    def _give(self, fd: int, data: bytes) -> None:
        """Write the command's input as it takes it; it may leave it unread."""
        rest = memoryview(data)

        def write(fd: int) -> None:
            nonlocal rest
            try:
                rest = rest[os.write(fd, rest[:_CHUNK]) :]
            except BrokenPipeError:
                rest = rest[:0]
            if not rest:
                self._leave(fd)

        if data:
            self._serve(fd, write, select.POLLOUT)
        else:
            os.close(fd)

    def _keep(self, fd: int, tail: Tail) -> bool:
        """Read once; return whether there may be more."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        tail.add(data)
        if not data:
            self._leave(fd)
        return bool(data)

    def _drain(self, fd: int, tail: Tail) -> None:
        """Read what the ended command left in its pipe, however fast a stray goes on writing."""
        for _ in range(_DRAINED_CHUNKS):
            if fd not in self._served or not self._keep(fd, tail):
                return

    def _become_command(self, ends: tuple[tuple[int, int], ...]) -> NoReturn:
        """In the forked child: become the command, unless the deadline has passed."""
        (stdin, _), (_, stdout), (_, stderr), (_, failed) = ends
        guard, what = os.getppid(), "the guard's child"
        try:
            os.setpgid(0, 0)
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            for number in (*_SIGNALS, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            for stream, fd in enumerate((stdin, stdout, stderr)):
                os.dup2(fd, stream)
            argv = [part.encode() for part in self._task["argv"]]
            env = dict(os.environb)
            env.update((k.encode(), v.encode()) for k, v in self._task["env"].items())
            if self._task["cwd"] is not None:
                what = self._task["cwd"]
                os.chdir(what.encode())
            what = self._task["argv"][0]
            if os.getppid() == guard and self.now() < self._deadline:
                os.execvpe(argv[0], argv, env)  # noqa: S606 - the whole point; never a shell
            os.write(failed, b'{"how": "lease"}')
        except OSError as error:
            why = f"{error.strerror}: {what}"
            os.write(failed, json.dumps({"how": "unstartable", "error": why}).encode())
        os._exit(127)


def _set_group(pid: int) -> None:
    """Put the child into its own group from here too: whoever comes first, it is there."""
    try:
        os.setpgid(pid, pid)
    except (PermissionError, ProcessLookupError):
        return


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (PermissionError, ProcessLookupError):
        return


def _kill_strays(command: int) -> None:
    """Kill the descendants that left the group: Linux hands them to us as their parents die."""
    while strays := [pid for pid in _children() if pid != command]:
        for pid in strays:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _children() -> tuple[int, ...]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listed:  # noqa: PTH123 - pathlib is slow to import
            return tuple(map(int, listed.read().split()))
    except OSError:
        return ()


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)


def _read_all(fd: int) -> bytes:
    with open(fd, "rb") as stream:
        return stream.read()


def _say(report: dict[str, object], *kept: bytes) -> None:
    """Tell the worker; nobody may be there any more."""
    data = memoryview(json.dumps(report).encode() + b"\n" + b"".join(kept))
    try:
        while data:
            data = data[os.write(1, data) :]
    except BrokenPipeError:
        return


def main() -> None:
    """Read the task and guard it; a worker that died before it told the task starts nothing."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    heard = b""
    while b"\n" not in heard:
        data = os.read(0, _CHUNK)
        if not data:
            return
        heard += data
    task, _, lines = heard.partition(b"\n")
    Guard(json.loads(task), lines).run()


if __name__ == "__main__":
    main()
