"""`diagram`: a machine drawn from its declaration."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from persistence.cli.database import DEFAULT_DB, Db, open_database
from persistence.cli.exits import USAGE, Ended
from persistence.cli.naming import MachineName, machine_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from statemachine.machine import Machine


class Format(enum.StrEnum):
    """What a diagram is written in."""

    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"
    TABLE = "table"


def diagram(
    machine: MachineName = "run_launch",
    *,
    form: Annotated[
        Format, typer.Option("--format", help="`table` is the transition table in Markdown.")
    ] = Format.MERMAID,
    live: Annotated[
        bool, typer.Option("--live", help="Colour states by how many rows the database has there.")
    ] = False,
    db: Db = DEFAULT_DB,
) -> None:
    """Print a machine's diagram or its transition table."""
    from statemachine import render  # noqa: PLC0415 - no other command draws

    drawn = machine_named(machine)
    if live and form is Format.TABLE:
        raise Ended(USAGE, "a table has no colours: choose another format for --live")
    counts = _counted(drawn, db) if live else None
    match form:
        case Format.MERMAID:
            text = render.to_mermaid(drawn, counts=counts)
        case Format.DOT:
            text = render.to_dot(drawn, counts=counts)
        case Format.SVG:
            text = render.to_svg(drawn, counts=counts)
        case Format.TABLE:
            text = render.to_table(drawn)
        case _:
            assert_never(form)
    print(text.rstrip("\n"))


def _counted(machine: Machine, db: str) -> Mapping[str, int]:
    """Return how many rows the database has in each state."""
    from statemachine.machines import ALL  # noqa: PLC0415 - a plain diagram needs no database

    own = () if machine in ALL else (machine,)
    with open_database(db, read_only=True, machines=own) as store:
        return store.machine(machine).counts()
