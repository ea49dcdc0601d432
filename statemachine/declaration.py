"""The checks that a machine passes when it is declared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from statemachine.apart import satisfiable
from statemachine.declared_columns import check_assignments, check_columns
from statemachine.declared_rules import check_rules
from statemachine.declared_terms import check_terms
from statemachine.errors import MachineError
from statemachine.kinds import Choice

if TYPE_CHECKING:
    from statemachine.machine import Creation, Machine, Transition

_IDENTIFIER = re.compile("[a-z][a-z0-9_]{0,39}")
_LIBRARY_STATES = ("", "*", "=")


def check(machine: Machine) -> None:
    """Check a declaration.

    Raises:
        MachineError: It does not hold together; names machine, place and problem.
    """
    _check_names(machine)
    check_columns(machine)
    _check_states(machine)
    for transition in machine.transitions:
        _check_ends(machine, transition)
    _check_creations(machine)
    check_terms(machine)
    check_assignments(machine)
    _check_paths(machine)
    check_rules(machine)
    for transition in machine.transitions:
        _check_satisfiable(machine, transition)


def _check_names(machine: Machine) -> None:
    moves: list[Creation | Transition] = [*machine.creations, *machine.transitions]
    for what, name in [
        ("the machine's name", machine.name),
        ("the table's name", machine.table),
        *(("the column's name", name) for name in machine.fields),
        *(("the name", part.name) for part in moves),
        *(("the name", selection.name) for selection in machine.selections),
    ]:
        if not _IDENTIFIER.fullmatch(name):
            problem = f"{what} must be a lower-case identifier of at most 40 characters"
            raise MachineError(machine.name, repr(name), problem)
    _check_once(machine, "transition or creation", [part.name for part in moves])
    _check_once(machine, "selection", [part.name for part in machine.selections])
    _check_once(machine, "uniqueness rule", [rule.name for rule in machine.uniqueness])
    _check_once(machine, "invariant", [rule.name for rule in machine.invariants])
    guards = [guard for transition in machine.transitions for guard in transition.when]
    _check_once(machine, "guard", [guard.name for guard in dict.fromkeys(guards)])
    for transition in machine.transitions:
        place = f"guard of transition {transition.name!r}"
        _check_once(machine, place, [guard.name for guard in transition.when])


def _check_once(machine: Machine, what: str, names: Iterable[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            different = " with different conditions" if what == "guard" else ""
            problem = f"the name is given {times} times{different}"
            raise MachineError(machine.name, f"{what} {name!r}", problem)


def _check_states(machine: Machine) -> None:
    state = machine.fields[machine.state.name]
    if not isinstance(state.kind, Choice) or state.nullable or state.kind.among:
        problem = "the state column must be a whole enum and never NULL"
        raise MachineError(machine.name, f"column {machine.state.name!r}", problem)
    for text in machine.states:
        if text in _LIBRARY_STATES:
            problem = f"a state cannot be stored as {text!r}"
            raise MachineError(machine.name, f"column {machine.state.name!r}", problem)
    for place, states in (("initial", machine.initial), ("final", machine.final)):
        _check_known(machine, place, states)
        _check_once(machine, f"{place} state", states)


def _check_known(machine: Machine, place: str, states: Iterable[object]) -> None:
    for state in states:
        if state not in machine.states:
            problem = f"unknown state {state!r}; known: {', '.join(machine.states)}"
            raise MachineError(machine.name, place, problem)


def _check_ends(machine: Machine, transition: Transition) -> None:
    place = f"transition {transition.name!r}"
    if not transition.source:
        raise MachineError(machine.name, place, "the source is missing")
    _check_known(machine, f"source of {place}", transition.source)
    _check_once(machine, f"source of {place}", transition.source)
    if transition.dest is not None:
        _check_known(machine, f"dest of {place}", [transition.dest])
    if transition.quiet and transition.dest is not None:
        problem = "only an internal transition (dest None) can be quiet"
        raise MachineError(machine.name, place, problem)


def _check_creations(machine: Machine) -> None:
    for creation in machine.creations:
        place = f"creation {creation.name!r}"
        _check_known(machine, f"dest of {place}", [creation.dest])
        if creation.dest not in machine.initial:
            problem = f"its dest {creation.dest!r} is not declared as initial"
            raise MachineError(machine.name, place, problem)
    born = [creation.dest for creation in machine.creations]
    for state in machine.initial:
        if state not in born:
            raise MachineError(machine.name, f"initial state {state!r}", "no creation leads to it")
    if not machine.creations:
        raise MachineError(machine.name, "creations", "there is none, so no row comes to be")


def _check_paths(machine: Machine) -> None:
    reached = list(machine.initial)
    for state in reached:
        for transition in machine.transitions:
            if state in transition.source and transition.reaches(state) not in reached:
                reached.append(transition.reaches(state))
    for state in machine.states:
        if state not in reached:
            raise MachineError(machine.name, f"state {state!r}", "no path leads to it")
    for state in machine.states:
        ways = [
            transition.name
            for transition in machine.transitions
            if state in transition.source and transition.reaches(state) != state
        ]
        if state in machine.final and ways:
            problem = f"it leaves the final state {state!r}"
            raise MachineError(machine.name, f"transition {ways[0]!r}", problem)
        if state not in machine.final and not ways:
            problem = "it is not final, but no transition leaves it"
            raise MachineError(machine.name, f"state {state!r}", problem)


def _check_satisfiable(machine: Machine, transition: Transition) -> None:
    conditions = [guard.condition for guard in transition.when]
    if not satisfiable(conditions, transition.source, machine.state, machine.fields):
        names = ", ".join(repr(guard.name) for guard in transition.when)
        problem = f"no row and call can satisfy its guards {names}"
        raise MachineError(machine.name, f"transition {transition.name!r}", problem)
