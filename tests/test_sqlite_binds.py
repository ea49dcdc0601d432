"""Statements are bound by position on SQLite; what stands in quotes is no parameter."""

from __future__ import annotations

import sqlite3

from persistence.backends.sqlite_binds import positional


def test_each_name_is_one_number() -> None:
    """A parameter that stands twice is bound once; quoted text stays as it is."""
    text, pick = positional("""SELECT :a, ':a', 'it''s :b', ":c", :b + :a AS ":c\"":d" """)

    assert text == """SELECT ?1, ':a', 'it''s :b', ":c", ?2 + ?1 AS ":c\"":d" """
    assert pick({"a": 1, "b": 2, "c": 3}) == (1, 2)


def test_values_arrive() -> None:
    """What is picked is what the statement sees."""
    text, pick = positional("SELECT :a, ':a', :b + :a")

    rows = sqlite3.connect(":memory:").execute(text, pick({"b": 2, "a": 1})).fetchall()

    assert rows == [(1, ":a", 3)]
