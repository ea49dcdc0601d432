"""What a guard and an assignment mean on a plain row: the reference that the SQL must agree with."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, assert_never

from statemachine.vocabulary import (
    Add,
    And,
    Assignment,
    AtMost,
    Clear,
    Column,
    Condition,
    Deadline,
    Equal,
    Greatest,
    IsNull,
    Less,
    Literal,
    Not,
    NotEqual,
    NotNull,
    Now,
    OneOf,
    Or,
    Param,
    Put,
    Set,
    SetOnce,
    SetOr,
    Term,
)

if TYPE_CHECKING:
    from statemachine.kinds import Plain, Row

Truth: TypeAlias = bool | None
"""True, False or None for unknown."""


def value_of(term: Term, row: Row, params: Row, now: int) -> Plain:
    """Return the plain value of a term; NULL is None."""
    match term:
        case Column(name=name):
            return row[name]
        case Param(name=name):
            return params[name]
        case Now():
            return now
        case Literal(value=value):
            return value
        case Deadline(duration=duration):
            length = params[duration.name]
            return None if length is None else now + int(length)
    assert_never(term)


def holds(condition: Condition, row: Row, params: Row, now: int) -> Truth:
    """Evaluate a condition in SQL's three-valued logic."""
    match condition:
        case Equal() | NotEqual() | Less() | AtMost():
            left = value_of(condition.left, row, params, now)
            right = value_of(condition.right, row, params, now)
            return _compare(condition, left, right)
        case IsNull(term=term):
            return value_of(term, row, params, now) is None
        case NotNull(term=term):
            return value_of(term, row, params, now) is not None
        case OneOf(column=column, values=values):
            value = row[column.name]
            return None if value is None else value in values
        case And(conditions=conditions):
            truths = [holds(inner, row, params, now) for inner in conditions]
            return False if False in truths else None if None in truths else True
        case Or(conditions=conditions):
            truths = [holds(inner, row, params, now) for inner in conditions]
            return True if True in truths else None if None in truths else False
        case Not(condition=inner):
            truth = holds(inner, row, params, now)
            return None if truth is None else not truth
    assert_never(condition)


def _compare(condition: Equal | NotEqual | Less | AtMost, left: Plain, right: Plain) -> Truth:
    if left is None or right is None:
        return None
    match condition:
        case Equal():
            return left == right
        case NotEqual():
            return left != right
        case Less():
            return left < right  # type: ignore[operator]  # both of one kind, checked at declaration
        case AtMost():
            return left <= right  # type: ignore[operator]  # both of one kind, checked at declaration
    assert_never(condition)


def assigned(assignment: Assignment, row: Row, params: Row, now: int) -> Plain:
    """Return the new plain value of the assignment's column."""
    present = row.get(assignment.column.name)
    match assignment:
        case Set(source=source):
            return value_of(source, row, params, now)
        case SetOr(source=source, otherwise=otherwise):
            given = params[source.name]
            return value_of(otherwise, row, params, now) if given is None else given
        case SetOnce(source=source):
            return value_of(source, row, params, now) if present is None else present
        case Put(value=value):
            return value
        case Clear():
            return None
        case Add(amount=amount):
            return None if present is None else int(present) + amount
        case Greatest(source=source):
            return greatest(present, value_of(source, row, params, now))
    assert_never(assignment)


def greatest(left: Plain, right: Plain) -> Plain:
    """Return the greater of two values of one kind; a NULL is ignored."""
    if left is None or right is None:
        return right if left is None else left
    return max(left, right)
