"""The SVG picture is safe to show, says all that was declared, and nothing in it overlaps."""

from __future__ import annotations

import itertools
import re
from typing import TypeAlias
from xml.etree import ElementTree as ET

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from statemachine.machine import Machine
from statemachine.render import svg as svg_format
from statemachine.render import to_svg
from statemachine.render.graph import DiagramGraph, Edge, StateNode, graph_of
from statemachine.render.text import cells, printable
from tests.test_render import MACHINES, hostile_machine

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "title", "rect", "circle", "path", "polygon", "g", "text"}
ATTRIBUTES = {
    "cx", "cy", "d", "fill", "font-family", "font-size", "font-weight", "height", "points", "r",
    "role", "rx", "stroke", "stroke-width", "text-anchor", "viewBox", "width", "x", "y",
    "{http://www.w3.org/XML/1998/namespace}space",
}  # fmt: skip
PICTURES = (*MACHINES, hostile_machine())
Point: TypeAlias = tuple[float, float]


@frozen
class Rectangle:
    """A box of the picture."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Rectangle) -> bool:
        """Tell whether the two share an area."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def holds(self, point: Point, *, within: float) -> bool:
        """Tell whether the point lies inside, so far from each side."""
        x, y = point
        return (
            self.left + within < x < self.right - within
            and self.top + within < y < self.bottom - within
        )


@pytest.mark.parametrize("machine", PICTURES, ids=lambda m: m.name)
def test_a_picture_is_safe_to_embed(machine: Machine) -> None:
    """DIA-07: well-formed XML of a few harmless elements: no script, event, style or reference."""
    root = ET.fromstring(to_svg(machine, counts={machine.states[0]: 3}))

    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= ELEMENTS
    assert {name for element in root.iter() for name in element.attrib} <= ATTRIBUTES


@pytest.mark.parametrize("machine", PICTURES, ids=lambda m: m.name)
def test_a_picture_says_what_was_declared(machine: Machine) -> None:
    """Each state's name is written, and each transition of each source, whole, as a tooltip."""
    root = ET.fromstring(to_svg(machine))
    written = [text.text or "" for text in root.iter(f"{SVG}text")]
    told = sorted(title.text or "" for title in root.findall(f"{SVG}g/{SVG}title"))

    graph = graph_of(machine)
    labels = [edge.label for edge in graph.edges]
    stays = [label for state in graph.states for label in state.stays]
    assert [state for state in machine.states if printable(state) not in written] == []
    assert told == sorted([*labels, *stays])


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
def test_final_states_have_a_double_border_and_rows_begin_at_one_dot(machine: Machine) -> None:
    """Who looks at the picture sees where a row begins and where it ends."""
    root = ET.fromstring(to_svg(machine))
    inner = [r for r in root.iter(f"{SVG}rect") if r.get("rx") == "6"]

    assert len(inner) == len(machine.final)
    assert len(list(root.iter(f"{SVG}circle"))) == 1


@pytest.mark.parametrize("machine", PICTURES, ids=lambda m: m.name)
def test_nothing_overlaps(machine: Machine) -> None:
    """Boxes stand apart, text stays in its box, lines pass between the boxes."""
    assert_nothing_overlaps(to_svg(machine))


@given(st.data())
def test_nothing_overlaps_in_any_graph(data: st.DataObject) -> None:
    """The layout keeps its promise for graphs of any shape."""
    count = data.draw(st.integers(1, 7))
    states = [
        StateNode(f"state {n}", f"s{n}", n == 0, data.draw(st.booleans()), ("stays",) * (n % 3))
        for n in range(count)
    ]
    node = st.sampled_from(states)
    drawn = data.draw(st.lists(st.tuples(node, node, st.text("ab [],", max_size=60)), max_size=15))
    moves = [Edge(a, b, label) for a, b, label in drawn if a != b]
    graph = DiagramGraph("any", tuple(states), (Edge(None, states[0], "make"), *moves))

    assert_nothing_overlaps(svg_format.to_svg(graph))


def assert_nothing_overlaps(picture: str) -> None:
    """Check boxes, text and lines of a picture, and that all of it is within its edges."""
    root = ET.fromstring(picture)
    page, *rectangles = [_rectangle(r) for r in root.iter(f"{SVG}rect") if r.get("rx") != "6"]
    texts = list(root.iter(f"{SVG}text"))
    lines = [_points(path.attrib["d"]) for path in root.iter(f"{SVG}path")]

    assert [(a, b) for a, b in itertools.combinations(rectangles, 2) if a.overlaps(b)] == []
    assert [r for r in rectangles if not page.holds((r.left, r.top), within=0)] == []
    assert [r for r in rectangles if not page.holds((r.right, r.bottom), within=0)] == []
    assert [
        text.text
        for left, right, text in map(_extent, texts)
        if sum(r.holds(left, within=1) and r.holds(right, within=1) for r in rectangles) != 1
    ] == []
    # A line enters the state that it leaves and reaches at the border only, and otherwise only
    # the box of its own label, which is drawn over it.
    assert [
        entered
        for line in lines
        if len(entered := {r for r in rectangles for p in line if r.holds(p, within=2)}) > 1
    ] == []


def _rectangle(element: ET.Element) -> Rectangle:
    left, top = float(element.get("x", "0")), float(element.get("y", "0"))
    width, height = float(element.attrib["width"]), float(element.attrib["height"])
    return Rectangle(left, top, left + width, top + height)


def _extent(text: ET.Element) -> tuple[Point, Point, ET.Element]:
    """Return both ends of a line of text, by the width of DejaVu Sans Mono, the widest in use."""
    large = text.get("font-size") == "15"
    width = cells(text.text or "") * 0.602 * (15 if large else 11)
    x, y = float(text.attrib["x"]), float(text.attrib["y"])
    left = x - width / 2 if text.get("text-anchor") == "middle" else x
    return (left, y), (left + width, y), text


def _points(path: str) -> list[Point]:
    """Return points along a line of M, L, H and C steps."""
    points: list[Point] = []
    for step, numbers in re.findall(r"([MLHC])([^MLHC]*)", path):
        values = [float(number) for number in numbers.split()]
        match step:
            case "M" | "L":
                points.append((values[0], values[1]))
            case "H":
                x, y = points[-1]
                points += [(x + (values[0] - x) * n / 8, y) for n in range(1, 9)]
            case _:
                points += [_bezier(points[-1], values, n / 8) for n in range(1, 9)]
    return points


def _bezier(start: Point, values: list[float], t: float) -> Point:
    x1, y1, x2, y2, x3, y3 = values
    weights = ((1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3)
    xs, ys = (start[0], x1, x2, x3), (start[1], y1, y2, y3)
    return (
        sum(w * x for w, x in zip(weights, xs, strict=True)),
        sum(w * y for w, y in zip(weights, ys, strict=True)),
    )
