"""`diagram`: a machine drawn from its declaration."""

from __future__ import annotations

import enum
from typing import Annotated, assert_never

import typer

from persistence.cli.naming import machine_named


class Format(enum.StrEnum):
    """What a diagram is written in."""

    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"
    TABLE = "table"


def diagram(
    machine: Annotated[
        str, typer.Argument(help="Name of the machine, or module:NAME of an own one.")
    ] = "run_launch",
    form: Annotated[
        Format, typer.Option("--format", help="`table` is the transition table in Markdown.")
    ] = Format.MERMAID,
) -> None:
    """Print a machine's diagram or its transition table."""
    from statemachine import render  # noqa: PLC0415 - no other command draws

    drawn = machine_named(machine)
    match form:
        case Format.MERMAID:
            text = render.to_mermaid(drawn)
        case Format.DOT:
            text = render.to_dot(drawn)
        case Format.SVG:
            text = render.to_svg(drawn)
        case Format.TABLE:
            text = render.to_table(drawn)
        case _:
            assert_never(form)
    print(text.rstrip("\n"))
