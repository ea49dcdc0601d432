"""The Markdown page writes a machine out: bundles as columns, guards and rules as conditions."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from statemachine.machine import Machine
from statemachine.machines import RUN_LAUNCH
from statemachine.render import to_table
from statemachine.render.labels import assignment_label, condition_label
from tests.order import ORDER
from tests.test_render import MACHINES, flat, hostile_machine

_MARKDOWN = MarkdownIt("commonmark").enable("table")


def tables(text: str) -> list[list[list[str]]]:
    """Return the cells' text of each table, as Markdown shows it; a line break as U+000A."""
    found: list[list[list[str]]] = []
    for token in _MARKDOWN.parse(text):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and found and token.level == 4:
            parts = [
                "\n" if part.type == "html_inline" else part.content
                for part in token.children or []
            ]
            found[-1][-1].append("".join(parts))
    return found


def test_page_of_a_small_machine() -> None:
    """Everything that the declaration says is there, in declared order."""
    assert (
        to_table(ORDER)
        == """\
# order

Table `orders`, key `order_id`, state `state`.

| state | |
|---|---|
| pending | initial |
| paid |  |
| shipped | final |
| cancelled | final |

Columns by class; all others are mutable.

- immutable: `order_id`, `basket`
- write once: `paid_at`

## Transitions

| transition | from | to | guards | writes |
|---|---|---|---|---|
| pay | pending | paid | — | `paid_at := paid_at or else now` |
| remind | pending | *stays* | patient: `reminders < 3` | `reminders := reminders + 1` |
| ship | paid | shipped | no parcel: `parcel is null` | `parcel := :parcel` |
| cancel | pending, paid | cancelled | — | `coupon := null`<br>`reminders := 0` |

## Creations

| creation | to | writes | the same again when equal |
|---|---|---|---|
| place | pending | `order_id := :order_id`<br>`basket := :basket` | `basket` |

## Invariants

True of every row at rest.

- shipped exactly with a parcel: `state = 'shipped' exactly when parcel is not null`
- nothing unpaid is shipped: `paid_at is null implies not (state in ('paid', 'shipped'))`
- reminders are few: `reminders <= 3 or coupon is null`

## Uniqueness rules

- one open order per basket: one row per `basket` where `state in ('pending', 'paid')`
"""
    )


@pytest.mark.parametrize("machine", [*MACHINES, hostile_machine()], ids=lambda m: m.name)
def test_a_reader_of_markdown_sees_the_declaration(machine: Machine) -> None:
    """Whatever the names: each cell shows its text, and no text ends a cell."""
    states, transitions, creations = tables(to_table(machine))

    expected = [
        [
            t.name + " (quiet)" * t.quiet,
            flat(", ".join(t.source)),
            "stays" if t.dest is None else flat(t.dest),
            "\n".join(flat(f"{g.name}: {condition_label(g.condition)}") for g in t.when) or "—",
            "\n".join(map(assignment_label, t.assign)) or "—",
        ]
        for t in machine.transitions
    ]
    assert [flat(row[0]) for row in states[1:]] == [flat(state) for state in machine.states]
    assert [[*map(_lines, row)] for row in transitions[1:]] == expected
    assert [row[0] for row in creations[1:]] == [made.name for made in machine.creations]


def _lines(cell: str) -> str:
    return "\n".join(map(flat, cell.split("\n")))


def test_selections_and_their_arms_are_listed() -> None:
    """An operator reads which run is taken next, and by which order."""
    page = to_table(RUN_LAUNCH)

    listed = [line.split(":")[0].strip("- ") for line in page.splitlines() if line.startswith("- ")]
    arms = [line for line in page.splitlines() if line.startswith("    1. ")]
    names = [selection.name.replace("_", r"_") for selection in RUN_LAUNCH.selections]
    assert [name for name in names if name not in listed] == []
    assert len(arms) == sum(len(selection.arms) for selection in RUN_LAUNCH.selections)
