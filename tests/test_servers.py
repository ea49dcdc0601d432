"""The tests find a PostgreSQL server, or start one of their own."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from tests import servers


def test_a_private_server_answers_until_it_is_left() -> None:
    """Where only the programs are installed, the tests run on a server of their own."""
    programs = servers.server_programs()
    if programs is None:
        pytest.skip("NOT TESTED: PostgreSQL's server programs are not installed")

    with servers.private_server(programs) as url, psycopg.connect(url) as connection:
        row = connection.execute("SELECT 40 + 2").fetchone()

    assert row == (42,)
    assert not servers._answers(url)


def test_a_given_server_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL in the environment is taken as it is."""
    monkeypatch.setenv(servers.GIVEN, "postgresql://given/database")

    with ExitStack() as cleanup:
        url = servers.find_server(cleanup)

    assert url == "postgresql://given/database"


def test_without_any_server_the_reason_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody guesses why the tests on PostgreSQL were skipped."""
    monkeypatch.delenv(servers.GIVEN, raising=False)
    monkeypatch.setattr(servers, "RUNNING", "postgresql://root@127.0.0.1:1/test")
    monkeypatch.setattr(servers, "server_programs", lambda: None)

    with ExitStack() as cleanup, pytest.raises(servers.NoServer, match=r"sqlatch\[server\]"):
        servers.find_server(cleanup)


def test_each_test_has_a_schema_of_its_own(postgres_url: str) -> None:
    """What one test creates, no other test meets."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE alone (id int)")
        row = connection.execute(
            "SELECT table_schema = current_schema FROM information_schema.tables"
            " WHERE table_name = 'alone'"
        ).fetchall()

    assert row == [(True,)]


def test_databases_are_empty_and_apart(database: str, tmp_path: Path) -> None:
    """Each backend gives a URL; a file lies in the test's own directory."""
    places = (":memory:", f"sqlite:///{tmp_path}", "postgresql://")

    assert database.startswith(places)
