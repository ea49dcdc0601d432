"""Databases of a test that others meddle with: statements of their own, triggers that break."""

from __future__ import annotations

import sqlite3

import psycopg


def meddle(url: str, *statements: str) -> None:
    """Run statements on a connection of one's own."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())
        return
    file = sqlite3.connect(url.removeprefix("sqlite:///"))
    for statement in statements:
        file.execute(statement)
    file.commit()
    file.close()


def break_when(url: str, condition: str) -> None:
    """Have every update of a run fail, as if the connection were gone, where SQL says so."""
    if url.startswith("postgresql"):
        meddle(
            url,
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF {condition} THEN RAISE EXCEPTION 'gone' USING ERRCODE = '57P01'; END IF;"
            " RETURN NEW; END $$",
            "CREATE TRIGGER broken BEFORE UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION broken()",
        )
        return
    meddle(
        url,
        f"CREATE TRIGGER broken BEFORE UPDATE ON runs WHEN {condition}"
        " BEGIN SELECT RAISE(ABORT, 'gone'); END",
    )


def mend(url: str) -> None:
    """End that."""
    if url.startswith("postgresql"):
        meddle(url, "DROP TRIGGER broken ON runs", "DROP FUNCTION broken()")
    else:
        meddle(url, "DROP TRIGGER broken")
