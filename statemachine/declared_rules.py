"""What a declaration's rules about rows, and its selections, must look like."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from statemachine.declared_columns import require
from statemachine.errors import MachineError
from statemachine.vocabulary import Column, Condition, Deadline, Now, Param, terms_in

if TYPE_CHECKING:
    from statemachine.machine import Arm, Machine, Selection


def check_rules(machine: Machine) -> None:
    """Check invariants, uniqueness rules and selections.

    Raises:
        MachineError: A rule that reads the call, or a selection that no index could serve.
    """
    for invariant in machine.invariants:
        _check_of_row(machine, f"invariant {invariant.name!r}", (invariant.condition,))
    for rule in machine.uniqueness:
        place = f"uniqueness rule {rule.name!r}"
        if not rule.columns:
            raise MachineError(machine.name, place, "it names no column")
        for column in rule.columns:
            require(machine, place, column)
        _check_of_row(machine, place, (rule.where,))
    for selection in machine.selections:
        _check_selection(machine, selection)


def _check_of_row(machine: Machine, place: str, conditions: Iterable[Condition]) -> None:
    for condition in conditions:
        for term in terms_in(condition):
            if isinstance(term, Param | Now | Deadline):
                problem = "it may read the row alone, no parameter and no NOW"
                raise MachineError(machine.name, place, problem)


def _check_selection(machine: Machine, selection: Selection) -> None:
    place = f"selection {selection.name!r}"
    if selection.transition not in [transition.name for transition in machine.transitions]:
        problem = f"unknown transition {selection.transition!r}"
        raise MachineError(machine.name, place, problem)
    for name in selection.vacant:
        if name not in [rule.name for rule in machine.uniqueness]:
            raise MachineError(machine.name, place, f"unknown uniqueness rule {name!r}")
    if not selection.arms:
        raise MachineError(machine.name, place, "it has no arm")
    names = [arm.name for arm in selection.arms]
    for arm in selection.arms:
        at = f"arm {arm.name!r} of {place}"
        if names.count(arm.name) > 1:
            raise MachineError(machine.name, at, "the name is given twice")
        _check_arm(machine, at, arm)


def _check_arm(machine: Machine, place: str, arm: Arm) -> None:
    _check_of_row(machine, place, arm.fixed)
    for equality in arm.by:
        match equality.left, equality.right:
            case (Column(), Param()):
                pass
            case _:
                problem = "by must compare a column with a parameter"
                raise MachineError(machine.name, place, problem)
    for column in arm.order:
        require(machine, place, column)
    if arm.order[-1:] != (machine.key,):
        raise MachineError(machine.name, place, "its order must end in the key")
