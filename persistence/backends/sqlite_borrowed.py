"""A caller's own SQLite connection: nothing of it is begun for long, committed or rolled back."""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attrs import define, field

from persistence.backends.sqlite_errors import translated
from persistence.binds import NOW_BIND
from persistence.clock import NANOSECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from persistence.operation import Reply


_LEGACY = -1
"""`autocommit` of a connection that goes by its `isolation_level`; before Python 3.12, of all."""


@define(eq=False)
class BorrowedSession:
    """A connection that the caller keeps.

    A failed statement undoes itself alone (RAISE(ABORT)), so no savepoint is needed around it.
    """

    _driver: sqlite3.Connection
    _now: Callable[[], int] | None
    _depth: int = field(default=0, init=False)

    @property
    def in_transaction(self) -> bool:
        """Whether the caller, or a block of ours, has a transaction open."""
        return self._driver.in_transaction

    def execute(self, sql: str, params: Mapping[str, object], *, fragile: bool = False) -> Reply:
        """Run a statement in whatever transaction the caller has; answers its rows and the clock.

        Raises:
            Clash, SqlatchError: What the database answered; on `StoreBusy` in a transaction that
                began by reading, only the whole transaction can be tried again.
        """
        del fragile
        now = time.time_ns() // NANOSECONDS if self._now is None else self._now()
        return self._run(sql, {**params, NOW_BIND: now}), now

    def script(self, statements: Sequence[str]) -> None:
        """Run statements without parameters."""
        for statement in statements:
            self._run(statement, {})

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make a block all or nothing by a savepoint; the caller commits what it wrote."""
        name = f"sqlatch_{self._depth}"
        self._begin()
        self._run(f"SAVEPOINT {name}", {})
        self._depth += 1
        try:
            yield
        except BaseException:
            if self._driver.in_transaction:
                self._run(f"ROLLBACK TO {name}", {})
                self._run(f"RELEASE {name}", {})
            raise
        finally:
            self._depth -= 1
        self._run(f"RELEASE {name}", {})

    def _begin(self) -> None:
        """A savepoint outside of a transaction would commit when it is released.

        Where the driver never begins by itself, the caller means it so.
        """
        legacy = getattr(self._driver, "autocommit", _LEGACY) == _LEGACY
        begins = legacy and self._driver.isolation_level is not None
        if begins and not self._driver.in_transaction:
            self._run("BEGIN IMMEDIATE", {})

    def _run(self, sql: str, params: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        factory = self._driver.text_factory
        try:
            cursor = self._driver.cursor()
            cursor.row_factory = None
            self._driver.text_factory = str
            return cursor.execute(sql, params).fetchall()
        except sqlite3.Error as error:
            raise translated(error) from error
        finally:
            self._driver.text_factory = factory
