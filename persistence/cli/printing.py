"""What the command prints: records as JSON or as tables, and nothing that a terminal obeys."""

from __future__ import annotations

import enum
import json
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import attrs

from statemachine.machines.run_launch import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from statemachine.outcome import Event, HostEvent

HIDDEN = ("input", "launch_options", "lease_token_hash")
"""Private fields of a run, which no command prints."""

_PIPE_WIDTH = 200
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return the text with control characters spelled out; line feeds and tabs stay."""
    return _OBEYED.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def one_line(text: str) -> str:
    """Return the text on one line, control characters spelled out."""
    return printable(" ".join(text.split()))


def instant(at: datetime | None) -> str:
    """Return an instant in UTC, to the millisecond; empty where there is none."""
    return "" if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def run_members(run: Run) -> dict[str, Any]:
    """Return what `--json` prints of a run: every field but the private ones."""
    names = (attribute.name for attribute in attrs.fields(Run))
    return {name: member(getattr(run, name)) for name in names if name not in HIDDEN}


def event_members(event: Event | HostEvent) -> dict[str, Any]:
    """Return what `--json` prints of a row of the history or the feed."""
    members = attrs.asdict(event)
    members["at"] = instant_of(event.at)
    return members


def instant_of(milliseconds: int) -> str:
    """Return an instant that is given in milliseconds since the Unix epoch."""
    from statemachine.kinds import Instant, present  # noqa: PLC0415 - next to its only use

    return instant(present(Instant(), milliseconds))


def print_json(value: object) -> None:
    """Print one JSON document on one line."""
    json.dump(value, sys.stdout, ensure_ascii=False)
    print()


def console() -> Console:
    """Return where tables go; into a pipe they are wide enough not to be cut."""
    from rich.console import Console  # noqa: PLC0415 - costs a start that prints JSON nothing

    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of plain texts."""
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    console().print(table)


def print_facts(members: Mapping[str, Any]) -> None:
    """Print what is known of one record, a fact a line; what is absent is left out."""
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table.grid(padding=(0, 2))
    for name, value in members.items():
        if value not in (None, "", []):
            table.add_row(name, Text(one_line(str(value))))
    console().print(table)


def member(value: object) -> object:
    """Return what `--json` prints of a value."""
    match value:
        case datetime():
            return instant(value)
        case enum.Enum():
            return value.value
        case Mapping():
            return dict(value)
        case _:
            return value
