"""A layered layout: which column each box is in, and in which order, with few crossings.

No kept Python library draws layered graphs without a system program, hence this small one, after
Sugiyama: break cycles, rank by longest path, order by barycentre, place by least squares.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from attrs import define, field, frozen

_SWEEPS = 24
_THROUGH = 14.0  # room in pixels for a line that passes through a column


@frozen
class Box:
    """A rectangle to be placed, in pixels."""

    width: float
    height: float


@frozen
class Link:
    """A line between two nodes, with the box of its label."""

    source: int
    dest: int
    label: Box


@frozen
class Span:
    """The left and right end of a column, in pixels."""

    left: float
    right: float


@define
class Slot:
    """A place in a column: a node, a label, or a line that passes through.

    Attributes:
        box: How large it is.

        span: Its column's, once placed.

        y: Vertical centre, once placed.

        before, after: Neighbours in the columns to the left and right.
    """

    box: Box
    span: Span = Span(0, 0)
    y: float = 0.0
    before: list[Slot] = field(factory=list, repr=False, eq=False)
    after: list[Slot] = field(factory=list, repr=False, eq=False)

    @property
    def x(self) -> float:
        """Horizontal centre."""
        return (self.span.left + self.span.right) / 2


@frozen
class Chain:
    """A link as the slots that it passes, from left to right.

    Attributes:
        link: The link.

        slots: From the left node to the right one; odd positions may be the label's.

        label: The slot of the label.

        backward: Whether the link runs from right to left.
    """

    link: Link
    slots: tuple[Slot, ...]
    label: Slot
    backward: bool


@frozen
class Layers:
    """Columns of slots; nodes stand in even columns, labels in odd ones."""

    columns: tuple[list[Slot], ...]
    nodes: tuple[Slot, ...]
    chains: tuple[Chain, ...]


def layers_of(nodes: Sequence[Box], links: Sequence[Link], last: frozenset[int]) -> Layers:
    """Return the ordered columns.

    Args:
        nodes: The first is the root, from which links lead away.

        links: At most one per ordered pair of nodes, none from a node to itself.

        last: Nodes that belong into the last column, unless links lead away from them.
    """
    reversed_links = _backward(len(nodes), links)
    forward = [
        (link.dest, link.source) if back else (link.source, link.dest)
        for link, back in zip(links, reversed_links, strict=True)
    ]
    ranks = _ranks(len(nodes), forward, last)
    columns: tuple[list[Slot], ...] = tuple([] for _ in range(2 * max(ranks) + 1))
    slots = tuple(Slot(box) for box in nodes)
    for slot, rank in zip(slots, ranks, strict=True):
        columns[2 * rank].append(slot)
    chains: dict[int, Chain] = {}
    # Short links have no choice of a column for their label, so they choose first.
    for index in sorted(
        range(len(links)), key=lambda i: ranks[forward[i][1]] - ranks[forward[i][0]]
    ):
        left, right = forward[index]
        inner = range(2 * ranks[left] + 1, 2 * ranks[right])
        middle, label = _between(columns, inner, links[index].label)
        chain = Chain(
            links[index], (slots[left], *middle, slots[right]), label, reversed_links[index]
        )
        chains[index] = chain
        for one, two in itertools.pairwise(chain.slots):
            one.after.append(two)
            two.before.append(one)
    layers = Layers(columns, slots, tuple(chains[index] for index in range(len(links))))
    _order(layers.columns)
    return layers


def _between(
    columns: tuple[list[Slot], ...], inner: range, label: Box
) -> tuple[tuple[Slot, ...], Slot]:
    """Fill the columns that a link passes; its label goes where there is most room."""

    def filled(column: int) -> float:
        return sum(slot.box.height for slot in columns[column])

    chosen = min((column for column in inner if column % 2), key=filled)
    middle = []
    for column in inner:
        slot = Slot(label if column == chosen else Box(0, _THROUGH))
        columns[column].append(slot)
        middle.append(slot)
    return tuple(middle), middle[inner.index(chosen)]


def _backward(count: int, links: Sequence[Link]) -> list[bool]:
    """Return which links close a cycle, in a depth-first walk from the root."""
    out = [[i for i, link in enumerate(links) if link.source == node] for node in range(count)]
    backward = [False] * len(links)
    done: dict[int, bool] = {}
    for root in range(count):
        if root in done:
            continue
        done[root] = False
        walk: list[tuple[int, Iterator[int]]] = [(root, iter(out[root]))]
        while walk:
            node, rest = walk[-1]
            link = next(rest, None)
            if link is None:
                done[node] = True
                walk.pop()
                continue
            dest = links[link].dest
            if dest in done:
                backward[link] = not done[dest]
            else:
                done[dest] = False
                walk.append((dest, iter(out[dest])))
    return backward


def _ranks(count: int, forward: Sequence[tuple[int, int]], last: frozenset[int]) -> list[int]:
    ranks = [0] * count
    for _ in range(count):
        for left, right in forward:
            ranks[right] = max(ranks[right], ranks[left] + 1)
    sources = {left for left, _ in forward}
    return [
        max(ranks) if node in last and node not in sources else rank
        for node, rank in enumerate(ranks)
    ]


def _order(columns: tuple[list[Slot], ...]) -> None:
    """Sort the columns' slots so that few lines cross."""
    best, least = [list(column) for column in columns], crossings(columns)
    for sweep in range(_SWEEPS):
        rightward = sweep % 2 == 0
        for column in columns if rightward else reversed(columns):
            _sort(column, columns, rightward=rightward)
        found = crossings(columns)
        if found < least:
            best, least = [list(column) for column in columns], found
    for column, order in zip(columns, best, strict=True):
        column[:] = order


def _sort(column: list[Slot], columns: tuple[list[Slot], ...], *, rightward: bool) -> None:
    place = {id(slot): index for other in columns for index, slot in enumerate(other)}

    def barycentre(slot: Slot) -> float:
        neighbours = slot.before if rightward else slot.after
        if not neighbours:
            return place[id(slot)]
        return sum(place[id(other)] for other in neighbours) / len(neighbours)

    column.sort(key=barycentre)


def crossings(columns: tuple[list[Slot], ...]) -> int:
    """Return how many pairs of lines cross."""
    total = 0
    for left, right in itertools.pairwise(columns):
        place = {id(slot): index for index, slot in enumerate(right)}
        ends = [sorted(place[id(other)] for other in slot.after) for slot in left]
        lines = [end for group in ends for end in group]
        total += sum(
            1 for i, first in enumerate(lines) for second in lines[i + 1 :] if second < first
        )
    return total
