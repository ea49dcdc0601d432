"""A machine as Markdown: the transition table and every rule, written out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from statemachine.render.labels import assignment_label, condition_label
from statemachine.render.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from statemachine.machine import Arm, Machine, Selection, Transition
    from statemachine.vocabulary import Column, Condition

_NOTHING = "—"


def to_table(machine: Machine) -> str:
    """Return the page of a machine; bundles are expanded to their columns."""
    lines = [f"# {prose(machine.name)}", "", *_about(machine)]
    lines += ["", "## Transitions", "", *_transitions(machine)]
    lines += ["", "## Creations", "", *_creations(machine)]
    if machine.invariants:
        lines += ["", "## Invariants", "", "True of every row at rest.", ""]
        lines += [
            f"- {prose(rule.name)}: {code(condition_label(rule.condition))}"
            for rule in machine.invariants
        ]
    if machine.uniqueness:
        lines += ["", "## Uniqueness rules", ""]
        lines += [
            f"- {prose(rule.name)}: one row per {_names(rule.columns)}"
            f" where {code(condition_label(rule.where))}"
            for rule in machine.uniqueness
        ]
    if machine.selections:
        lines += ["", "## Selections", "", "The first row of the first arm that has one.", ""]
        for selection in machine.selections:
            lines += _selection(selection)
    return "\n".join(lines) + "\n"


def _about(machine: Machine) -> Iterator[str]:
    key, state_column = code(machine.key.name), code(machine.state.name)
    yield f"Table {code(machine.table)}, key {key}, state {state_column}."
    yield ""
    yield "| state | |"
    yield "|---|---|"
    for state in machine.states:
        marks = [
            mark
            for mark, states in (("initial", machine.initial), ("final", machine.final))
            if state in states
        ]
        yield f"| {prose(state)} | {', '.join(marks)} |"
    classes = (
        ("immutable", machine.immutable),
        ("write once", machine.write_once),
        ("clear only", machine.clear_only),
        *(
            (f"only by {', '.join(map(code, rule.transitions))}", rule.columns)
            for rule in machine.only_by
        ),
        ("recorded in the history", machine.recorded),
        ("private", machine.private),
    )
    if any(columns for _, columns in classes):
        yield ""
        yield "Columns by class; all others are mutable."
        yield ""
    for title, columns in classes:
        if columns:
            yield f"- {title}: {_names(columns)}"


def _transitions(machine: Machine) -> Iterator[str]:
    yield "| transition | from | to | guards | writes |"
    yield "|---|---|---|---|---|"
    for transition in machine.transitions:
        guards = [
            f"{prose(guard.name)}: {code(condition_label(guard.condition))}"
            for guard in transition.when
        ]
        writes = [code(assignment_label(assignment)) for assignment in transition.assign]
        cells = (
            _name(transition),
            ", ".join(map(prose, transition.source)),
            "*stays*" if transition.dest is None else prose(transition.dest),
            "<br>".join(guards) or _NOTHING,
            "<br>".join(writes) or _NOTHING,
        )
        yield f"| {' | '.join(cells)} |"


def _name(transition: Transition) -> str:
    return prose(transition.name) + (" (quiet)" if transition.quiet else "")


def _creations(machine: Machine) -> Iterator[str]:
    yield "| creation | to | writes | the same again when equal |"
    yield "|---|---|---|---|"
    for creation in machine.creations:
        writes = [code(assignment_label(assignment)) for assignment in creation.assign]
        cells = (
            prose(creation.name),
            prose(creation.dest),
            "<br>".join(writes) or _NOTHING,
            _names(creation.identity) or _NOTHING,
        )
        yield f"| {' | '.join(cells)} |"


def _selection(selection: Selection) -> Iterator[str]:
    vacant = "".join(f", where {prose(rule)} is vacant" for rule in selection.vacant)
    yield f"- {prose(selection.name)}: {prose(selection.transition)}{vacant}"
    for arm in selection.arms:
        yield f"    1. {prose(arm.name)}: {_arm(arm)}"


def _arm(arm: Arm) -> str:
    conditions: tuple[Condition, ...] = (*arm.fixed, *arm.by, *arm.when)
    where = " and ".join(code(condition_label(condition)) for condition in conditions)
    return f"{where or 'every row'}, by {_names(arm.order)}"


def _names(columns: Iterable[Column]) -> str:
    return ", ".join(code(column.name) for column in columns)


def prose(text: str) -> str:
    """Return text that Markdown shows as it is, in a cell as well."""
    shown = printable(text).replace("\n", " ")
    shown = shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*{}\[\]#+!|~$]|(?<!\w)_|_(?!\w))", r"\\\1", shown)


def code(text: str) -> str:
    """Return a code span that shows the text as it is, in a cell as well."""
    shown = printable(text).replace("\n", " ").replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    space = " " if shown.startswith("`") or shown.endswith("`") or not shown.strip() else ""
    return f"{fence}{space}{shown}{space}{fence}"
