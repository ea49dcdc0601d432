"""`diagram`: a machine drawn from its declaration."""

from __future__ import annotations

import enum
from typing import Annotated, assert_never

import typer

from persistence.cli.exits import USAGE, Ended


class Format(enum.StrEnum):
    """What a diagram is written in."""

    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"
    TABLE = "table"


def diagram(
    machine: Annotated[str, typer.Argument(help="Name of the machine.")] = "run_launch",
    form: Annotated[
        Format, typer.Option("--format", help="`table` is the transition table in Markdown.")
    ] = Format.MERMAID,
) -> None:
    """Print a machine's diagram or its transition table."""
    from statemachine import render  # noqa: PLC0415 - no other command draws
    from statemachine.machines import ALL  # noqa: PLC0415 - likewise

    known = {one.name: one for one in ALL}
    if machine not in known:
        raise Ended(USAGE, f"there is no machine {machine!r}; known: {', '.join(known)}")
    match form:
        case Format.MERMAID:
            text = render.to_mermaid(known[machine])
        case Format.DOT:
            text = render.to_dot(known[machine])
        case Format.SVG:
            text = render.to_svg(known[machine])
        case Format.TABLE:
            text = render.to_table(known[machine])
        case _:
            assert_never(form)
    print(text.rstrip("\n"))
