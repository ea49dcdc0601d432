"""`export`: a machine written for another tool."""

from __future__ import annotations

import enum
from typing import Annotated, assert_never

import typer

from persistence.cli.exits import USAGE, Ended


class ExportFormat(enum.StrEnum):
    """Which tool reads it."""

    PROMELA = "promela"


def export(
    machine: Annotated[str, typer.Argument(help="Name of the machine.")] = "run_launch",
    form: Annotated[
        ExportFormat, typer.Option("--format", help="`promela`: for the model checker Spin.")
    ] = ExportFormat.PROMELA,
    rows: Annotated[
        int, typer.Option(help="1: one whole row; 2 to 4: what the uniqueness rules see of each.")
    ] = 1,
) -> None:
    """Print a machine for another tool; the text says how to use it."""
    from statemachine.machines import ALL  # noqa: PLC0415 - no other command needs it
    from statemachine.promela import to_promela  # noqa: PLC0415 - likewise

    known = {one.name: one for one in ALL}
    if machine not in known:
        raise Ended(USAGE, f"there is no machine {machine!r}; known: {', '.join(known)}")
    match form:
        case ExportFormat.PROMELA:
            text = to_promela(known[machine], rows=rows)
        case _:
            assert_never(form)
    print(text.rstrip("\n"))
