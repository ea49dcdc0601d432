"""`doctor`: what it sees in a database, and what it says is to be done."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from persistence import ManualClock, open_store
from persistence.cli import durability
from tests.cli.conftest import Call
from tests.order import ORDER

HOUR = timedelta(hours=1)


def found(call: Call, *args: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code, and what was found of each thing that was looked at."""
    said = call("doctor", "--json", *args)
    return said.code, {one["about"]: one for one in said.json}


def reserve(db: str, run_id: str, clock: ManualClock | None = None) -> None:
    """Queue a run."""
    with open_store(db, clock=clock) as store:
        store.runs.reserve(
            run_id=run_id,
            workflow="demo",
            source_ref="test:demo",
            source={"kind": "demo"},
            definition_digest="sha256:0",
        )


@contextmanager
def unguarded(db: str) -> Iterator[sqlite3.Connection]:
    """Write past triggers and CHECKs, as only the schema's owner can; the layout stays the same."""
    connection = sqlite3.connect(db)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    triggers = connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'runs'"
    ).fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    yield connection
    for _, sql in triggers:
        connection.execute(sql)
    connection.commit()
    connection.close()


def test_a_well_database(call: Call, db: str) -> None:
    """Where all is well, each thing that was looked at is told, and nothing is to be done."""
    reserve(db, "r1")
    code, told = found(call)

    assert code == 0
    assert all(one["well"] for one in told.values())
    assert told["journal_mode"]["told"] == "wal"
    assert told["mode of test.db"]["told"] == "0600"
    assert told["rows of run_launch"]["told"].startswith("1 rows, ")
    assert told["expired leases of run_launch"]["told"] == "none"


def test_it_is_printed_as_a_table(call: Call, db: str) -> None:
    """Without --json it is a table of what was looked at."""
    reserve(db, "r1")
    said = call("doctor")

    assert said.code == 0
    assert "rows of run_launch" in said.out


def test_another_layout(call: Call, db: str) -> None:
    """A layout that was tampered with is named, with what restores it."""
    reserve(db, "r1")
    with sqlite3.connect(db) as connection:
        connection.execute("DROP INDEX runs_listed")
    code, told = found(call)

    assert code == 1
    assert told["layout"]["told"] == "index runs.runs_listed is missing"
    assert "sqlatch migrate" in told["layout"]["advice"]


def test_an_expired_lease(call: Call, db: str) -> None:
    """A run whose holder is gone is named; workers would take it up."""
    reserve(db, "r1")
    reserve(db, "r2")
    with open_store(db) as store:
        assert store.runs.claim("r1", runner_id="w", lease=timedelta(milliseconds=1))
        assert store.runs.claim("r2", runner_id="w", lease=HOUR)
    code, told = found(call)

    assert code == 1
    assert told["expired leases of run_launch"]["told"] == "1 (r1) of 2 rows"
    assert "start workers" in told["expired leases of run_launch"]["advice"]


def test_a_row_that_breaks_an_invariant(call: Call, db: str) -> None:
    """A row that somebody wrote past the triggers is named with the invariant that it breaks."""
    for run_id in ("r1", "r2"):
        reserve(db, run_id)
    with unguarded(db) as connection:
        connection.execute("UPDATE runs SET status = 'done' WHERE run_id = 'r2'")
    code, told = found(call)

    assert code == 1
    assert told["layout"]["well"]
    assert told["rows of run_launch"]["told"].startswith("1 (r2): not true: ")


def test_a_row_in_no_declared_state(call: Call, db: str) -> None:
    """A row that no rule can be asked of is named with the column, and the others are looked at."""
    for run_id in ("r1", "r2"):
        reserve(db, run_id)
    with unguarded(db) as connection:
        connection.execute("UPDATE runs SET status = 'lost', paused = 1 WHERE run_id = 'r2'")
    code, told = found(call)

    assert code == 1
    assert told["rows of run_launch"]["told"] == "1 (r2): not true: status holds what it can"


def test_every_page_of_rows_is_read(call: Call, db: str) -> None:
    """More rows than a page holds are all looked at."""
    with open_store(db) as store, store.transaction():
        for number in range(1_001):
            store.runs.reserve(
                run_id=f"r{number:04}",
                workflow="demo",
                source_ref="test:demo",
                source={"kind": "demo"},
                definition_digest="sha256:0",
            )
    _, told = found(call)

    assert told["rows of run_launch"]["told"].startswith("1001 rows, ")


def test_a_clock_that_was_set_back(call: Call, db: str) -> None:
    """A row that was moved later than now tells of a clock that went back."""
    reserve(db, "r1", ManualClock(datetime.now(UTC) + HOUR))
    code, told = found(call)

    assert code == 1
    assert "set back" in told["instants of run_launch"]["advice"]


def test_a_file_that_others_may_read(call: Call, db: str) -> None:
    """The command that mends a mode is told."""
    reserve(db, "r1")
    Path(db).chmod(0o644)
    code, told = found(call)

    assert code == 1
    assert told["mode of test.db"]["advice"] == f"Others may use it: chmod 600 {db}"


def test_it_changes_nothing(call: Call, db: str) -> None:
    """A database without a layout gets none by being looked at."""
    sqlite3.connect(db).execute("CREATE TABLE mine (a)").connection.close()
    before = Path(db).read_bytes()
    code, told = found(call)

    assert (code, list(told)) == (1, ["layout"])
    assert Path(db).read_bytes() == before


def test_a_server(call: Call, postgres_url: str) -> None:
    """On PostgreSQL the server's settings and clock are looked at."""
    reserve(postgres_url, "r1")
    _, told = found(call, "--db", postgres_url)

    assert set(told) >= {"layout", "fsync", "full_page_writes", "synchronous_commit", "clock"}
    assert told["clock"]["told"].startswith("the server's; this machine's is ")
    assert told["rows of run_launch"]["told"].startswith("1 rows, ")


def test_a_clock_far_from_the_servers(postgres_url: str) -> None:
    """A process's clock that is off is told by how much, though leases hold."""
    with open_store(postgres_url) as store:
        behind = durability.clock(store.engine.backend, ManualClock(datetime.now(UTC) - HOUR))
        right = durability.clock(store.engine.backend)

    assert "behind" in behind.told
    assert "set the clock" in behind.advice
    assert right.well


def test_an_own_machine(call: Call, db: str) -> None:
    """Rows of an own machine are looked at where it is named."""
    with open_store(db, machines=(ORDER,)) as store:
        store.machine(ORDER).create("place", {"order_id": "o1", "basket": "b"})
    code, told = found(call, "tests.order:ORDER")

    assert code == 0
    assert told["rows of order"]["told"].startswith("1 rows, ")
