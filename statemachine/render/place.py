"""Where the slots of ordered columns stand: as near to their neighbours as the order allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from statemachine.render.layout import Layers, Slot, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROUNDS = 60
_GAP = 12.0  # between two boxes of a column
_BEND = 46.0  # between two columns: lines bend only there
_MARGIN = 24.0


@frozen
class Placed:
    """The size of the whole, in pixels."""

    width: float
    height: float


def place(layers: Layers) -> Placed:
    """Give each slot its column's span and its `y`."""
    for column in layers.columns:
        _stack(column)
    for round_ in range(_ROUNDS):
        order = layers.columns if round_ % 2 == 0 else layers.columns[::-1]
        for column in order:
            _settle(column)
    slots = [slot for column in layers.columns for slot in column]
    top = min(slot.y - slot.box.height / 2 for slot in slots)
    for slot in slots:
        slot.y += _MARGIN - top
    x = _MARGIN
    for column in layers.columns:
        width = max((slot.box.width for slot in column), default=0.0)
        for slot in column:
            slot.span = Span(x, x + width)
        x += width + _BEND
    bottom = max(slot.y + slot.box.height / 2 for slot in slots)
    return Placed(x - _BEND + _MARGIN, bottom + _MARGIN)


def _stack(column: Sequence[Slot]) -> None:
    """Put the slots one under the other, around zero."""
    total = sum(slot.box.height + _GAP for slot in column)
    y = -total / 2
    for slot in column:
        slot.y = y + slot.box.height / 2
        y += slot.box.height + _GAP


def _settle(column: Sequence[Slot]) -> None:
    """Move the slots as near to their neighbours as their order and size allow.

    The least sum of squares under "each at least so far below the one above" is an isotonic
    regression: neighbours that would overlap move as one block to their common mean.
    """
    offsets, offset = [], 0.0
    for above, slot in zip((None, *column), column, strict=False):
        if above is not None:
            offset += (above.box.height + slot.box.height) / 2 + _GAP
        offsets.append(offset)
    blocks: list[tuple[float, int]] = []
    for slot, below in zip(column, offsets, strict=True):
        mean, size = _wanted(slot) - below, 1
        while blocks and blocks[-1][0] >= mean:
            other, others = blocks.pop()
            mean = (mean * size + other * others) / (size + others)
            size += others
        blocks.append((mean, size))
    means = [mean for mean, size in blocks for _ in range(size)]
    for slot, below, mean in zip(column, offsets, means, strict=True):
        slot.y = mean + below


def _wanted(slot: Slot) -> float:
    neighbours = [(other.y, _pull(slot, other)) for other in (*slot.before, *slot.after)]
    if not neighbours:
        return slot.y
    return sum(y * pull for y, pull in neighbours) / sum(pull for _, pull in neighbours)


def _pull(slot: Slot, other: Slot) -> float:
    """Return how much a bend between two slots hurts: most where a line only passes through."""
    through = (len(one.before) == len(one.after) == 1 for one in (slot, other))
    return (1.0, 4.0, 16.0)[sum(through)]
