"""`init`: the layout."""

from __future__ import annotations

from persistence.cli.database import DEFAULT_DB, Db, open_database


def init(db: Db = DEFAULT_DB) -> None:
    """Make the database's layout; harmless where it is there already."""
    with open_database(db, create=True):
        print(f"{db} is ready")
