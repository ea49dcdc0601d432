"""A store whose process is killed at a chosen step, to see what a crash leaves behind.

A step is what lies between two things that the database is told: a statement, the beginning of a
transaction, its end. So the step after one is the step before the next; the last one comes when an
operation has answered. Nothing is cleaned up then, and no buffer is flushed.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from persistence.store import Store
from statemachine.kinds import Integer, admit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from persistence.dialect import Dialect
    from persistence.engine import Backend, Session
    from persistence.operation import Reply

_KILLED = -signal.SIGKILL
_USED = ("persistence", "persistence.backends.postgresql")


def crash(opening: Callable[[], Store], act: Callable[[Store], object], *, step: int) -> bool:
    """Act in a process of its own, which is killed at a step.

    Args:
        opening: Opens the store there; pickled, such as `functools.partial(open_store, url)`.

        act: What is done with the store; pickled too.

        step: Which, from 1.

    Returns:
        Whether it was killed; else there is no such step, and the process ended well.

    Raises:
        InvalidArgument: A step less than 1.

        ChildProcessError: The act failed by itself; its traceback is on standard error.
    """
    admit(Integer(minimum=1), step, "step")
    # A fork has what was imported and compiled, but must not copy the locks of other threads.
    alone = threading.active_count() == 1
    context = get_context("fork") if alone else get_context("forkserver")
    # There, what the children need is imported once, before the first of them.
    context.set_forkserver_preload(list(dict.fromkeys((*_USED, _home(opening), _home(act)))))
    child = context.Process(target=_live, args=(opening, act, step))
    child.start()
    child.join()
    code: int | None = child.exitcode
    child.close()
    if code not in (0, _KILLED):
        raise ChildProcessError(f"the act failed by itself: its process ended with {code}")
    return code == _KILLED


def _home(function: Callable[..., object]) -> str:
    """Return the module of a function, or of that which a partial call makes."""
    return str(getattr(function, "func", function).__module__)


def _live(opening: Callable[[], Store], act: Callable[[Store], object], step: int) -> None:
    steps = _Steps(step)
    with opening() as store:
        act(Store.over(store.engine.on(_Watched(store.engine.backend, steps))))
        steps.step()


@define
class _Steps:
    """Counts steps, up to the deadly one."""

    deadly: int
    taken: int = 0

    def step(self) -> None:
        self.taken += 1
        if self.taken == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)


@frozen
class _Watched:
    """A backend whose sessions count."""

    _backend: Backend
    _steps: _Steps

    @property
    def dialect(self) -> Dialect:
        return self._backend.dialect

    @property
    def journal_mode(self) -> str | None:
        return self._backend.journal_mode

    @contextmanager
    def session(self) -> Iterator[_Counting]:
        with self._backend.session() as session:
            yield _Counting(session, self._steps)

    def own(self) -> None:
        """Return none: what is lent counts its steps."""

    def borrow(self, driver: object) -> Session | None:
        session = self._backend.borrow(driver)
        return None if session is None else _Counting(session, self._steps)

    def wait_for_change(self, seconds: float) -> bool:
        return self._backend.wait_for_change(seconds)

    def close(self) -> None:
        self._backend.close()


@frozen
class _Counting:
    """A session that takes a step before whatever it says."""

    _session: Session
    _steps: _Steps = field(repr=False)

    @property
    def in_transaction(self) -> bool:
        return self._session.in_transaction

    def execute(self, sql: str, params: Mapping[str, object], *, fragile: bool = False) -> Reply:
        self._steps.step()
        return self._session.execute(sql, params, fragile=fragile)

    def script(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self._steps.step()
            self._session.script((statement,))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._steps.step()
        with self._session.transaction():
            try:
                yield
            finally:
                self._steps.step()
