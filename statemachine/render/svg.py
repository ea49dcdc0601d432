"""A machine as an SVG picture: well-formed XML without script, link or outside reference."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from attrs import frozen

from statemachine.render.cards import (
    LINE,
    PAD,
    TITLE,
    Card,
    Label,
    card_box,
    card_of,
    label_box,
    label_of,
)
from statemachine.render.graph import HEAT, DiagramGraph, Edge, heat
from statemachine.render.layout import Box, Chain, Link, Slot, layers_of
from statemachine.render.place import Placed, place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_START = Box(18, 18)
_ARROW = 8.0
_INK = "#1c2330"
_COLOURS = (
    "#37474f", "#1565c0", "#7b1fa2", "#00796b", "#b35c00", "#c2185b", "#558b2f", "#8d3b2a",
)  # fmt: skip
_FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


@frozen
class Line:
    """All transitions from one state to another, drawn as one line.

    Attributes:
        link: Between which nodes, numbered from 1; 0 is where rows come from.

        labels: What it is labelled with; blank labels are left out.
    """

    link: Link
    labels: tuple[Label, ...]


def to_svg(graph: DiagramGraph) -> str:
    """Return the picture; the label of a line lists the transitions between its two states."""
    lines = _lines(graph)
    cards = tuple(map(card_of, graph.states))
    boxes = [card_box(card, _ends(lines, number)) for number, card in enumerate(cards, start=1)]
    final = frozenset(number for number, state in enumerate(graph.states, 1) if state.final)
    layers = layers_of((_START, *boxes), tuple(line.link for line in lines), final)
    placed = place(layers)
    ports = _ports(layers.nodes, layers.chains)
    parts = _head(graph, placed)
    for index, chain in enumerate(layers.chains):
        parts += _path(chain, (ports[index, 0], ports[index, -1]))
    for line, chain in zip(lines, layers.chains, strict=True):
        parts += _labels(line, chain.label, _colour(chain))
    start = layers.nodes[0]
    parts.append(f'<circle cx="{start.x:.1f}" cy="{start.y:.1f}" r="9" fill="{_INK}"/>')
    for card, slot in zip(cards, layers.nodes[1:], strict=True):
        parts += _state(card, slot, graph.most_rows)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _lines(graph: DiagramGraph) -> tuple[Line, ...]:
    """Return one line per pair of states, in declared order."""
    numbers = {state.identifier: number for number, state in enumerate(graph.states, start=1)}
    pairs: dict[tuple[int, int], list[Edge]] = {}
    for edge in graph.edges:
        source = 0 if edge.source is None else numbers[edge.source.identifier]
        dest = numbers[edge.dest.identifier]
        pairs.setdefault((source, dest), []).append(edge)
    lines = []
    for (source, dest), edges in pairs.items():
        labels = tuple(label_of(edge.label) for edge in edges if edge.label.strip())
        lines.append(Line(Link(source, dest, label_box(labels)), labels))
    return tuple(lines)


def _ends(lines: Sequence[Line], node: int) -> int:
    arriving = sum(line.link.dest == node for line in lines)
    return max(arriving, sum(line.link.source == node for line in lines))


def _ports(nodes: Sequence[Slot], chains: Sequence[Chain]) -> dict[tuple[int, int], float]:
    """Return at which height each chain leaves its left node (0) and enters its right one (-1)."""
    ports: dict[tuple[int, int], float] = {}
    for node in nodes:
        for end, beside in ((0, 1), (-1, -2)):
            meeting = sorted(
                (chain.slots[beside].y, index)
                for index, chain in enumerate(chains)
                if chain.slots[end] is node
            )
            step = node.box.height / (len(meeting) + 1)
            for number, (_, index) in enumerate(meeting, start=1):
                ports[index, end] = node.y - node.box.height / 2 + step * number
    return ports


def _head(graph: DiagramGraph, placed: Placed) -> list[str]:
    size = f'width="{placed.width:.0f}" height="{placed.height:.0f}"'
    view = f'viewBox="0 0 {placed.width:.0f} {placed.height:.0f}"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} role="img" font-family="{_FONT}">',
        f"<title>{_text(graph.name)}</title>",
        f'<rect {size} fill="#ffffff"/>',
    ]


def _colour(chain: Chain) -> str:
    return _COLOURS[chain.link.source % len(_COLOURS)]


def _path(chain: Chain, ports: tuple[float, float]) -> Iterator[str]:
    """Draw a line that bends only between columns, and its arrow."""
    first, last = chain.slots[0], chain.slots[-1]
    left, right = first.x + first.box.width / 2, last.x - last.box.width / 2
    tip = (left, ports[0]) if chain.backward else (right, ports[1])
    if chain.backward:
        left += _ARROW
    else:
        right -= _ARROW
    x, y = first.span.right, ports[0]
    steps = [f"M{left:.1f} {y:.1f}L{x:.1f} {y:.1f}"]
    for slot in chain.slots[1:]:
        to_x, to_y = slot.span.left, ports[1] if slot is last else slot.y
        middle = (x + to_x) / 2
        steps.append(f"C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = (right if slot is last else slot.span.right), to_y
        steps.append(f"H{x:.1f}")
    colour = _colour(chain)
    yield f'<path d="{"".join(steps)}" fill="none" stroke="{colour}" stroke-width="1.4"/>'
    back = _ARROW if chain.backward else -_ARROW
    (x, y), wing = tip, _ARROW / 2
    corners = f"{x:.1f},{y:.1f} {x + back:.1f},{y - wing:.1f} {x + back:.1f},{y + wing:.1f}"
    yield f'<polygon points="{corners}" fill="{colour}"/>'


def _labels(line: Line, slot: Slot, colour: str) -> Iterator[str]:
    if not line.labels:
        return
    yield _rect(slot, f'rx="4" fill="#ffffff" stroke="{colour}" stroke-width="0.8"')
    x, y = slot.x - slot.box.width / 2 + PAD, slot.y - slot.box.height / 2 + PAD / 2
    yield from _written(line.labels, x, y, colour)


def _state(card: Card, slot: Slot, most: int) -> Iterator[str]:
    rows = card.state.rows
    fill = "#f3f5f9" if rows is None else HEAT[heat(rows, most)]
    yield _rect(slot, f'rx="9" fill="{fill}" stroke="{_INK}" stroke-width="1.6"')
    if card.state.final:
        yield _rect(slot, f'rx="6" fill="none" stroke="{_INK}" stroke-width="1.2"', inset=4)
    lines = sum(len(label.lines) for label in card.stays)
    high = TITLE * len(card.titles) + LINE * lines + (PAD if lines else 0)
    y = slot.y - high / 2
    for number, title in enumerate(card.titles):
        weight = "" if number else ' font-weight="bold"'
        place_ = f'x="{slot.x:.1f}" y="{y + TITLE * 0.7:.1f}" text-anchor="middle"'
        yield f'<text {place_} font-size="15" fill="{_INK}"{weight}>{_text(title)}</text>'
        y += TITLE
    yield from _written(card.stays, slot.x - slot.box.width / 2 + PAD, y + PAD / 2, "#48505e")


def _written(labels: Sequence[Label], x: float, y: float, colour: str) -> Iterator[str]:
    """Write labels one under the other; the whole text of each is its tooltip."""
    for label in labels:
        yield f'<g font-size="11" fill="{colour}"><title>{_text(label.text)}</title>'
        for line in label.lines:
            y += LINE
            place_ = f'x="{x:.1f}" y="{y - LINE * 0.28:.1f}" xml:space="preserve"'
            yield f"<text {place_}>{_text(line)}</text>"
        yield "</g>"


def _rect(slot: Slot, look: str, *, inset: float = 0) -> str:
    width, height = slot.box.width - 2 * inset, slot.box.height - 2 * inset
    x, y = slot.x - width / 2, slot.y - height / 2
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {look}/>'


def _text(text: str) -> str:
    return escape(text, quote=False)
