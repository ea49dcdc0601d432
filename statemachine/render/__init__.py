"""A machine drawn from its declaration: Mermaid, Graphviz DOT, SVG and a Markdown table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemachine.render import dot as _dot
from statemachine.render import mermaid as _mermaid
from statemachine.render import svg as _svg
from statemachine.render import table as _table
from statemachine.render.graph import graph_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from statemachine.machine import Machine

__all__ = ["to_dot", "to_mermaid", "to_svg", "to_table"]


def to_mermaid(machine: Machine, *, counts: Mapping[str, int] | None = None) -> str:
    """Return a Mermaid `stateDiagram-v2`; with rows per state, states are coloured by them."""
    return _mermaid.to_mermaid(graph_of(machine, counts))


def to_dot(machine: Machine, *, counts: Mapping[str, int] | None = None) -> str:
    """Return a graph in Graphviz's language; with rows per state, states are coloured by them."""
    return _dot.to_dot(graph_of(machine, counts))


def to_svg(machine: Machine, *, counts: Mapping[str, int] | None = None) -> str:
    """Return an SVG picture; with rows per state, states are coloured by them."""
    return _svg.to_svg(graph_of(machine, counts))


def to_table(machine: Machine) -> str:
    """Return a Markdown page: transitions with guards and assignments, and every rule."""
    return _table.to_table(machine)
