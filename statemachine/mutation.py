"""Small mistakes in a declaration, one at a time: what a machine's checks have to notice."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from attrs import evolve, frozen

from statemachine.parts import Creation, Transition
from statemachine.vocabulary import (
    Add,
    And,
    Assignment,
    AtMost,
    Clear,
    Condition,
    Equal,
    Greatest,
    Guard,
    IsNull,
    Less,
    Not,
    NotEqual,
    NotNull,
    OneOf,
    Or,
    Put,
    Set,
    SetOnce,
    SetOr,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statemachine.machine import Machine


@frozen
class Mutant:
    """One part of a machine with one mistake.

    Attributes:
        change: What was done to it, readable.

        part: The transition or creation as it is then.
    """

    change: str
    part: Transition | Creation

    def __str__(self) -> str:
        return f"{self.part.name}: {self.change}"

    def of(self, machine: Machine) -> Machine:
        """Return the machine with the mistake.

        Raises:
            MachineError: The declaration does not hold together any more.
        """
        part = self.part
        if isinstance(part, Transition):
            moves = tuple(part if t.name == part.name else t for t in machine.transitions)
            return evolve(machine, transitions=moves)
        births = tuple(part if c.name == part.name else c for c in machine.creations)
        return evolve(machine, creations=births)


def mutants(machine: Machine) -> Iterator[Mutant]:
    """Yield each mistake: one guard or one assignment dropped or weakened."""
    for transition in machine.transitions:
        for number, guard in enumerate(transition.when):
            before, after = transition.when[:number], transition.when[number + 1 :]
            dropped = evolve(transition, when=before + after)
            yield Mutant(f"guard {guard.name!r} dropped", dropped)
            for what, weaker in _weakened(guard.condition):
                # Another name: one name stands for one condition throughout a machine.
                instead = Guard(f"{guard.name}, weakened", weaker)
                changed = evolve(transition, when=(*before, instead, *after))
                yield Mutant(f"guard {guard.name!r} without {what}", changed)
        yield from _assigning(transition)
    for creation in machine.creations:
        yield from _assigning(creation)


def _assigning(part: Transition | Creation) -> Iterator[Mutant]:
    for number, assignment in enumerate(part.assign):
        before, after = part.assign[:number], part.assign[number + 1 :]
        name = assignment.column.name
        yield Mutant(f"{name} not assigned", evolve(part, assign=before + after))
        weaker = _weaker(assignment)
        if weaker is not None:
            what = f"{name} by {type(weaker).__name__} for {type(assignment).__name__}"
            yield Mutant(what, evolve(part, assign=(*before, weaker, *after)))


def _weakened(condition: Condition) -> Iterator[tuple[str, Condition]]:
    """Yield conditions that let a little more through, each with what it lacks."""
    match condition:
        case And(conditions=conditions):
            for number, inner in enumerate(conditions):
                rest = conditions[:number] + conditions[number + 1 :]
                yield f"part {number + 1}", rest[0] if len(rest) == 1 else And(*rest)
                for what, weaker in _weakened(inner):
                    parts = (*conditions[:number], weaker, *conditions[number + 1 :])
                    yield f"{what} of part {number + 1}", And(*parts)
        case Or(conditions=conditions):
            for number, inner in enumerate(conditions):
                for what, weaker in _weakened(inner):
                    parts = (*conditions[:number], weaker, *conditions[number + 1 :])
                    yield f"{what} of part {number + 1}", Or(*parts)
        case Less(left=left, right=right):
            yield "its strictness", AtMost(left, right)
        case Equal() | NotEqual() | AtMost() | IsNull() | NotNull() | OneOf() | Not():
            return
        case _:
            assert_never(condition)


def _weaker(assignment: Assignment) -> Assignment | None:
    """Return the assignment without its care for what was there, or for what is not given."""
    match assignment:
        case SetOnce(column=column, source=source) | Greatest(column=column, source=source):
            return Set(column, source)
        case SetOr(column=column, source=source):
            return Set(column, source)
        case Set() | Put() | Clear() | Add():
            return None
    assert_never(assignment)
