"""`migrate` and `ddl`: the layout on the command line."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from persistence import open_store
from tests.cli.conftest import Call
from tests.order import ORDER


def test_migrate_makes_the_layout_once(call: Call, db: str) -> None:
    """A missing database is made whole; a database of this version is left as it is."""
    first = call("migrate", "--json")
    again = call("migrate")

    assert first.json == {"before": None, "after": "0001"}
    assert (again.code, again.out) == (0, f"{db} has layout 0001 already\n")
    assert call("list", "--json").json == []


def test_migrate_on_a_server(call: Call, postgres_url: str) -> None:
    """A PostgreSQL database is migrated by the same command; its password is not printed."""
    said = call("migrate", "--db", postgres_url)

    assert said.code == 0
    assert said.out.endswith(" has layout 0001 now; before: none\n")


def test_a_password_is_not_printed(call: Call, postgres_url: str) -> None:
    """No command prints the password of a URL."""
    scheme, rest = postgres_url.split("://", 1)
    place = rest.split("@", 1)[-1]
    said = call("init", "--db", f"{scheme}://root:hunter2@{place}")

    assert said.code == 0
    assert "hunter2" not in said.out + said.err
    assert "root:***@" in said.out


def test_the_printed_layout_is_the_layout(call: Call, db: str, tmp_path: Path) -> None:
    """What `ddl` prints makes what `init` makes."""
    printed = str(tmp_path / "printed.db")
    with sqlite3.connect(printed) as connection:
        connection.executescript(call("ddl").out)
    call("init")
    catalogs = []
    for path in (printed, db):
        with sqlite3.connect(path) as connection:
            catalogs.append(connection.execute(_CATALOG).fetchall())

    assert catalogs[0] == catalogs[1]


def test_an_own_machine_is_printed(
    call: Call, db: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`module:NAME` names an own machine; the URL's kind is enough, where none can be reached."""
    monkeypatch.chdir(tmp_path)
    own = call("ddl", "tests.order:ORDER", "--db", "postgresql://nowhere.invalid/x")

    assert own.code == 0
    assert f"CREATE TABLE {ORDER.table} (" in own.out
    assert "plpgsql" in own.out
    assert not Path(db).exists()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nonsense", "there is no machine 'nonsense'; known: run_launch"),
        ("tests.order:NOTHING", "tests.order:NOTHING"),
        ("no.such.module:ORDER", "no.such.module:ORDER"),
        ("tests.order:Order", "tests.order:Order is no machine"),
    ],
)
def test_unknown_machine(call: Call, name: str, told: str) -> None:
    """A machine that there is not is wrong usage, and named."""
    said = call("ddl", name)

    assert said.code == 2
    assert told in said.err


def test_own_machine_is_drawn(call: Call) -> None:
    """`diagram` draws an own machine too."""
    assert "shipped" in call("diagram", "tests.order:ORDER").out


def test_layout_of_other_machines_stays(call: Call, db: str) -> None:
    """A database with an own machine in it is migrated and opened without it."""
    with open_store(db, machines=(ORDER,)):
        pass

    assert call("migrate", "--json").json == {"before": "0001", "after": "0001"}
    assert call("list").code == 0


_CATALOG = (
    "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
)
