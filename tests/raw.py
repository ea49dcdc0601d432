"""Raw SQL past the store: through the driver, and through the databases' own programs."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from attrs import frozen

from persistence import Store
from persistence.backends.sqlite import path_of
from persistence.schema import HISTORY, PERMIT
from statemachine.machines import ALL
from tests.conftest import Capabilities
from tests.programs import missing

TABLES = (*(machine.table for machine in ALL), HISTORY.name, PERMIT.name)


@frozen
class Raw:
    """A database behind its store's back.

    Attributes:
        store: The open store.

        url: What it was opened with.

        capabilities: The backend.
    """

    store: Store
    url: str
    capabilities: Capabilities

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Give a driver's connection in autocommit; in memory there is only the store's own."""
        if self.capabilities.server_clock:
            with psycopg.connect(self.url, autocommit=True) as server:
                yield server
        elif self.capabilities.reopens:
            driver = sqlite3.connect(path_of(self.url), isolation_level=None, timeout=5)
            try:
                yield driver
            finally:
                driver.close()
        else:
            with self.store.engine.backend.session() as session:
                yield session._driver  # type: ignore[attr-defined]  # SQLite's sessions have one

    def content(self) -> bytes:
        """Return all that is stored, in one spelling."""
        with self.connection() as connection:
            found = {table: _rows(connection, table) for table in self._tables()}
        return json.dumps(found, indent=1, default=str).encode()

    def _tables(self) -> Sequence[str]:
        return TABLES if self.capabilities.server_clock else (*TABLES, "sqlite_sequence")

    def row(self, table: str, column: str, value: str) -> dict[str, Any]:
        """Return the first row with a value."""
        with self.connection() as connection:
            cursor = connection.execute(
                f"SELECT * FROM {table} WHERE {column} = '{value}' ORDER BY 1"
            )
            names = [column[0] for column in cursor.description]
            return dict(zip(names, cursor.fetchall()[0], strict=True))

    def refusal(self, sql: str) -> str | None:
        """Run statements through the driver; return what the database said against them."""
        with self.connection() as connection:
            try:
                for statement in _statements(sql):
                    connection.execute(statement)
            except (sqlite3.Error, psycopg.Error) as error:
                if not self.capabilities.server_clock:
                    connection.rollback()  # OR ROLLBACK, OR FAIL: nothing of it may stay open
                return str(error) or type(error).__name__
        return None

    def program_refusals(self, attacks: Sequence[str]) -> list[bool]:
        """Run statements through the program `sqlite3` or `psql`; tell which ones it refused."""
        if self.capabilities.server_clock:
            program = _program("psql", "postgresql-client")
            script = "".join(f"{sql};\n\\echo :ERROR\n" for sql in attacks)
            done = _said([program, "-X", "-q", "-A", "-t", self.url], script)
            return [line == "true" for line in done.stdout.split()]
        program = _program("sqlite3", "sqlite3")
        done = _said([program, "-batch", path_of(self.url)], "".join(f"{a};\n" for a in attacks))
        refused = {int(line) for line in re.findall(r"near line (\d+):", done.stderr)}
        ends = itertools.accumulate(sql.count("\n") + 1 for sql in attacks)
        return [end in refused for end in ends]


def _program(name: str, package: str) -> str:
    program = shutil.which(name)
    if program is None:
        missing(f"{name} (Debian package {package})")
    return program


def _said(command: list[str], script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=script, capture_output=True, check=False, encoding="utf-8")


def insert(table: str, row: Mapping[str, object], verb: str = "INSERT", after: str = "") -> str:
    """Return the INSERT of a row, constants written out."""
    names = ", ".join(f'"{name}"' for name in row)
    values = ", ".join(literal(value) for value in row.values())
    return f"{verb} INTO {table} ({names}) VALUES ({values}){after}"


def literal(value: object) -> str:
    """Return a constant as both databases read it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case _:
            return "'" + str(value).replace("'", "''") + "'"


def _statements(sql: str) -> list[str]:
    return [part for part in re.split(r";\s*\n", sql) if part.strip()]


def _rows(connection: Any, table: str) -> list[Any]:
    return [list(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()]
