"""Statements are bound by position, in each database's own spelling."""

from __future__ import annotations

import sqlite3

import psycopg

from persistence.backends import postgresql_binds, sqlite_binds


def test_each_name_is_one_number() -> None:
    """A parameter that stands twice is bound once; quoted text stays as it is."""
    text, pick = sqlite_binds.positional(
        """SELECT :a, ':a', 'it''s :b', ":c", :b + :a AS ":c\"":d" """
    )

    assert text == """SELECT ?1, ':a', 'it''s :b', ":c", ?2 + ?1 AS ":c\"":d" """
    assert pick({"a": 1, "b": 2, "c": 3}) == (1, 2)


def test_values_arrive() -> None:
    """What is picked is what the statement sees."""
    text, pick = sqlite_binds.positional("SELECT :a, ':a', :b + :a")

    rows = sqlite3.connect(":memory:").execute(text, pick({"b": 2, "a": 1})).fetchall()

    assert rows == [(1, ":a", 3)]


def test_a_percent_sign_is_one_on_the_server() -> None:
    """SQLAlchemy doubles it wherever it stands; what looks like a number of ours is left alone."""
    text, pick = postgresql_binds.positional("SELECT %(b)s, 'a%%b %%(c)s $9', %(a)s, %(b)s")

    assert text == b"SELECT $1, 'a%b %(c)s $9', $2, $1"
    assert pick({"a": 1, "b": 2, "c": 3}) == (2, 1)


def test_values_arrive_at_the_server(postgres_url: str) -> None:
    """What is picked is what the server sees."""
    text, pick = postgresql_binds.positional("SELECT %(a)s::text, '100 %%', %(b)s::int + 1")

    with psycopg.connect(postgres_url) as connection, psycopg.RawCursor(connection) as cursor:
        rows = cursor.execute(text, pick({"b": 2, "a": "it's"})).fetchall()

    assert rows == [("it's", "100 %", 3)]
