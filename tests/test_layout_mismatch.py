"""A database that is not laid out as declared is not opened: what differs is named."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest

from persistence import open_store
from persistence.backends import sqlite_file
from persistence.backends.sqlite import path_of
from statemachine.errors import SchemaMismatch, StoreUnavailable
from tests.cases.launches import queue


def meddle(url: str, *statements: str) -> None:
    """Run SQL past the store."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as server:
            for statement in statements:
                server.execute(statement.encode())
        return
    file = sqlite3.connect(path_of(url), isolation_level=None)
    for statement in statements:
        file.execute(statement)
    file.close()


NOTHING = "RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$"

SQLITE = {
    "a column renamed": (
        ["ALTER TABLE runs RENAME COLUMN paused TO stopped"],
        [
            "column runs.paused is missing",
            "column runs.stopped is extra",
            "table runs is different",
        ],
    ),
    "a column added": (
        ["ALTER TABLE runs ADD COLUMN priority INTEGER"],
        ["column runs.priority is extra"],
    ),
    "a trigger altered": (
        [
            "DROP TRIGGER runs_edge",
            "CREATE TRIGGER runs_edge BEFORE UPDATE OF status ON runs BEGIN SELECT 1; END",
        ],
        ["trigger runs.runs_edge is different"],
    ),
    "a trigger missing": (
        ["DROP TRIGGER sqlatch_history_kept"],
        ["trigger sqlatch_history.sqlatch_history_kept is missing"],
    ),
    "a trigger of somebody's": (
        ["CREATE TRIGGER mine AFTER UPDATE ON runs BEGIN SELECT 1; END"],
        ["trigger runs.mine is extra"],
    ),
    "a trigger of somebody's, spelled otherwise": (
        ['CREATE TRIGGER "mine"\nAFTER INSERT\nON\n"RUNS"\nBEGIN SELECT 1; END'],
        ["trigger runs.mine is extra"],
    ),
    "a trigger of somebody's on the history": (
        ["CREATE TRIGGER mine BEFORE INSERT ON [sqlatch_history] BEGIN SELECT RAISE(IGNORE); END"],
        ["trigger sqlatch_history.mine is extra"],
    ),
    "an index missing": (
        ["DROP INDEX runs_session_reservation"],
        ["index runs.runs_session_reservation is missing"],
    ),
    "an index altered": (
        [
            "DROP INDEX runs_one_continuation",
            "CREATE UNIQUE INDEX runs_one_continuation ON runs (parent_run_id, run_id)",
        ],
        ["index runs.runs_one_continuation is different"],
    ),
    "a unique index of somebody's": (
        ["CREATE UNIQUE INDEX mine ON runs (workflow)"],
        ["index runs.mine is extra"],
    ),
    "a table missing": (["DROP TABLE sqlatch_permit"], ["table sqlatch_permit is missing"]),
    "another version": (
        ["UPDATE sqlatch_layout SET version = 7 WHERE part = 'run_launch'"],
        ["run_launch has layout 7"],
    ),
}

