"""Which database a command works on, and what all commands call their options."""

from __future__ import annotations

import getpass
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statemachine.errors import StoreUnavailable
from statemachine.outcome import Actor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from persistence import Store
    from statemachine.machine import Machine

DEFAULT_DB = "./sqlatch.db"

Db = Annotated[
    str,
    typer.Option(
        "--db",
        envvar="SQLATCH_DB",
        metavar="URL",
        help="Path of an SQLite file, sqlite:///path or postgresql://...",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Project = Annotated[
    str, typer.Option("--project", help="Scope of the runs that are launched and taken.")
]
RunId = Annotated[str, typer.Argument(metavar="ID", help="The run's id.")]


def open_database(
    db: str,
    *,
    create: bool = False,
    read_only: bool = False,
    project: str | None = None,
    machines: Sequence[Machine] = (),
    actor: Actor | None = None,
) -> Store:
    """Open the database.

    Args:
        db: Path or URL.

        create: Make file and layout where they are missing.

        read_only: Write nothing.

        project: Scope of the store; None: all projects.

        machines: Own machines, beside the shipped ones.

        actor: Who makes the calls; default: the operator at this terminal.

    Raises:
        StoreUnavailable: It does not exist and is not to be made, or cannot be opened.
    """
    from persistence import open_store  # noqa: PLC0415 - `--help` need not pay for it

    if not create and "://" not in db and db != ":memory:" and not Path(db).exists():
        raise StoreUnavailable(f"there is no database at {db}; `sqlatch init` makes one")
    return open_store(
        db,
        create=create,
        read_only=read_only,
        project=project,
        machines=machines,
        actor=actor or operator(),
    )


def shown(db: str) -> str:
    """Return a URL as it may be printed: without its password."""
    return re.sub(r"(//[^:/@]*):.*@", r"\1:***@", db)


def operator() -> Actor:
    """Return who sits at this terminal."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return Actor("operator", f"{user}@{socket.gethostname()}")
