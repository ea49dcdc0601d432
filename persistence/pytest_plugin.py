"""Fixtures for users' own tests; pytest finds them once sqlatch is installed.

Nothing of sqlatch is imported before a test asks for it: the plugin is loaded by every run of
pytest, whatever it tests.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from persistence import ManualClock, Store
    from statemachine import Machine

POSTGRES = "SQLATCH_TEST_POSTGRES"
"""The environment's variable with the URL of a PostgreSQL database to make schemas in."""


@pytest.fixture
def sqlatch_machines() -> tuple[Machine, ...]:
    """Own machines that the stores are opened with: none; override it."""
    return ()


@pytest.fixture
def sqlatch_clock() -> ManualClock:
    """A clock that stands at 2030-01-01 until the test moves it; the stores go by it."""
    from persistence.clock import ManualClock  # noqa: PLC0415 - see above

    return ManualClock()


@pytest.fixture
def sqlatch_sqlite_url(tmp_path: Path) -> str:
    """URL of an SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'sqlatch.db'}"


@pytest.fixture
def sqlatch_postgresql_url() -> Iterator[str]:
    """URL of an empty schema on PostgreSQL, dropped afterwards; skips the test without a server."""
    server = os.environ.get(POSTGRES)
    if not server:
        pytest.skip(f"NOT TESTED ON POSTGRESQL: {POSTGRES} is not set")
    import psycopg  # noqa: PLC0415 - see above
    from psycopg import sql  # noqa: PLC0415 - likewise

    schema = f"sqlatch_test_{secrets.token_hex(8)}"
    name = sql.Identifier(schema)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        try:
            separator = "&" if "?" in server else "?"
            yield f"{server}{separator}options=-csearch_path%3D{schema}"
        finally:
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(name))


@pytest.fixture
def sqlatch_sqlite_store(
    sqlatch_sqlite_url: str, sqlatch_clock: ManualClock, sqlatch_machines: tuple[Machine, ...]
) -> Iterator[Store]:
    """An empty store on SQLite, with the test's machines, on its clock."""
    yield from _opened(sqlatch_sqlite_url, sqlatch_clock, sqlatch_machines)


@pytest.fixture
def sqlatch_postgresql_store(
    sqlatch_postgresql_url: str, sqlatch_clock: ManualClock, sqlatch_machines: tuple[Machine, ...]
) -> Iterator[Store]:
    """An empty store on PostgreSQL, with the test's machines, on its clock."""
    yield from _opened(sqlatch_postgresql_url, sqlatch_clock, sqlatch_machines)


@pytest.fixture(params=["sqlite", "postgresql"])
def sqlatch_store(request: pytest.FixtureRequest) -> Store:
    """Each database's store in turn: a test that asks for it runs on SQLite and on PostgreSQL."""
    store: Store = request.getfixturevalue(f"sqlatch_{request.param}_store")
    return store


def _opened(url: str, clock: ManualClock, machines: tuple[Machine, ...]) -> Iterator[Store]:
    from persistence.store import open_store  # noqa: PLC0415 - see above

    with open_store(url, clock=clock, machines=machines) as store:
        yield store
