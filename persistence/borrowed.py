"""Running on a connection that the caller keeps, inside the caller's own transaction."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import sqlalchemy as sa
from attrs import define, field

from statemachine.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from persistence.dialect import Dialect
    from persistence.engine import Backend, Session


@define(eq=False)
class BorrowedBackend:
    """The database behind a caller's connection.

    Attributes:
        dialect: How it wants its statements.
    """

    dialect: Dialect
    _connection: object
    _lender: Backend
    _lent: Session | None = field(default=None, init=False)

    @property
    def journal_mode(self) -> None:
        """The caller's matter."""

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Lend the caller's connection, as it is now: what was begun may have ended meanwhile.

        SQLAlchemy gives another connection of its pool after each commit; and without being told
        it would not know that there is something to commit.
        """
        if self._lent is not None:
            yield self._lent
            return
        self._lent = self.look()
        try:
            yield self._lent
        finally:
            self._lent = None

    def own(self) -> None:
        """Return none: the caller's connection is looked at anew each time it is lent."""

    def look(self) -> Session:
        """Return a session on the connection, whatever it is in.

        Raises:
            InvalidArgument: It is no connection to such a database.
        """
        session = self._lender.borrow(_driver_of(self._connection))
        if session is None:
            raise InvalidArgument("connection", f"a connection to {self.dialect.name}")
        return session

    def borrow(self, driver: object) -> Session | None:
        """Return nothing: a borrowed connection lends no other."""
        del driver
        return None

    def wait_for_change(self, seconds: float) -> bool:
        """Refuse: a connection in a transaction sees no change.

        Raises:
            InvalidArgument: Always.
        """
        raise InvalidArgument("store", f"an own one, to wait {seconds:g} s on")

    def close(self) -> None:
        """Leave the caller's connection as it is."""


def borrowed(connection: object, lender: Backend) -> BorrowedBackend:
    """Return a backend on a caller's connection.

    Args:
        connection: A connection of the backend's driver (`sqlite3`, `psycopg`), or a SQLAlchemy
            `Connection` or `Session` on one.

        lender: The store's own backend.

    Raises:
        InvalidArgument: No such connection.
    """
    backend = BorrowedBackend(lender.dialect, connection, lender)
    backend.look()
    return backend


def _driver_of(connection: object) -> object:
    """Return the driver's connection; SQLAlchemy is told that a transaction has begun."""
    orm = sys.modules.get("sqlalchemy.orm")
    if orm is not None and isinstance(connection, orm.Session):
        connection = connection.connection()
    if isinstance(connection, sa.Connection):
        if not connection.in_transaction():
            connection.begin()
        return connection.connection.driver_connection
    return connection
