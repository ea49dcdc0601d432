"""`export`: a machine written for another tool."""

from __future__ import annotations

import enum
from typing import Annotated, assert_never

import typer

from persistence.cli.naming import machine_named


class ExportFormat(enum.StrEnum):
    """Which tool reads it."""

    PROMELA = "promela"


def export(
    machine: Annotated[
        str, typer.Argument(help="Name of the machine, or module:NAME of an own one.")
    ] = "run_launch",
    form: Annotated[
        ExportFormat, typer.Option("--format", help="`promela`: for the model checker Spin.")
    ] = ExportFormat.PROMELA,
    rows: Annotated[
        int, typer.Option(help="1: one whole row; 2 to 4: what the uniqueness rules see of each.")
    ] = 1,
) -> None:
    """Print a machine for another tool; the text says how to use it."""
    from statemachine.promela import to_promela  # noqa: PLC0415 - no other command needs it

    exported = machine_named(machine)
    match form:
        case ExportFormat.PROMELA:
            text = to_promela(exported, rows=rows)
        case _:
            assert_never(form)
    print(text.rstrip("\n"))