POSTGRESQL = {
    "a column renamed": (
        ["ALTER TABLE runs RENAME COLUMN paused TO stopped"],
        ["column runs.paused is missing", "column runs.stopped is extra"],
    ),
    "a column added": (
        ["ALTER TABLE runs ADD COLUMN priority integer"],
        ["column runs.priority is extra"],
    ),
    "a column of another type": (
        ["ALTER TABLE runs ALTER COLUMN facts_digest TYPE varchar"],
        ["column runs.facts_digest is different"],
    ),
    "a column of another order": (
        ['ALTER TABLE sqlatch_history ALTER COLUMN changes TYPE text COLLATE "und-x-icu"'],
        ["column sqlatch_history.changes is different"],
    ),
    "a column that may be NULL": (
        ["ALTER TABLE runs ALTER COLUMN project DROP NOT NULL"],
        ["column runs.project is different"],
    ),
    "a default dropped": (
        ["ALTER TABLE sqlatch_history ALTER COLUMN tx DROP DEFAULT"],
        ["column sqlatch_history.tx is different"],
    ),
    "a function altered": (
        [f"CREATE OR REPLACE FUNCTION runs_guard_update() {NOTHING}"],
        ["function runs_guard_update is different"],
    ),
    "a trigger switched off": (
        ["ALTER TABLE runs DISABLE TRIGGER runs_guard_update"],
        ["trigger runs.runs_guard_update is different"],
    ),
    "a trigger missing": (
        ["DROP TRIGGER runs_append_update ON runs"],
        ["trigger runs.runs_append_update is missing"],
    ),
    "a trigger of somebody's": (
        [
            f"CREATE FUNCTION mine() {NOTHING}",
            'CREATE TRIGGER mine BEFORE UPDATE ON "runs" FOR EACH ROW EXECUTE FUNCTION mine()',
        ],
        ["trigger runs.mine is extra"],
    ),
    "a rule of somebody's": (
        ["CREATE RULE mine AS ON UPDATE TO runs DO INSTEAD NOTHING"],
        ["rule runs.mine is extra"],
    ),
    "an index missing": (
        ["DROP INDEX runs_session_reservation"],
        ["index runs.runs_session_reservation is missing"],
    ),
    "a unique index of somebody's": (
        ["CREATE UNIQUE INDEX mine ON runs (workflow)"],
        ["index runs.mine is extra"],
    ),
    "a constraint missing": (
        ['ALTER TABLE runs DROP CONSTRAINT "runs: a claimed run is leased"'],
        ["constraint runs.runs: a claimed run is leased is missing"],
    ),
    "a constraint of somebody's": (
        ["ALTER TABLE runs ADD CONSTRAINT mine CHECK (workflow <> 'x')"],
        ["constraint runs.mine is extra"],
    ),
    "a table missing": (["DROP TABLE sqlatch_permit"], ["table sqlatch_permit is missing"]),
    "another version": (
        ["UPDATE sqlatch_layout SET version = 7 WHERE part = 'run_launch'"],
        ["run_launch has layout 7"],
    ),
}


def refused(url: str) -> str:
    """Open a store in every way; all refuse it alike, and say this."""
    said = set()
    for options in ({}, {"create": False}, {"read_only": True}):
        with pytest.raises(SchemaMismatch) as error:
            open_store(url, **options)  # type: ignore[arg-type]  # flags
        said.add(str(error.value))
        assert "Nothing was changed" in error.value.advice
    (text,) = said
    return text


@pytest.mark.parametrize(("change", "differences"), SQLITE.values(), ids=SQLITE)
def test_gen_01_what_differs_on_sqlite_is_named_and_left_alone(
    tmp_path: Path, change: list[str], differences: list[str]
) -> None:
    """GEN-01: neither is a guard of a renamed column taken for a text, nor anything mended."""
    path = tmp_path / "runs.db"
    with open_store(str(path)) as store:
        queue(store)
    meddle(str(path), *change)
    before = path.read_bytes()

    said = refused(str(path))

    assert path.read_bytes() == before
    for difference in differences:
        assert difference in said


@pytest.mark.parametrize(("change", "differences"), POSTGRESQL.values(), ids=POSTGRESQL)
def test_gen_01_what_differs_on_postgresql_is_named_and_left_alone(
    postgres_url: str, change: list[str], differences: list[str]
) -> None:
    """The same, with what else a server can hold."""
    with open_store(postgres_url) as store:
        queue(store)
    meddle(postgres_url, *change)
    before = catalog(postgres_url)

    said = refused(postgres_url)

    assert catalog(postgres_url) == before
    for difference in differences:
        assert difference in said


def catalog(url: str) -> object:
    """Return the rows of the runs, and what their schema holds."""
    with psycopg.connect(url) as server:
        rows = server.execute("SELECT run_id, revision, status FROM runs").fetchall()
        held = server.execute(
            "SELECT relname, relkind FROM pg_class"
            " WHERE relnamespace = current_schema()::regnamespace ORDER BY 1"
        ).fetchall()
        return rows, held


