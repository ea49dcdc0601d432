"""A machine as a Mermaid `stateDiagram-v2`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from statemachine.render.graph import HEAT, DiagramGraph, Edge, StateNode, heat, rows_label

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN = frozenset(" _,.()[]+=/-\u21bb")
# Mermaid's lexer finds these anywhere in a line, within quotes too.
_WORDS = re.compile(r"-(?=-)|\[(?=\[)|\](?=\])|direction(?=\s)", re.IGNORECASE)
_BLANK = "#32;"  # a label without any text shows the identifier


def to_mermaid(graph: DiagramGraph) -> str:
    """Return the diagram's text; states have generated identifiers and their names as labels."""
    lines = ["stateDiagram-v2", "    direction LR"]
    for state in graph.states:
        lines += _state(state)
    lines += [_edge(edge) for edge in graph.edges]
    lines += [f"    {state.identifier} --> [*]" for state in graph.states if state.final]
    if any(state.rows is not None for state in graph.states):
        lines += _colours(graph)
    return "\n".join(lines) + "\n"


def _state(state: StateNode) -> Iterator[str]:
    yield f'    state "{escaped(state.name) or _BLANK}" as {state.identifier}'
    if state.rows is not None:
        yield f"    {state.identifier} : {rows_label(state.rows)}"
    for label in state.stays:
        if label.strip():
            yield f"    {state.identifier} : {escaped(label)}"


def _edge(edge: Edge) -> str:
    source = "[*]" if edge.source is None else edge.source.identifier
    arrow = f"    {source} --> {edge.dest.identifier}"
    return f"{arrow} : {escaped(edge.label)}" if edge.label.strip() else arrow


def _colours(graph: DiagramGraph) -> Iterator[str]:
    most = graph.most_rows
    for level, colour in enumerate(HEAT):
        yield f"    classDef heat{level} fill:{colour},color:#000000"
    for state in graph.states:
        yield f"    class {state.identifier} heat{heat(state.rows or 0, most)}"


def escaped(text: str) -> str:
    """Return text in which everything that Mermaid could read as syntax is an entity code."""
    return _WORDS.sub(_coded, "".join(map(_escaped, text)))


def _coded(found: re.Match[str]) -> str:
    return f"#{ord(found[0][0])};{found[0][1:]}"


def _escaped(character: str) -> str:
    if character.isalnum() or character in _PLAIN:
        return character
    return f"#{ord(character)};"
