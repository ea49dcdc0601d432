"""What a guard and an assignment mean on a plain row: the reference that the SQL must agree with.

Each part of the language is read once, into a function of row, parameters and `NOW`; a machine
that is run often keeps the functions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias, assert_never

from statemachine.kinds import Plain, Row
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

Truth: TypeAlias = bool | None
"""True, False or None for unknown."""

Reading: TypeAlias = Callable[[Row, Row, int], Plain]
Meaning: TypeAlias = Callable[[Row, Row, int], Truth]


def value_of(term: Term, row: Row, params: Row, now: int) -> Plain:
    """Return the plain value of a term; NULL is None."""
    return reading(term)(row, params, now)


def holds(condition: Condition, row: Row, params: Row, now: int) -> Truth:
    """Evaluate a condition in SQL's three-valued logic."""
    return meaning(condition)(row, params, now)


def assigned(assignment: Assignment, row: Row, params: Row, now: int) -> Plain:
    """Return the new plain value of the assignment's column."""
    return effect(assignment)(row, params, now)


def reading(term: Term) -> Reading:
    """Return the function that reads a term."""
    match term:
        case Column(name=name):
            return lambda row, _params, _now: row[name]
        case Param(name=name):
            return lambda _row, params, _now: params[name]
        case Now():
            return lambda _row, _params, now: now
        case Literal(value=value):
            return lambda _row, _params, _now: value
        case Deadline(duration=duration):
            return _deadline(duration.name)
    assert_never(term)


def meaning(condition: Condition) -> Meaning:
    """Return the function that evaluates a condition."""
    match condition:
        case Equal(left=left, right=right):
            return _comparison(operator.eq, reading(left), reading(right))
        case NotEqual(left=left, right=right):
            return _comparison(operator.ne, reading(left), reading(right))
        case Less(left=left, right=right):
            return _comparison(operator.lt, reading(left), reading(right))
        case AtMost(left=left, right=right):
            return _comparison(operator.le, reading(left), reading(right))
        case IsNull(term=term):
            read = reading(term)
            return lambda row, params, now: read(row, params, now) is None
        case NotNull(term=term):
            read = reading(term)
            return lambda row, params, now: read(row, params, now) is not None
        case OneOf(column=column, values=values):
            return _membership(column.name, values)
        case And(conditions=conditions):
            return _conjunction([meaning(inner) for inner in conditions])
        case Or(conditions=conditions):
            return _disjunction([meaning(inner) for inner in conditions])
        case Not(condition=inner):
            return _negation(meaning(inner))
    assert_never(condition)


def effect(assignment: Assignment) -> Reading:
    """Return the function that computes the new value of the assignment's column."""
    name = assignment.column.name
    match assignment:
        case Set(source=source):
            return reading(source)
        case SetOr(source=source, otherwise=otherwise):
            return _first(reading(source), reading(otherwise))
        case SetOnce(source=source):
            return _first(reading(assignment.column), reading(source))
        case Put(value=value):
            return lambda _row, _params, _now: value
        case Clear():
            return lambda _row, _params, _now: None
        case Add(amount=amount):
            return _sum(name, amount)
        case Greatest(source=source):
            read = reading(source)
            return lambda row, params, now: greatest(row[name], read(row, params, now))
    assert_never(assignment)


def greatest(left: Plain, right: Plain) -> Plain:
    """Return the greater of two values of one kind; a NULL is ignored."""
    if left is None or right is None:
        return right if left is None else left
    return max(left, right)


def _deadline(duration: str) -> Reading:
    def read(_row: Row, params: Row, now: int) -> Plain:
        length = params[duration]
        return None if length is None else now + int(length)

    return read


def _first(preferred: Reading, otherwise: Reading) -> Reading:
    def read(row: Row, params: Row, now: int) -> Plain:
        value = preferred(row, params, now)
        return otherwise(row, params, now) if value is None else value

    return read


def _sum(name: str, amount: int) -> Reading:
    def read(row: Row, _params: Row, _now: int) -> Plain:
        value = row[name]
        return None if value is None else int(value) + amount

    return read


def _comparison(compare: Callable[[Any, Any], bool], left: Reading, right: Reading) -> Meaning:
    def mean(row: Row, params: Row, now: int) -> Truth:
        one, other = left(row, params, now), right(row, params, now)
        return None if one is None or other is None else compare(one, other)

    return mean


def _membership(name: str, values: tuple[Plain, ...]) -> Meaning:
    def mean(row: Row, _params: Row, _now: int) -> Truth:
        value = row[name]
        return None if value is None else value in values

    return mean


def _conjunction(parts: list[Meaning]) -> Meaning:
    def mean(row: Row, params: Row, now: int) -> Truth:
        truth: Truth = True
        for part in parts:
            inner = part(row, params, now)
            if inner is False:
                return False
            truth = truth and inner
        return truth

    return mean


def _disjunction(parts: list[Meaning]) -> Meaning:
    def mean(row: Row, params: Row, now: int) -> Truth:
        unknown = False
        for part in parts:
            inner = part(row, params, now)
            if inner is True:
                return True
            unknown = unknown or inner is None
        return None if unknown else False

    return mean


def _negation(part: Meaning) -> Meaning:
    def mean(row: Row, params: Row, now: int) -> Truth:
        truth = part(row, params, now)
        return None if truth is None else not truth

    return mean
