"""A machine's diagram shows its declaration, whatever its states and guards are called."""

from __future__ import annotations

import enum
import itertools
from collections import Counter

import attrs
import pytest

from statemachine import render
from statemachine.kinds import Text
from statemachine.machine import Creation, Machine, Transition
from statemachine.machines import ALL
from statemachine.render import dot as dot_format
from statemachine.render import mermaid as mermaid_format
from statemachine.render.graph import DiagramGraph, Edge, StateNode, graph_of
from statemachine.render.text import printable
from statemachine.vocabulary import Column, Guard, IsNull, Param, Set
from tests.order import ORDER
from tests.programs import MARK, Shown, graphviz, mermaid

MACHINES = (*ALL, ORDER)

HOSTILE = (
    # DIA-01
    "a; B --> Z", "a;{b}", "x\nB --> Z", "x\rB --> Z", "a: b", "err (ex: t)",
    # DIA-02
    "on-hold", "wait for it", "state", "end", "default", "classDef", "note", "as", "[*]",
    "a-b", "a_b", "a b", "hide", "scale", "state B", "direction LR", "end note",
    "style s fill:#f00;", "[[fork]]", "x <<choice>>", "Direction  tb", "scale 3 width", "0", "1a",
    # DIA-05
    'say "hi"', "ends with \\", r"\N is \G", r"C:\new", '\\"] evil[label="x', "<b>x</b>",
    "<lambda> <map>", "&lt;", "&#59;", "#59;", "%% comment", "%%{init: {}}%%", "ﬂ°°59¶ß",
    # DIA-07
    "</text><script>alert(1)</script>", '"/><svg onload=alert(1)>', "a<b>", "&amp;", "]]>",
    "control \x00\x01\x08\x0b\x1f\x7f\x85", "\ufffe\uffff", "$$x^2$$", "**bold** `code` | cell",
    "ünïcödé 漢字 e\u0301 ↻", "--", "-->", "a --- b", "x" * 300,
)  # fmt: skip


@pytest.fixture(params=MACHINES, ids=lambda machine: machine.name)
def machine(request: pytest.FixtureRequest) -> Machine:
    """Each shipped machine in turn, and one of a user's own."""
    found: Machine = request.param
    return found


def hostile_machine() -> Machine:
    """Return a machine whose states and guards have hostile names, in a chain."""
    states = enum.StrEnum("states", {f"S{n}": text for n, text in enumerate(HOSTILE)})  # type: ignore[misc]  # made of data
    names = tuple(states)
    columns = {
        "key": attrs.field(type=str),
        "state": attrs.field(type=states),
        "parcel": attrs.field(type=str | None, default=None),  # type: ignore[arg-type]  # a union
    }
    parcel = Column("parcel")
    guards = {text: Guard(text, IsNull(parcel)) for text in HOSTILE}
    moves = [
        Transition(f"t{n}", (source,), dest, when=(guards[source],))
        for n, (source, dest) in enumerate(itertools.pairwise(names))
    ]
    waits = [
        Transition(f"i{n}", (state,), None, when=(guards[state],))
        for n, state in enumerate(names[:-1])
    ]
    return Machine(
        name="hostile",
        record=attrs.make_class("Row", columns, frozen=True),
        table="hostile",
        key=Column("key"),
        state=Column("state"),
        initial=names[:1],
        final=names[-1:],
        creations=(Creation("make", names[0], (Set(Column("key"), Param("key", Text())),)),),
        transitions=(*moves, *waits),
    )


def declared(machine: Machine) -> Shown:
    """Return what a diagram must show, from the declaration alone."""
    texts = {
        state: "\n".join(
            [
                state,
                *(
                    label(t) if t.dest is None else f"↻ {label(t)}"
                    for t in machine.transitions
                    if state in t.source and t.dest in (None, state)
                ),
            ]
        )
        for state in machine.states
    }
    births = [(MARK, texts[creation.dest], creation.name) for creation in machine.creations]
    moves = [
        (texts[source], texts[t.dest], label(t))
        for t in machine.transitions
        for source in t.source
        if t.dest not in (None, source)
    ]
    return Shown(tuple(texts.values()), (*births, *moves))


def label(transition: Transition) -> str:
    """Return `name [guards]`."""
    names = ", ".join(guard.name for guard in transition.when)
    return f"{transition.name} [{names}]" if names else transition.name


def flat(text: str) -> str:
    """Return the text as a picture shows it: control characters replaced, white space collapsed."""
    return " ".join(printable(text).split())


def counted(found: Shown) -> tuple[Counter[str], Counter[tuple[str, str, str]]]:
    """Return nodes and edges without their order."""
    edges = Counter((flat(a), flat(b), flat(text)) for a, b, text in found.edges)
    return Counter(map(flat, found.nodes)), edges


@pytest.mark.parametrize("machine", [*MACHINES, hostile_machine()], ids=lambda m: m.name)
def test_mermaid_shows_the_declared_states_and_edges(machine: Machine) -> None:
    """DIA-01, DIA-02: what Mermaid's parser reads is what was declared, whatever the names."""
    nodes, edges = counted(mermaid(render.to_mermaid(machine))[0])

    wanted = declared(machine)
    expected_nodes, expected_edges = counted(wanted)
    ends = Counter(
        (flat(text), MARK, "")
        for state, text in zip(machine.states, wanted.nodes, strict=True)
        if state in machine.final
    )
    assert nodes == expected_nodes
    assert edges == expected_edges + ends


