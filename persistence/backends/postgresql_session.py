"""One connection to PostgreSQL: drives the conversation, with one cursor for all of it."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from attrs import define, field
from psycopg.rows import tuple_row

from persistence.backends.postgresql_wire import Pause, Rows, Send, Talk, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from persistence.operation import Reply

_T = TypeVar("_T")
Driver = psycopg.Connection[tuple[Any, ...]]


@define(eq=False)
class Session:
    """One connection, driven synchronously.

    Attributes:
        pid: The process that made it.

        talking: Whether a conversation is under way.
    """

    _cursor: psycopg.RawCursor[tuple[Any, ...]]
    _wire: Wire
    pid: int = field(factory=os.getpid, init=False)
    talking: bool = field(default=False, init=False)

    @classmethod
    def on(
        cls,
        driver: Driver,
        now: Callable[[], int] | None,
        *,
        depth: int = 0,
        careful: bool = False,
    ) -> Session:
        """Return a session on an open connection; `depth` and `careful` as for `Wire`."""
        wire = Wire.on(driver, now, depth=depth, careful=careful)
        return cls(psycopg.RawCursor(driver, row_factory=tuple_row), wire)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._wire.depth > 0

    def execute(self, sql: str, params: Mapping[str, object], *, fragile: bool = False) -> Reply:
        """Run a statement; answers all rows and the explicit clock's reading, as `Wire` says."""
        return self._talk(self._wire.execute(sql, params, fragile=fragile))

    def script(self, statements: Sequence[str]) -> None:
        """Run statements without parameters."""
        self._talk(self._wire.script(statements))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block as one transaction; nested: as a savepoint."""
        self._talk(self._wire.begin())
        try:
            yield
        except BaseException:
            self._talk(self._wire.undo())
            raise
        self._talk(self._wire.commit())

    def _talk(self, talk: Talk[_T]) -> _T:
        self.talking = True
        try:
            step = next(talk)
            while True:
                step = self._step(talk, step)
        except StopIteration as stop:
            outcome: _T = stop.value
            return outcome
        finally:
            self.talking = False

    def _step(self, talk: Talk[_T], step: Send | Pause) -> Send | Pause:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return talk.send(())
        try:
            self._cursor.execute(*step.bound())
            rows: Rows = () if self._cursor.rownumber is None else self._cursor.fetchall()
        except psycopg.Error as error:
            return talk.throw(error)
        return talk.send(rows)
