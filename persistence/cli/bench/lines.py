"""The drivers' own connections, with the settings that the store has too."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
from attrs import define

from persistence.backends import postgresql_binds, sqlite_binds
from persistence.backends.postgresql import Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from persistence.cli.bench.places import Place

_STATEMENTS_CACHED = 512
_PATIENCE_S = 60.0


class Line(Protocol):
    """A connection of a driver in autocommit."""

    def run(self, sql: str, params: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        """Run a statement and fetch its rows."""

    def run_each(self, sql: str, calls: Sequence[Mapping[str, object]]) -> None:
        """Run a statement with each of several parameters, in one transaction."""

    def whole(self) -> AbstractContextManager[object]:
        """Run a block as one transaction that means to write."""

    def settle(self) -> None:
        """Tell the planner what the tables hold, as a server does by itself after a while."""

    def checkpoint(self) -> None:
        """Begin the log anew: whoever fills it up pays for what both have written."""

    def close(self) -> None:
        """Close it."""


def line_to(place: Place) -> Line:
    """Open a connection of the driver's to a place that has its layout."""
    return PostgresLine.to(place) if place.on_server else SqliteLine.to(place)


@define(eq=False)
class SqliteLine:
    """`sqlite3`, which keeps statements prepared by itself, and numbered parameters."""

    connection: sqlite3.Connection

    @classmethod
    def to(cls, place: Place) -> SqliteLine:
        """Open it, with the store's settings."""
        connection = sqlite3.connect(
            place.url,
            timeout=_PATIENCE_S,
            isolation_level=None,
            cached_statements=_STATEMENTS_CACHED,
        )
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute(f"PRAGMA synchronous = {place.durability}")
        connection.execute("PRAGMA foreign_keys = ON")
        return cls(connection)

    def run(self, sql: str, params: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        """Run a statement."""
        text, pick = sqlite_binds.positional(sql)
        return self.connection.execute(text, pick(params)).fetchall()

    def run_each(self, sql: str, calls: Sequence[Mapping[str, object]]) -> None:
        """Run a statement often."""
        with self.whole():
            for params in calls:
                self.run(sql, params)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Take the write lock first."""
        self.connection.execute("BEGIN IMMEDIATE")
        yield
        self.connection.execute("COMMIT")

    def settle(self) -> None:
        """Leave it: SQLite plans by the indexes alone."""

    def checkpoint(self) -> None:
        """Write the log into the file, and go on at its beginning."""
        self.connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def close(self) -> None:
        """Close it."""
        self.connection.close()


@define(eq=False)
class PostgresLine:
    """`psycopg`, with every statement prepared at its first use, and numbered parameters."""

    connection: psycopg.Connection
    cursor: psycopg.RawCursor[tuple[Any, ...]]

    @classmethod
    def to(cls, place: Place) -> PostgresLine:
        """Open it, on the place's schema."""
        connection = psycopg.connect(
            place.url,
            autocommit=True,
            prepare_threshold=0,
            options=f"-c search_path={place.schema}",
        )
        for statement in Postgres(place.url, _PATIENCE_S).setup:
            connection.execute(statement.encode())
        return cls(connection, psycopg.RawCursor(connection))

    def run(self, sql: str, params: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        """Run a statement."""
        text, pick = postgresql_binds.positional(sql)
        return self.cursor.execute(text, pick(params)).fetchall()

    def run_each(self, sql: str, calls: Sequence[Mapping[str, object]]) -> None:
        """Run a statement often, in a pipeline."""
        text, pick = postgresql_binds.positional(sql)
        with self.connection.transaction():
            self.cursor.executemany(text, [pick(params) for params in calls])

    def whole(self) -> AbstractContextManager[object]:
        """Begin a transaction."""
        return self.connection.transaction()

    def settle(self) -> None:
        """Clean up and count."""
        self.connection.execute("VACUUM ANALYZE")

    def checkpoint(self) -> None:
        """Leave it: a process of the server does it."""

    def close(self) -> None:
        """Close it."""
        self.connection.close()
