"""Machines with one seeded mistake."""

from __future__ import annotations

from typing import Any

import attrs

from statemachine.machine import Machine, Transition


def changed(machine: Machine, **parts: Any) -> Machine:
    """Return the machine with some of its parts replaced; declared anew, so checked anew."""
    given = {a.name: getattr(machine, a.name) for a in attrs.fields(Machine) if a.init}
    return Machine(**{**given, **parts})


def with_transition(machine: Machine, name: str, **parts: Any) -> Machine:
    """Return the machine with one transition changed."""
    mutants = tuple(
        attrs.evolve(transition, **parts) if transition.name == name else transition
        for transition in machine.transitions
    )
    return changed(machine, transitions=mutants)


def without_guard(machine: Machine, name: str, guard: str) -> Machine:
    """Return the machine with one guard of one transition forgotten."""
    left = tuple(g for g in machine.transition(name).when if g.name != guard)
    assert len(left) < len(machine.transition(name).when)
    return with_transition(machine, name, when=left)


def without_assignment(machine: Machine, name: str, *columns: str) -> Machine:
    """Return the machine with the assignments of one transition to some columns forgotten."""
    transition: Transition = machine.transition(name)
    left = tuple(a for a in transition.assign if a.column.name not in columns)
    assert len(left) < len(transition.assign)
    return with_transition(machine, name, assign=left)
