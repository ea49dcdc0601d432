"""PostgreSQL: the schema that a store is opened in."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from persistence import open_store
from statemachine import InvalidArgument, SchemaMismatch
from tests.cases.launches import queue

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("SqlatchNamed", "sqlatchnamed")


@pytest.fixture
def server(postgres_url: str) -> Iterator[str]:
    """A server with two schemas whose names differ in their letters' case alone."""
    plain = urlsplit(postgres_url)._replace(query="").geturl()
    with psycopg.connect(plain, autocommit=True) as connection:
        drop, create = "DROP SCHEMA IF EXISTS {} CASCADE", "CREATE SCHEMA {}"
        for name in NAMES:
            for statement in (drop, create):
                connection.execute(sql.SQL(statement).format(sql.Identifier(name)))
        yield plain
        for name in NAMES:
            connection.execute(sql.SQL(drop).format(sql.Identifier(name)))


def test_a_schemas_name_is_taken_as_it_is_spelled(server: str) -> None:
    """Two stores in schemas whose names differ in case alone share nothing; both open again."""
    for _ in range(2):
        with ExitStack() as opened:
            upper, lower = (opened.enter_context(open_store(server, schema=n)) for n in NAMES)
            queue(upper, "one")
            assert upper.runs.get("one") is not None
            assert lower.runs.get("one") is None


def test_a_name_that_is_none_is_refused(postgres_url: str) -> None:
    """What would end the name in the settings is not let near them."""
    for name in ('a"b', "a b", "", "1a", "a" * 64):
        with pytest.raises(InvalidArgument, match="schema"):
            open_store(postgres_url, schema=name)


def test_a_schema_that_is_not_there_is_to_be_made_first(server: str) -> None:
    """It is told what to do, not that the database cannot be reached."""
    with pytest.raises(SchemaMismatch, match="CREATE SCHEMA"):
        open_store(server, schema="nowhere")
