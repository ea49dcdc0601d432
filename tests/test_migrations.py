"""From an empty database to this version's layout, and from one that `open_store` made."""

from __future__ import annotations

import json
import multiprocessing
import sqlite3
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psycopg
import pytest

from persistence import open_store
from persistence.dialect import Dialect
from persistence.migrations import Migrated, migrate
from persistence.migrations.frozen import DIALECTS, current, frozen
from statemachine.errors import SchemaMismatch, StoreCorrupt


@pytest.fixture(name="empty", params=["sqlite", "postgresql"])
def _empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a database that outlives a connection, and is empty."""
    if request.param == "sqlite":
        return str(tmp_path / "new" / "runs.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_the_migrations_lead_to_the_declared_layout(dialect: Dialect) -> None:
    """What a declaration gives is what the last migration makes.

    Before the first release, write it anew: `python -m persistence.migrations.frozen`.
    """
    assert json.loads(current(dialect)) == {
        part: list(statements) for part, statements in frozen(1, dialect.name).items()
    }


def test_an_empty_database_is_migrated(empty: str) -> None:
    """Afterwards the store opens it without making anything."""
    assert Migrated(None, "0001") == migrate(empty)
    assert Migrated("0001", "0001") == migrate(empty)
    with open_store(empty, create=False) as store:
        assert store.runs.list() == []


def test_a_database_that_the_store_made_is_known(empty: str) -> None:
    """It has this version's layout already; its rows stay."""
    with open_store(empty) as store:
        store.runs.reserve(
            run_id="r1", workflow="w", source_ref="r", source={}, definition_digest="d"
        )

    assert Migrated("0001", "0001") == migrate(empty)
    with open_store(empty, create=False) as store:
        assert [run.run_id for run in store.runs.list()] == ["r1"]


@pytest.mark.slow
def test_eight_processes_migrate_at_once(empty: str) -> None:
    """SCH-01: one of them makes the layout, the others find it made; 20 rounds.

    So far there is one layout: no step adds a column to another.
    """
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(PROCESSES)
    with context.Pool(PROCESSES, _enter, (gate,)) as pool:
        for number in range(ROUNDS):
            url = _another(empty, number)
            done = pool.map(_migrate_at_once, [url] * PROCESSES, chunksize=1)

            assert [migrated.after for migrated in done] == ["0001"] * PROCESSES
            assert [migrated.before for migrated in done].count(None) == 1
            with open_store(url, create=False) as store:
                assert store.runs.list() == []


PROCESSES, ROUNDS = 8, 20
_gates: list[Barrier] = []


def _enter(gate: Barrier) -> None:
    _gates.append(gate)


def _migrate_at_once(url: str) -> Migrated:
    _gates[0].wait(60)
    return migrate(url)


def _another(empty: str, number: int) -> str:
    """Return the URL of a database of the round: empty once more."""
    if not empty.startswith("postgresql"):
        return f"{empty}.{number}"
    schema = empty.rpartition("search_path%3D")[2]
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())
        connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
    return empty


def test_a_migration_that_fails_changes_nothing(empty: str) -> None:
    """SCH-01: a table in the way stops it, and no part of the layout is left behind."""
    if empty.startswith("postgresql"):
        with psycopg.connect(empty, autocommit=True) as connection:
            connection.execute("CREATE TABLE notifications (mine integer)")
    else:
        Path(empty).parent.mkdir()
        file = sqlite3.connect(empty)
        file.execute("CREATE TABLE notifications (mine integer)")
        file.close()

    with pytest.raises(SchemaMismatch, match="notifications"):
        migrate(empty)
    with pytest.raises(SchemaMismatch, match="no sqlatch layout"):
        open_store(empty, create=False)


def test_another_layout_is_named_and_left_alone(empty: str) -> None:
    """A database of another version is refused with the command that migrates it."""
    with open_store(empty):
        pass
    change = "UPDATE sqlatch_layout SET version = 7 WHERE part = 'run_launch'"
    if empty.startswith("postgresql"):
        with psycopg.connect(empty, autocommit=True) as connection:
            connection.execute(change)
    else:
        file = sqlite3.connect(empty)
        file.execute(change)
        file.commit()
        file.close()

    with pytest.raises(SchemaMismatch, match=r"run_launch.*sqlatch migrate"):
        open_store(empty)


def test_a_file_that_is_no_database_is_not_migrated(tmp_path: Path) -> None:
    """It is left as it is."""
    path = tmp_path / "garbage"
    path.write_bytes(b"garbage" * 1000)

    with pytest.raises(StoreCorrupt):
        migrate(str(path))

    assert path.read_bytes() == b"garbage" * 1000