def test_a_store_that_is_open_names_a_column_that_goes(tmp_path: Path) -> None:
    """GEN-01: at the next use, never a move that ignores its guard."""
    path = str(tmp_path / "runs.db")
    with open_store(path) as store:
        queue(store)
        meddle(path, "ALTER TABLE runs RENAME COLUMN paused TO stopped")

        with pytest.raises(SchemaMismatch, match="paused"):
            store.runs.pause("r")


def test_an_index_of_ones_own_is_nobodys_business(tmp_path: Path) -> None:
    """An index that makes nothing unique changes no answer."""
    path = str(tmp_path / "runs.db")
    with open_store(path) as store:
        queue(store)
    meddle(path, "CREATE INDEX mine ON runs (workflow)")

    with open_store(path) as store:
        assert [run.run_id for run in store.runs.list()] == ["r"]


def test_tables_of_ones_own_live_beside_ours(database: str, tmp_path: Path) -> None:
    """With their own triggers, indexes and columns."""
    url = str(tmp_path / "runs.db") if database == ":memory:" else database
    meddle(url, "CREATE TABLE mine (id INTEGER PRIMARY KEY, runs TEXT)")
    with open_store(url) as store:
        queue(store)
    meddle(url, "CREATE UNIQUE INDEX my_runs ON mine (runs)", "ALTER TABLE mine ADD COLUMN m TEXT")

    with open_store(url) as store:
        assert [run.run_id for run in store.runs.list()] == ["r"]


# Where the file lies


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /proc rw,nosuid - proc proc rw
41 22 0:40 / {folder}/home rw,relatime shared:20 - {system} server:/export rw,vers=4.2
42 41 0:41 / {folder}/home/with\\040space rw - tmpfs tmpfs rw
"""


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of mounts to be written; what the kernel says is not ours to change."""
    table = tmp_path / "mountinfo"
    monkeypatch.setattr(sqlite_file, "_MOUNTS", table)
    return table


@pytest.mark.parametrize("system", ["nfs4", "nfs", "cifs", "smb3", "fuse.sshfs"])
def test_sto_04_a_network_file_system_is_refused(tmp_path: Path, mounts: Path, system: str) -> None:
    """STO-04: a log whose memory no two machines share would lose what is written."""
    mounts.write_text(MOUNTS.format(folder=tmp_path, system=system))
    (tmp_path / "home" / "with space").mkdir(parents=True)

    with pytest.raises(StoreUnavailable, match=rf"network \({system}\).*PostgreSQL"):
        open_store(str(tmp_path / "home" / "runs.db"))
    with open_store(str(tmp_path / "home" / "with space" / "runs.db")) as store:
        queue(store)
    with open_store(str(tmp_path / "runs.db")) as store:
        queue(store)


def test_sto_04_where_the_file_system_cannot_be_told_the_store_opens(
    tmp_path: Path, mounts: Path
) -> None:
    """STO-04: a system without such a table is no reason to refuse."""
    assert not mounts.exists()

    with open_store(str(tmp_path / "runs.db")) as store:
        queue(store)


def test_sto_04_a_log_that_cannot_be_kept_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-04: the journal mode in force can be read, and a warning says what that means."""
    connect = sqlite3.connect

    def without_shared_memory(target: str, **options: object) -> sqlite3.Connection:
        return connect(f"{target}&vfs=unix-dotfile", **options)  # type: ignore[call-overload,no-any-return]  # passed on

    monkeypatch.setattr(sqlite3, "connect", without_shared_memory)
    with pytest.warns(RuntimeWarning, match="cannot keep a write-ahead log"):
        store = open_store(str(tmp_path / "runs.db"))
    queue(store)
    mode = store.journal_mode
    store.close()

    assert mode == "delete"


def test_the_journal_mode_in_force_can_be_read(tmp_path: Path) -> None:
    """A log wherever it can be had; in memory and on a server there is none."""
    with open_store(str(tmp_path / "runs.db")) as store:
        assert store.journal_mode == "wal"
    with open_store(":memory:") as store:
        assert store.journal_mode == "memory"


def test_a_server_keeps_its_own_log(postgres_url: str) -> None:
    """There the journal is no matter of ours."""
    with open_store(postgres_url) as store:
        assert store.journal_mode is None