@pytest.mark.parametrize("machine", [*MACHINES, hostile_machine()], ids=lambda m: m.name)
def test_graphviz_shows_the_declared_states_and_edges(machine: Machine) -> None:
    """DIA-05: what Graphviz draws is what was declared, whatever the names."""
    found = graphviz(render.to_dot(machine))

    assert counted(found) == counted(declared(machine))


def test_blank_names_and_labels_are_drawn() -> None:
    """DIA-02, DIA-03: an edge without text is an edge, and a state without a name a state."""
    texts = ("", " ", "\t\n")
    blank, other = (
        StateNode(name, f"s_{number}", initial=False, final=False, stays=(" ",))
        for number, name in enumerate(("", "other"))
    )
    edges = tuple(Edge(blank, other, text) for text in texts)
    graph = DiagramGraph("", (blank, other), edges)

    read = mermaid(mermaid_format.to_mermaid(graph))[0]
    drawn = graphviz(dot_format.to_dot(graph))

    assert [flat(text) for text in read.nodes] == ["", "other"]
    assert [flat(text) for *_, text in read.edges] == ["", "", ""]
    assert [text for *_, text in drawn.edges] == ["", "", ""]


def test_names_that_differ_in_punctuation_only_stay_apart() -> None:
    """DIA-02: generated identifiers are safe and distinct."""
    identifiers = [state.identifier for state in graph_of(hostile_machine()).states]

    assert len(set(identifiers)) == len(HOSTILE)
    assert all(name.isascii() and name.isidentifier() for name in identifiers)


def test_mermaid_text_of_a_small_machine() -> None:
    """Initial and final states are marked, what stays is listed in the state."""
    text = render.to_mermaid(ORDER)

    assert (
        text
        == """\
stateDiagram-v2
    direction LR
    state "pending" as s_pending
    s_pending : remind [patient]
    state "paid" as s_paid
    state "shipped" as s_shipped
    state "cancelled" as s_cancelled
    [*] --> s_pending : place
    s_pending --> s_paid : pay
    s_paid --> s_shipped : ship [no parcel]
    s_pending --> s_cancelled : cancel
    s_paid --> s_cancelled : cancel
    s_shipped --> [*]
    s_cancelled --> [*]
"""
    )


def test_dot_text_of_a_small_machine() -> None:
    """Initial and final states are marked, what stays is listed in the state."""
    text = render.to_dot(ORDER)

    assert (
        text
        == r"""digraph "order" {
    rankdir=LR; nodesep=0.3;
    node [shape=box, style="rounded,filled", fillcolor="#ffffff", fontname="Helvetica"];
    edge [fontname="Helvetica", fontsize=10];
    start [shape=point, width=0.2, fillcolor="#000000", label=""];
    s_pending [label="pending\n\nremind [patient]\l"];
    s_paid [label="paid"];
    s_shipped [label="shipped", peripheries=2];
    s_cancelled [label="cancelled", peripheries=2];
    start -> s_pending [label="place"];
    s_pending -> s_paid [label="pay"];
    s_paid -> s_shipped [label="ship [no parcel]"];
    s_pending -> s_cancelled [label="cancel"];
    s_paid -> s_cancelled [label="cancel"];
}
"""
    )


def test_a_live_diagram_shows_how_many_rows_are_where(machine: Machine) -> None:
    """Each state shows its number of rows; a state that was not counted has none."""
    counts = dict.fromkeys(machine.states[1:], 1234) | {machine.states[1]: 1}

    read = mermaid(render.to_mermaid(machine, counts=counts))[0]
    drawn = graphviz(render.to_dot(machine, counts=counts))
    picture = render.to_svg(machine, counts=counts)

    expected = ["0 rows", "1 row", *["1,234 rows"] * (len(machine.states) - 2)]
    assert [text.split("\n")[1] for text in read.nodes] == expected
    assert sorted(text.split("\n")[1] for text in drawn.nodes) == sorted(expected)
    assert [picture.count(f">{rows}<") for rows in ("0 rows", "1 row")] == [1, 1]


def test_fuller_states_are_darker() -> None:
    """A state without rows is white; the fullest has the darkest colour."""
    text = render.to_mermaid(ORDER, counts={"pending": 1, "paid": 40, "shipped": 90_000})

    assert [line.split()[-1] for line in text.splitlines() if line.startswith("    class ")] == [
        "heat1", "heat1", "heat4", "heat0",
    ]  # fmt: skip


def test_a_notebook_shows_the_machine() -> None:
    """`_repr_mimebundle_` gives the picture, and Mermaid for who shows no pictures."""
    bundle = ORDER._repr_mimebundle_(include=None, exclude=None)

    assert bundle == {
        "image/svg+xml": render.to_svg(ORDER),
        "text/markdown": f"```mermaid\n{render.to_mermaid(ORDER)}```\n",
    }
