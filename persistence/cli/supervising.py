"""The worker processes of `run`: started, replaced when they are killed, stopped at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from attrs import define

from persistence.cli.exits import DONE, INTERRUPTED, SOME_FAILED, STORE, Ended
from persistence.hosts.launched import is_command
from persistence.hosts.remaining import remains
from statemachine.errors import StoreBusy

if TYPE_CHECKING:
    from types import FrameType

    from persistence import Store
    from persistence.cli.progress import Progress

_TICK_S = 0.2
_SEEN_PER_TICK = 100
_STOPPING_S = 15.0
_IDLE_S = 5.0
_EARLY_S = 3.0
_MAX_EARLY = 8
_LEFT = (DONE, SOME_FAILED, INTERRUPTED)


@define
class _Child:
    """A worker process and when it was started, in seconds of `time.monotonic`."""

    process: subprocess.Popen[bytes]
    started_at: float


class Crew:
    """Worker processes, in this process's group: what kills the one kills the others.

    Args:
        workers: How many.

        lease_s: Length of their leases in seconds.

        db: The database.

        project: The project that they serve.
    """

    def __init__(self, workers: int, *, lease_s: float, db: str, project: str) -> None:
        self._argv = [
            *(sys.executable, "-m", "persistence.cli", "work", "--until-empty", "--quiet"),
            *("--with-parent", "--lease", str(lease_s), "--project", project),
        ]
        # Not on the command line, which everybody may read: it may hold a password.
        self._env = os.environ | {"SQLATCH_DB": db}
        self._broken = 0
        self.children = [self._start() for _ in range(workers)]

    def ended(self) -> list[_Child]:
        """Return the children that have ended, and forget them."""
        ended = [child for child in self.children if child.process.poll() is not None]
        self.children = [child for child in self.children if child not in ended]
        return ended

    def replace(self, child: _Child) -> None:
        """Start another in place of one that was killed or has left.

        Raises:
            Ended: Workers break as soon as they are started, again and again.
        """
        code = child.process.returncode
        early = time.monotonic() - child.started_at < _EARLY_S
        self._broken = self._broken + 1 if early and code > 0 and code not in _LEFT else 0
        if self._broken >= _MAX_EARLY:
            raise Ended(STORE, f"the workers break as they start (exit {code})")
        self.children.append(self._start())

    def stop(self, *, within_s: float) -> None:
        """Have them park what they run and leave; kill those that do not in time."""
        until = time.monotonic() + within_s
        for number in (signal.SIGTERM, signal.SIGCONT):
            for child in self.children:
                child.process.send_signal(number)
        for child in self.children:
            try:
                child.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()

    def _start(self) -> _Child:
        process = subprocess.Popen(self._argv, env=self._env, stdin=subprocess.DEVNULL)
        return _Child(process, time.monotonic())


class _Interrupts:
    """Counts SIGINT and SIGTERM while it is entered."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        numbers = (signal.SIGINT, signal.SIGTERM)
        self._before = [(number, signal.signal(number, self._come)) for number in numbers]
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before:
            signal.signal(number, handler)

    def _come(self, _: int, __: FrameType | None) -> None:
        self.count += 1


def supervise(store: Store, progress: Progress, crew: Crew) -> bool:
    """Tend the workers until the queue is empty; return False where a signal came first.

    Raises:
        SqlatchError: The database is out of reach.
    """
    with _Interrupts() as interrupts:
        try:
            empty_since = None
            while crew.children and not interrupts.count:
                time.sleep(_TICK_S)
                _see(store, progress)
                for child in crew.ended():
                    if child.process.returncode not in _LEFT or _more(store):
                        crew.replace(child)
                # A worker that was stopped (SIGSTOP) never finds the queue empty.
                if progress.open_runs() or not crew.children or _more(store):
                    empty_since = None
                elif empty_since is None:
                    empty_since = time.monotonic()
                elif time.monotonic() - empty_since > _IDLE_S:
                    break
        finally:
            crew.stop(within_s=_STOPPING_S)
        _see(store, progress, at_most=len(progress.runs))
        return not interrupts.count


def _see(store: Store, progress: Progress, at_most: int = _SEEN_PER_TICK) -> None:
    """Look at some open runs, those first that were not looked at for the longest time."""
    for run in progress.oldest_seen(at_most):
        try:
            now = store.runs.get(run.run_id)
        except StoreBusy:
            return
        if now is not None:
            progress.see(now)
    progress.show()


def _more(store: Store) -> bool:
    try:
        return remains(store, is_command, within=timedelta(seconds=2))
    except StoreBusy:
        return True
