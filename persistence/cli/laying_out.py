"""`init`, `migrate`, `ddl`: the layout."""

from __future__ import annotations

from persistence.cli.database import DEFAULT_DB, Db, Json, open_database, shown
from persistence.cli.naming import MachineNames, machines_named
from persistence.cli.printing import print_json


def init(db: Db = DEFAULT_DB) -> None:
    """Make the database's layout; harmless where it is there already."""
    with open_database(db, create=True):
        print(f"{shown(db)} is ready")


def migrate(db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """Bring the database to this version's layout, whole or not at all.

    Harmless where it has it already; a missing SQLite file is made.
    """
    from persistence.migrations import migrate as to_head  # noqa: PLC0415 - brings Alembic along

    done = to_head(db)
    if as_json:
        print_json({"before": done.before, "after": done.after})
    elif done.before == done.after:
        print(f"{shown(db)} has layout {done.after} already")
    else:
        print(f"{shown(db)} has layout {done.after} now; before: {done.before or 'none'}")


def ddl(names: MachineNames = None, db: Db = DEFAULT_DB) -> None:
    """Print the SQL that makes the tables, indexes and triggers of machines.

    It is what `init` does for a database of the URL's kind, which is not opened; beginning with
    what all machines share.
    """
    from persistence.layout import parts_of  # noqa: PLC0415 - `--help` need not pay for it
    from persistence.opening import Access, backend_of  # noqa: PLC0415 - likewise

    url = db if "://" in db and not db.startswith("sqlite:") else ":memory:"
    backend = backend_of(url, None, Access())
    for part, statements in parts_of(machines_named(names), backend.dialect).items():
        print(f"-- {part}")
        for statement in statements:
            print(f"{statement.rstrip().rstrip(';')};\n")
