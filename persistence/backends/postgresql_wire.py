"""The conversation with PostgreSQL, without I/O: the synchronous and the asyncio store drive it."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import psycopg
from attrs import define, frozen
from psycopg.pq import TransactionStatus

from persistence.backends.postgresql_binds import positional
from persistence.backends.postgresql_errors import is_transient, translated
from persistence.binds import CALL_BIND, NOW_BIND
from statemachine.errors import CommitUnknown, SqlatchError, StoreUnavailable

_T = TypeVar("_T")

RETRIES = 5
"""How often a statement is tried that lost a deadlock or could not be serialized."""

FIRST_PAUSE = 0.001
"""Seconds before the first retry; doubled each time."""

_SAVEPOINT = "sqlatch_call"
_WRITING = re.compile(r"\b(?:INSERT INTO|DELETE FROM|UPDATE [^=()]+ SET)\b")


@frozen
class Send:
    """A request to run a statement and fetch its rows; answered by them, or by a driver's error."""

    sql: str
    params: Mapping[str, object] | None = None

    def bound(self) -> tuple[bytes, tuple[object, ...] | None]:
        """Return the statement and its values by position, for a raw cursor."""
        if self.params is None:
            return self.sql.encode(), None
        text, pick = positional(self.sql)
        return text, pick(self.params)


@frozen
class Pause:
    """A request to wait, in seconds."""

    seconds: float


Rows: TypeAlias = Sequence[Sequence[Any]]
Talk: TypeAlias = Generator[Send | Pause, Rows, _T]


@define(eq=False)
class Wire:
    """What is said on one connection.

    Attributes:
        broken: Tells whether the connection is gone.

        spoiled: Tells whether an error has spoiled the open transaction.

        now: The reading of an explicit clock, in milliseconds; None: the server's clock rules.

        depth: How many transactions are open: one, and savepoints in it.

        careful: Whether every statement in a transaction runs in a savepoint: it is the caller's.
    """

    broken: Callable[[], bool]
    spoiled: Callable[[], bool]
    now: Callable[[], int] | None
    depth: int = 0
    careful: bool = False

    @classmethod
    def on(
        cls,
        driver: psycopg.BaseConnection[Any],
        now: Callable[[], int] | None,
        *,
        depth: int = 0,
        careful: bool = False,
    ) -> Wire:
        """Return what is said on an open connection of either kind; arguments as the attributes."""
        info = driver.info
        return cls(
            lambda: driver.closed or driver.broken,
            lambda: info.transaction_status == TransactionStatus.INERROR,
            now,
            depth,
            careful,
        )

    def execute(
        self, sql: str, params: Mapping[str, object], *, fragile: bool
    ) -> Talk[tuple[Rows, int | None]]:
        """Run a statement; alone it is its own transaction, and tried again when it lost a race.

        Raises:
            Clash, SqlatchError: What the database answered. `CommitUnknown` when the connection
                broke while a statement that writes was under way on its own.
        """
        now = None if self.now is None else self.now()
        bound = {**params, NOW_BIND: now}
        if self.depth:
            rows = yield from self._inside(sql, bound, fragile=fragile)
            return rows, now
        for attempt in range(RETRIES):
            try:
                rows = yield Send(sql, bound)
            except psycopg.Error as error:
                if not is_transient(error) or attempt == RETRIES - 1:
                    raise self._alone(error, sql, params.get(CALL_BIND)) from error
            else:
                return rows, now
            yield Pause(FIRST_PAUSE * 2**attempt)
        raise AssertionError

    def _alone(self, error: psycopg.Error, sql: str, call: object) -> SqlatchError:
        if self.broken() and _WRITING.search(sql) is not None:
            msg = f"the connection broke during a write: {error}"
            return CommitUnknown(msg, None if call is None else str(call))
        return translated(error)

    def _inside(self, sql: str, bound: Mapping[str, object], *, fragile: bool) -> Talk[Rows]:
        """A refusal would spoil the whole transaction: what may be refused runs in a savepoint."""
        if not (fragile or self.careful):
            return (yield from self._said(sql, bound))
        yield from self._said(f"SAVEPOINT {_SAVEPOINT}")
        try:
            rows = yield from self._said(sql, bound)
        except SqlatchError:
            if not self.broken():
                yield from self._said(f"ROLLBACK TO {_SAVEPOINT}")
                yield from self._said(f"RELEASE {_SAVEPOINT}")
            raise
        yield from self._said(f"RELEASE {_SAVEPOINT}")
        return rows

    def _said(self, sql: str, params: Mapping[str, object] | None = None) -> Talk[Rows]:
        try:
            return (yield Send(sql, params))
        except psycopg.Error as error:
            raise translated(error) from error

    def script(self, statements: Sequence[str]) -> Talk[None]:
        """Run statements without parameters."""
        for statement in statements:
            yield from self._said(statement)

    def begin(self) -> Talk[None]:
        """Open a transaction, or a savepoint in the open one."""
        yield from self._said("BEGIN" if not self.depth else f"SAVEPOINT sqlatch_{self.depth}")
        self.depth += 1

    def commit(self) -> Talk[None]:
        """Commit what `begin` opened.

        Raises:
            CommitUnknown: The connection broke meanwhile.

            StoreUnavailable: An error in the block had spoiled it, or cut the connection; nothing
                of it is stored.
        """
        if self.depth > 1:
            self.depth -= 1
            yield from self._said(f"RELEASE sqlatch_{self.depth}")
            return
        if self.broken() or self.spoiled():
            yield from self.undo()
            msg = "the transaction failed before; nothing of it was stored"
            raise StoreUnavailable(msg)
        self.depth = 0
        try:
            yield Send("COMMIT")
        except psycopg.Error as error:
            if self.broken():
                msg = f"the connection broke while committing: {error}"
                raise CommitUnknown(msg) from error
            raise translated(error) from error

    def undo(self) -> Talk[None]:
        """Roll back what `begin` opened; a connection that is gone has done so."""
        self.depth -= 1
        name = f"sqlatch_{self.depth}"
        try:
            if not self.broken():
                yield Send(f"ROLLBACK TO {name}" if self.depth else "ROLLBACK")
                if self.depth:
                    yield Send(f"RELEASE {name}")
        except psycopg.Error:
            # The error that led here matters more, and the server rolls back what it loses.
            return
