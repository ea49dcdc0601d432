"""Whether the real database does what the in-memory machine says, call by call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from persistence.batching import at_once
from persistence.disagreement import compared, rows, steps
from persistence.execute import apply
from persistence.refusal import explain
from persistence.trial import ACTOR, CALL, Trial, answer_of, call_in, disagreement, slot_of
from statemachine import simulate
from statemachine.examples import examples
from statemachine.outcome import Moved, Reason, Refused
from statemachine.path import broken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from persistence.call import Call
    from persistence.compile import Program
    from persistence.operation import Operation
    from persistence.scratch import Scratch
    from statemachine.kinds import Row
    from statemachine.machine import Machine, Uniqueness
    from statemachine.valuations import Cell


def try_cell(
    machine: Machine, cell: Cell, scratch: Scratch, *, in_a_batch: bool = False
) -> Iterator[Trial]:
    """Make a call on the database and compare; then with each slot taken that it would enter.

    In a batch it is made by the statement that makes many calls at once, and slots are left out:
    where one is taken, a batch falls back upon single calls.

    Compared are the verdict, whether the moved row holds the invariants, refusal or row, what is
    stored afterwards, and what history says. The tables are empty again afterwards.
    """
    verdict = simulate.decide(
        machine,
        cell.row,
        cell.transition,
        cell.params,
        cell.now,
        actor=ACTOR,
        call=CALL,
    )
    make = _in_a_batch if in_a_batch else _alone
    yield _tried(machine, cell, verdict, scratch, make=make)
    if isinstance(verdict, Moved) and not in_a_batch:
        for rule in machine.uniqueness:
            other = _in_the_way(machine, rule, cell.row, verdict.row)
            if other is not None:
                yield _tried(machine, cell, verdict, scratch, make=make, taken=(rule, other))


def _alone(program: Program, name: str, call: Call) -> Operation[Row | Refused]:
    return apply(program, name, call, program.row)


def _in_a_batch(program: Program, name: str, call: Call) -> Operation[Row | Refused]:
    moved = yield from at_once(program, name, [call])
    if moved:
        return moved[0]
    refused = yield from explain(program, name, call)
    raced = Refused(transition=name, reason=Reason.RACED, key=call.key)
    return raced if refused is None else refused


def _tried(
    machine: Machine,
    cell: Cell,
    verdict: Moved | Refused,
    scratch: Scratch,
    *,
    make: Callable[[Program, str, Call], Operation[Row | Refused]],
    taken: tuple[Uniqueness, Row] | None = None,
) -> Trial:
    key = str(cell.row[machine.key.name])
    moved = isinstance(verdict, Moved)
    expected = verdict
    scratch.at(cell.now)
    scratch.put(cell.row)
    if taken is not None:
        scratch.put(taken[1])
        expected = _taken(machine, cell, scratch, taken)
    call = call_in(scratch, cell.params, key)
    found = answer_of(scratch, make(scratch.program, cell.transition, call))
    stored, events = scratch.empty(key)
    difference = compared(machine, cell.row, expected, found)
    if difference is None:
        after = expected.row if isinstance(expected, Moved) else cell.row
        event = expected.event if isinstance(expected, Moved) else None
        difference = rows("stored", after, stored) or steps(event, events[1:])
    source = cell.row[machine.state.name]
    return Trial(
        cell.transition,
        None if taken is None else taken[0].name,
        moved,
        disagreement(cell.transition, source, difference, cell.row, cell.params),
    )


def _taken(
    machine: Machine, cell: Cell, scratch: Scratch, taken: tuple[Uniqueness, Row]
) -> Refused:
    rule, other = taken
    return Refused(
        transition=cell.transition,
        reason=Reason.UNIQUE,
        key=str(cell.row[machine.key.name]),
        state=str(cell.row[machine.state.name]),
        guard=rule.name,
        blocker=scratch.program.record(other),
        blocked_by=str(other[machine.key.name]),
    )


def _in_the_way(machine: Machine, rule: Uniqueness, before: Row, after: Row) -> Row | None:
    """Return another row that holds the slot which a move enters; None where it enters none.

    It looks like the moved row, but keeps out of the other rules' way.
    """
    slot = slot_of(rule, after)
    if slot is None or slot == slot_of(rule, before):
        return None
    aside = dict(after)
    for other in machine.uniqueness:
        for column in other.columns:
            if other is not rule and column not in rule.columns:
                aside[column.name] = None
    if any(aside[n] is None and not machine.fields[n].nullable for n in machine.fields):
        return None
    kind = machine.fields[machine.key.name].kind
    candidates = ({**aside, machine.key.name: key} for key in reversed(examples(kind)))
    return next((row for row in candidates if _is_another(machine, row, before)), None)


def _is_another(machine: Machine, row: Row, before: Row) -> bool:
    return row[machine.key.name] != before[machine.key.name] and not broken(machine, row)
