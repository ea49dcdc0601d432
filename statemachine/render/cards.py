"""How large the boxes of a picture are: states with what stays in them, and labels of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from statemachine.render.graph import StateNode, rows_label
from statemachine.render.layout import Box
from statemachine.render.text import cells

if TYPE_CHECKING:
    from collections.abc import Sequence

CELL = 6.7  # width in pixels of a character at 11 px, monospaced
LINE = 15.0
TITLE_CELL = 9.2  # at 15 px
TITLE = 24.0
PAD = 10.0
PORT = 16.0  # room for the end of one line at the side of a state
_WRAP = 30  # cells
_NARROWEST = 70.0


@frozen
class Label:
    """A label, and the lines that it is broken into."""

    text: str
    lines: tuple[str, ...]


@frozen
class Card:
    """What stands in a state's box.

    Attributes:
        state: The state.

        titles: Its name, and how many rows it has if they are counted.

        stays: The transitions that stay in the state.
    """

    state: StateNode
    titles: tuple[str, ...]
    stays: tuple[Label, ...]


def label_of(text: str) -> Label:
    """Return a label in lines of moderate width, broken at spaces only."""
    lines: list[str] = []
    for word in text.replace("\n", " ").split(" "):
        if lines and cells(lines[-1]) + 1 + cells(word) <= _WRAP:
            lines[-1] += f" {word}"
        else:
            lines.append(f"  {word}" if lines else word)
    return Label(text, tuple(lines))


def card_of(state: StateNode) -> Card:
    """Return what stands in a state's box."""
    count = () if state.rows is None else (rows_label(state.rows),)
    return Card(state, (state.name, *count), tuple(map(label_of, state.stays)))


def card_box(card: Card, ends: int) -> Box:
    """Return the size of a state at whose fuller side so many lines end."""
    lines = [line for label in card.stays for line in label.lines]
    wide = max(
        _NARROWEST,
        *(cells(title) * TITLE_CELL for title in card.titles),
        *(cells(line) * CELL for line in lines),
    )
    high = TITLE * len(card.titles) + LINE * len(lines) + (PAD if lines else 0)
    return Box(wide + 2 * PAD, max(high + PAD, PORT * (ends + 1)))


def label_box(labels: Sequence[Label]) -> Box:
    """Return the size of the labels of one line, one under the other; blank ones need none."""
    lines = [line for label in labels for line in label.lines]
    if not lines:
        return Box(0, LINE)
    return Box(max(map(cells, lines)) * CELL + 2 * PAD, LINE * len(lines) + PAD)
