"""A machine in Graphviz's DOT language."""

from __future__ import annotations

from statemachine.render.graph import HEAT, DiagramGraph, Edge, StateNode, heat, rows_label

_START = "start"


def to_dot(graph: DiagramGraph) -> str:
    """Return the diagram's text; each label shows exactly its text, backslashes included."""
    lines = [
        f"digraph {quoted(graph.name)} {{",
        "    rankdir=LR; nodesep=0.3;",
        '    node [shape=box, style="rounded,filled", fillcolor="#ffffff", fontname="Helvetica"];',
        '    edge [fontname="Helvetica", fontsize=10];',
        f'    {_START} [shape=point, width=0.2, fillcolor="#000000", label=""];',
        *(_state(state, graph.most_rows) for state in graph.states),
        *(_edge(edge) for edge in graph.edges),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _state(state: StateNode, most: int) -> str:
    count = () if state.rows is None else (rows_label(state.rows),)
    label = '"' + r"\n".join(map(escaped, (state.name, *count)))
    if state.stays:
        label += r"\n\n" + "".join(escaped(line) + r"\l" for line in state.stays)
    attributes = [f'label={label}"']
    if state.final:
        attributes.append("peripheries=2")
    if state.rows is not None:
        attributes.append(f'fillcolor="{HEAT[heat(state.rows, most)]}"')
    return f"    {state.identifier} [{', '.join(attributes)}];"


def _edge(edge: Edge) -> str:
    source = _START if edge.source is None else edge.source.identifier
    arrow = f"    {source} -> {edge.dest.identifier}"
    return f"{arrow} [label={quoted(edge.label)}];" if edge.label.strip() else f"{arrow};"


def quoted(text: str) -> str:
    """Return a quoted string that stands for the text as it is."""
    return f'"{escaped(text)}"'


def escaped(text: str) -> str:
    """Return text for within quotes: no escape sequence, no entity, line ends kept."""
    # Graphviz reads `\N` and `\G` as names and decodes `&lt;`, even in plain labels.
    for old, new in (("\\", "\\\\"), ('"', '\\"'), ("&", "&amp;"), ("\n", "\\n")):
        text = text.replace(old, new)
    return text
