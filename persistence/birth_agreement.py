"""Whether the real database creates the rows that the in-memory machine says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from persistence.disagreement import Difference, compared, rows, steps
from persistence.execute import create
from persistence.trial import ACTOR, CALL, Trial, answer_of, call_in, disagreement, slot_of
from statemachine import simulate
from statemachine.errors import IllegalTransition, UniquenessConflict
from statemachine.examples import examples
from statemachine.path import broken
from statemachine.vocabulary import Param, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from persistence.disagreement import Found
    from persistence.scratch import Scratch
    from statemachine.births import Birth
    from statemachine.machine import Creation, Machine
    from statemachine.outcome import Moved


def try_birth(machine: Machine, birth: Birth, scratch: Scratch) -> Iterator[Trial]:
    """Create a row and compare; then create it again, and a second time under another key.

    Compared are verdict, row, what is stored and what history says. A row that breaks an invariant
    must be refused; the same again must answer the stored row; another key in the same slot of a
    uniqueness rule must be refused with the row in the way. The tables are empty afterwards.
    """
    made = _made(machine, birth)
    scratch.at(birth.now)
    found = _answer(scratch, birth)
    again = _answer(scratch, birth, "the-same-again")
    stored, events = scratch.empty(made.row[machine.key.name])
    difference: Difference | None
    if broken(machine, made.row):
        difference = _refusal(broken(machine, made.row)[0], found)
    else:
        difference = compared(machine, None, made, found) or compared(machine, None, made, again)
        difference = difference or rows("stored", made.row, stored) or steps(made.event, events)
    moved = not broken(machine, made.row)
    found_out = disagreement(birth.creation, None, difference, None, birth.params)
    yield Trial(birth.creation, None, moved, found_out)
    rival = _rival(machine, birth)
    if moved and rival is not None:
        yield from _tried_beside(machine, birth, rival, scratch)


def _tried_beside(
    machine: Machine, birth: Birth, rival: Birth, scratch: Scratch
) -> Iterator[Trial]:
    """Create a rival of a row; it differs in the key alone."""
    first, second = _made(machine, birth), _made(machine, rival)
    slots = [rule.name for rule in machine.uniqueness if slot_of(rule, second.row) is not None]
    if broken(machine, second.row) or not slots:
        return
    _answer(scratch, birth)
    found = _answer(scratch, rival, "the-rival")
    stored, _ = scratch.empty(second.row[machine.key.name])
    difference: Difference | None = None
    blocker = scratch.program.record(first.row)
    if not isinstance(found, UniquenessConflict):
        difference = Difference("verdict", f"refused: {slots[0]!r} is taken", repr(found))
    elif found.rule not in slots or found.blocker != blocker:
        declared = f"{slots} taken by {blocker!r}"
        difference = Difference("refusal", declared, f"{found.rule!r} by {found.blocker!r}")
    elif stored is not None:
        difference = Difference("stored", "no row", "a row")
    found_out = disagreement(birth.creation, None, difference, None, rival.params)
    yield Trial(birth.creation, slots[0], moved=True, disagreement=found_out)


def _refusal(invariant: str, found: Found) -> Difference | None:
    if isinstance(found, IllegalTransition):
        return None
    return Difference("verdict", f'refused: "{invariant}" does not hold', repr(found))


def _made(machine: Machine, birth: Birth) -> Moved:
    name, params = birth.creation, birth.params
    return simulate.create(machine, name, params, birth.now, actor=ACTOR, call=CALL)


def _answer(scratch: Scratch, birth: Birth, call: str = CALL) -> Found:
    program, made = scratch.program, call_in(scratch, birth.params, call=call)
    return answer_of(scratch, create(program, birth.creation, made, program.row))


def _rival(machine: Machine, birth: Birth) -> Birth | None:
    """Return the same creation with another key; None where no parameter gives the key."""
    name = _key_param(machine, machine.creation(birth.creation))
    if name is None:
        return None
    kind = machine.fields[machine.key.name].kind
    other = next((key for key in reversed(examples(kind)) if key != birth.params[name]), None)
    return None if other is None else evolve(birth, params={**birth.params, name: other})


def _key_param(machine: Machine, creation: Creation) -> str | None:
    for assignment in creation.assign:
        if assignment.column == machine.key:
            return next((t.name for t in terms_of(assignment) if isinstance(t, Param)), None)
    return None
