"""One call that is made on a database in order to compare what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from persistence.disagreement import Difference, Disagreement
from statemachine.errors import SqlatchError
from statemachine.interpret import holds
from statemachine.outcome import Actor

if TYPE_CHECKING:
    from persistence.call import Call
    from persistence.disagreement import Found
    from persistence.operation import Operation
    from persistence.scratch import Scratch
    from statemachine.kinds import Plain, Row
    from statemachine.machine import Uniqueness
    from statemachine.outcome import Refused

ACTOR = Actor("check", "agreement")
CALL = "the-call-that-is-tried"


@frozen
class Trial:
    """One call that was made on the database.

    Attributes:
        call: The transition or creation.

        slot: The uniqueness rule whose slot another row held meanwhile; None: nobody did.

        moved: Whether the declaration lets it happen.

        disagreement: What differs; None where all agrees.
    """

    call: str
    slot: str | None
    moved: bool
    disagreement: Disagreement | None


def call_in(scratch: Scratch, params: Row, key: str = "", call: str = CALL) -> Call:
    """Return a call under an id that nobody has used before."""
    return scratch.engine.call_of(params, key, call, ACTOR)._replace(given=False)


def answer_of(scratch: Scratch, operation: Operation[Row | Refused]) -> Found:
    """Run an operation and return what it answered or raised."""
    try:
        found: Row | Refused = scratch.run(operation)
    except SqlatchError as error:
        return error
    return found


def slot_of(rule: Uniqueness, row: Row) -> tuple[Plain, ...] | None:
    """Return what a row holds of a uniqueness rule's columns; None outside of the rule's set."""
    values = tuple(row[column.name] for column in rule.columns)
    return values if None not in values and holds(rule.where, row, {}, 0) is True else None


def disagreement(
    call: str, source: Plain, difference: Difference | None, row: Row | None, params: Row
) -> Disagreement | None:
    """Return a difference with the call that shows it."""
    return None if difference is None else Disagreement(call, source, difference, row, params)
