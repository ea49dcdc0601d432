"""Databases, stores and time for the tests; each test gets its own, empty database."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from attrs import frozen
from hypothesis import HealthCheck, settings

from tests.servers import REQUIRED, NoServer, find_server

if TYPE_CHECKING:
    from persistence import ManualClock, Store

START = datetime(2030, 1, 1, tzinfo=UTC)

# A shell starts what it leaves in the background with these ignored, and so it is inherited by what
# the tests start, and interrupt.
for _number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(
            _number, signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL
        )

# A slow machine is no fault, and CI must say the same thing twice.
settings.register_profile(
    "quick", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.register_profile("ci", settings.get_profile("quick"), derandomize=True, max_examples=200)
settings.load_profile("ci" if os.environ.get("CI") else "quick")


@frozen
class Capabilities:
    """What a database can do, as far as a test has to know.

    Attributes:
        name: Identifies the backend in the test's id.

        reopens: A store that is opened again sees what was written before.

        row_locks: Writers of two rows do not wait for each other.

        server_clock: The database has a clock of its own.
    """

    name: str
    reopens: bool
    row_locks: bool
    server_clock: bool


SQLITE_MEMORY = Capabilities("sqlite-memory", reopens=False, row_locks=False, server_clock=False)
SQLITE_FILE = Capabilities("sqlite-file", reopens=True, row_locks=False, server_clock=False)
POSTGRESQL = Capabilities("postgresql", reopens=True, row_locks=True, server_clock=True)
BACKENDS = (SQLITE_MEMORY, SQLITE_FILE, POSTGRESQL)

_schemas = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a PostgreSQL server's database, shared by the whole run."""
    with ExitStack() as cleanup:
        try:
            url = find_server(cleanup)
        except NoServer as reason:
            if os.environ.get(REQUIRED):
                pytest.fail(f"NO POSTGRESQL: {reason}")
            pytest.skip(f"NOT TESTED ON POSTGRESQL: {reason}")
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """URL of an empty schema on PostgreSQL, dropped after the test."""
    schema = f"test_{os.getpid()}_{next(_schemas)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
        separator = "&" if "?" in postgres_server else "?"
        yield f"{postgres_server}{separator}options=-csearch_path%3D{schema}"
        # A worker that was killed may still hold locks there.
        connection.execute(
            "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_class c"
            " ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND l.pid <> pg_backend_pid()",
            [schema],
        )
        connection.execute(f'DROP SCHEMA "{schema}" CASCADE')


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
def capabilities(request: pytest.FixtureRequest) -> Capabilities:
    """Each backend in turn; a test that asks for it, or for what follows, runs on all of them."""
    backend: Capabilities = request.param
    return backend


@pytest.fixture
def database(capabilities: Capabilities, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """URL of an empty database on the backend in turn."""
    if capabilities is POSTGRESQL:
        url: str = request.getfixturevalue("postgres_url")
        return url
    return ":memory:" if capabilities is SQLITE_MEMORY else f"sqlite:///{tmp_path / 'test.db'}"


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands at `START` until a test moves it."""
    from persistence import ManualClock  # noqa: PLC0415  # tests of the language need no database

    return ManualClock(START)


@pytest.fixture
def store(database: str, clock: ManualClock) -> Iterator[Store]:
    """An open store on the backend in turn, on the manual clock."""
    from persistence import open_store  # noqa: PLC0415  # tests of the language need no database

    with open_store(database, clock=clock) as opened:
        yield opened
