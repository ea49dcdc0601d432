"""Databases to measure in: made for it where the user says, and removed afterwards."""

from __future__ import annotations

import os
import secrets
import statistics
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psycopg
from attrs import frozen

from persistence.backends.sqlite import path_of
from persistence.opening import on_server
from persistence.store import open_store
from statemachine.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from persistence.store import Store

Durability: TypeAlias = Literal["normal", "full"]

_SYNCS = 64
_BLOCK = b"\0" * 4096


@frozen
class Place:
    """A database that holds nothing but what is measured.

    Attributes:
        url: Path of a file, or `postgresql://…`.

        schema: PostgreSQL: the schema of the tables.

        durability: SQLite's.
    """

    url: str
    schema: str | None = None
    durability: Durability = "normal"

    @property
    def on_server(self) -> bool:
        """Whether it is on PostgreSQL."""
        return self.schema is not None

    def store(self) -> Store:
        """Open it as a user does."""
        return open_store(self.url, schema=self.schema, durability=self.durability)


@contextmanager
def scratch(db: str, durability: Durability = "normal") -> Iterator[Place]:
    """Make a database of its own: beside the file that the URL names, or a schema of the server.

    Raises:
        StoreUnavailable: There is no such directory or server.
    """
    try:
        if on_server(db):
            with _schema(db) as place:
                yield place
        else:
            parent = Path(path_of(db)).absolute().parent
            with tempfile.TemporaryDirectory(prefix="sqlatch-bench-", dir=parent) as folder:
                yield Place(str(Path(folder) / "bench.db"), durability=durability)
    except (OSError, psycopg.OperationalError) as error:
        msg = f"nothing can be measured there: {error}"
        raise StoreUnavailable(msg) from error


@contextmanager
def _schema(db: str) -> Iterator[Place]:
    name = f"sqlatch_bench_{os.getpid()}_{secrets.token_hex(4)}"
    with psycopg.connect(db, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"'.encode())
        try:
            yield Place(db, name)
        finally:
            connection.execute(f'DROP SCHEMA "{name}" CASCADE'.encode())


def sync_ms(place: Place) -> float:
    """Return the median time of making a small write durable, in milliseconds.

    For a file: one `fdatasync` of 4 KiB appended beside it. On a server: one commit of a little.
    """
    return statistics.median(_commits(place) if place.on_server else _syncs(place)) * 1000


def _syncs(place: Place) -> list[float]:
    path = Path(place.url).with_name("sync")
    taken = []
    with path.open("wb", buffering=0) as file:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            file.write(_BLOCK)
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    path.unlink()
    return taken


def _commits(place: Place) -> list[float]:
    taken = []
    with psycopg.connect(place.url, autocommit=True) as connection:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            connection.execute("SELECT pg_logical_emit_message(true, 'sqlatch', 'bench')")
            taken.append(time.perf_counter() - began)
    return taken
