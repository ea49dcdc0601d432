"""`init`, `migrate`, `ddl`: the layout."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from persistence.cli.database import DEFAULT_DB, Db, Json, open_database, shown
from persistence.cli.naming import MachineNames, machines_named
from persistence.cli.printing import print_json
from statemachine.errors import StoreUnavailable

if TYPE_CHECKING:
    from persistence.dialect import Dialect
    from statemachine.machine import Machine


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
    """Print the SQL that is to be run for machines; change nothing.

    Of a database with a layout, or with a table of your own that a machine is declared over: what
    is to be added, so that a store opens with these machines. Of any other, and of one that is not
    there: what makes their tables, indexes and triggers, beginning with what all machines share.
    """
    from persistence.additions import whole  # noqa: PLC0415 - `--help` need not pay for it

    machines = machines_named(names)
    dialect, added = _looked_at(db, machines)
    parts = whole(machines, dialect) if added is None else added
    print("-- Run it in one transaction.\n" if parts else "-- There is nothing to add.")
    for part, statements in parts.items():
        print(f"-- {part}")
        for statement in statements:
            print(f"{statement.rstrip().rstrip(';')};\n")


def _looked_at(
    db: str, machines: tuple[Machine, ...]
) -> tuple[Dialect, Mapping[str, tuple[str, ...]] | None]:
    """Return which kind of database it is, and what is to be added; None: it has nothing yet."""
    from persistence.additions import additions, is_fresh  # noqa: PLC0415 - as above
    from persistence.backends.sqlite import MEMORY, SqliteBackend, path_of  # noqa: PLC0415 - likewise
    from persistence.cli.durability import moment  # noqa: PLC0415 - likewise
    from persistence.opening import Access, backend_of  # noqa: PLC0415 - likewise
    from statemachine.machines import ALL  # noqa: PLC0415 - likewise

    path = path_of(db)
    there = "://" in path or Path(path).exists()
    backend = backend_of(db if there else MEMORY, None, Access(create=False, read_only=True))
    try:
        if not isinstance(backend, SqliteBackend):
            trouble = backend.unreachable()
            if isinstance(trouble, StoreUnavailable):
                print(f"sqlatch: this is the whole layout, for {trouble}", file=sys.stderr)
                return backend.dialect, None
        with backend.session() as session:
            if is_fresh(session, machines, backend.dialect):
                return backend.dialect, None
            every = (*ALL, *(machine for machine in machines if machine not in ALL))
            return backend.dialect, additions(session, every, backend.dialect, moment(backend))
    finally:
        backend.close()
