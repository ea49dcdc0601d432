"""What a diagram shows of a machine, before any format: states, edges and their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from statemachine.render.labels import transition_label
from statemachine.render.text import identifiers, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from statemachine.machine import Machine, Transition

_RETURNS = "\u21bb "


@frozen
class StateNode:
    """A state.

    Attributes:
        name: As declared, made printable.

        identifier: Safe in every format, distinct within the graph.

        initial, final: Whether rows begin or end there.

        stays: Labels of the transitions that stay in it; one that names it as its destination,
            and so leads there from other states too, is marked by an arrow.

        rows: How many rows are in it; None: not counted.
    """

    name: str
    identifier: str
    initial: bool
    final: bool
    stays: tuple[str, ...]
    rows: int | None = None


@frozen
class Edge:
    """A transition from one source, or a creation.

    Attributes:
        source: The state that it leaves; None: the row is created.

        dest: The state that it reaches; another than the source.

        label: `name [guards]`, printable; may be blank.
    """

    source: StateNode | None
    dest: StateNode
    label: str


@frozen
class DiagramGraph:
    """A machine as a graph; everything in declared order."""

    name: str
    states: tuple[StateNode, ...]
    edges: tuple[Edge, ...]

    @property
    def most_rows(self) -> int:
        """The number of rows in the fullest state."""
        return max((state.rows or 0 for state in self.states), default=0)


def graph_of(machine: Machine, counts: Mapping[str, int] | None = None) -> DiagramGraph:
    """Return the graph of a machine.

    Args:
        machine: The declaration.

        counts: Rows per state; a state that is not named has none. None: not counted.
    """
    names = identifiers(machine.states)
    nodes = {
        state: StateNode(
            name=printable(state),
            identifier=identifier,
            initial=state in machine.initial,
            final=state in machine.final,
            stays=tuple(
                _RETURNS * (transition.dest is not None) + _label(transition)
                for transition in machine.transitions
                if state in transition.source and transition.reaches(state) == state
            ),
            rows=None if counts is None else counts.get(state, 0),
        )
        for state, identifier in zip(machine.states, names, strict=True)
    }
    born = [Edge(None, nodes[made.dest], printable(made.name)) for made in machine.creations]
    moves = [
        Edge(nodes[source], nodes[transition.reaches(source)], _label(transition))
        for transition in machine.transitions
        for source in transition.source
        if transition.reaches(source) != source
    ]
    return DiagramGraph(printable(machine.name), tuple(nodes.values()), (*born, *moves))


def _label(transition: Transition) -> str:
    return printable(transition_label(transition.name, transition.when))


def rows_label(rows: int) -> str:
    """Return a count of rows in words."""
    return "1 row" if rows == 1 else f"{rows:,} rows"


def heat(rows: int, most: int) -> int:
    """Return how full a state is beside the fullest, from 0 (empty) to 4."""
    if rows <= 0:
        return 0
    return max(1, min(4, round(4 * rows.bit_length() / most.bit_length())))


HEAT = ("#ffffff", "#e3f2fd", "#bbdefb", "#90caf9", "#64b5f6")
"""Fill colours by `heat`; dark text is readable on each."""
