"""Guards and assignments as SQL expressions: the second reader of the language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import sqlalchemy as sa
from attrs import frozen
from sqlalchemy.sql.elements import Grouping

from persistence.dialect import Placeholder, column_type
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
    from collections.abc import Callable, Iterable

    from persistence.dialect import Dialect
    from statemachine.kinds import Plain
    from statemachine.machine import Machine


def bind(param: Param) -> sa.ColumnElement[Any]:
    """Return a call's parameter."""
    return Placeholder(param.name, column_type(param.kind))


@frozen
class Scope:
    """Where the terms of an expression come from.

    Attributes:
        machine: Whose row is spoken of.

        dialect: The database.

        column: The expression of a column, by its name.

        now: The expression of `NOW`.

        param: The expression of a call's parameter.
    """

    machine: Machine
    dialect: Dialect
    column: Callable[[str], sa.ColumnElement[Any]]
    now: sa.ColumnElement[Any] | None = None
    param: Callable[[Param], sa.ColumnElement[Any]] = bind


def constant(value: Plain, type_: sa.types.TypeEngine[Any]) -> sa.ColumnElement[Any]:
    """Return a constant, to be written out."""
    return sa.null() if value is None else sa.literal(value, type_)


def term(part: Term, scope: Scope, beside: Term | None = None) -> sa.ColumnElement[Any]:
    """Return a term; a literal takes the type of what stands beside it."""
    match part:
        case Column(name=name):
            return scope.column(name)
        case Param():
            return scope.param(part)
        case Now():
            assert scope.now is not None, "NOW outside of a call"
            return scope.now
        case Deadline(duration=duration):
            assert scope.now is not None, "NOW outside of a call"
            return scope.now + scope.param(duration)
        case Literal(value=value):
            return constant(value, _type_beside(beside, scope))
    assert_never(part)


def _type_beside(beside: Term | None, scope: Scope) -> sa.types.TypeEngine[Any]:
    match beside:
        case Column(name=name):
            return column_type(scope.machine.fields[name].kind)
        case Param(kind=kind):
            return column_type(kind)
        case _:
            return sa.BigInteger()


def condition(part: Condition, scope: Scope) -> sa.ColumnElement[bool]:
    """Return a condition as SQL, whose logic it has by definition."""
    match part:
        case Equal() | NotEqual() | Less() | AtMost():
            left = term(part.left, scope, part.right)
            right = term(part.right, scope, part.left)
            return _comparison(part, left, right)
        case IsNull():
            return term(part.term, scope).is_(sa.null())
        case NotNull():
            return term(part.term, scope).is_not(sa.null())
        case OneOf(column=column, values=values):
            type_ = _type_beside(column, scope)
            return scope.dialect.among(
                scope.column(column.name), [constant(v, type_) for v in values]
            )
        case And(conditions=conditions):
            return sa.and_(*(condition(inner, scope) for inner in conditions))
        case Or(conditions=conditions):
            return sa.or_(*(condition(inner, scope) for inner in conditions))
        case Not(condition=inner):
            return sa.not_(Grouping(condition(inner, scope)))
    assert_never(part)


def _comparison(
    part: Equal | NotEqual | Less | AtMost,
    left: sa.ColumnElement[Any],
    right: sa.ColumnElement[Any],
) -> sa.ColumnElement[bool]:
    match part:
        case Equal():
            return left.op("=", is_comparison=True, return_type=sa.Boolean())(right)
        case NotEqual():
            return left.op("<>", is_comparison=True, return_type=sa.Boolean())(right)
        case Less():
            return left < right
        case AtMost():
            return left <= right
    assert_never(part)


def assigned(part: Assignment, scope: Scope) -> sa.ColumnElement[Any]:
    """Return the expression of an assignment's new value."""
    name = part.column.name
    match part:
        case Set(source=source):
            return term(source, scope)
        case SetOr(source=source, otherwise=otherwise):
            return sa.func.coalesce(scope.param(source), term(otherwise, scope, part.column))
        case SetOnce(source=source):
            return sa.func.coalesce(scope.column(name), term(source, scope))
        case Put(value=value):
            return constant(value, column_type(scope.machine.fields[name].kind))
        case Clear():
            return sa.null()
        case Add(amount=amount):
            return scope.column(name) + constant(amount, sa.BigInteger())
        case Greatest(source=source):
            return scope.dialect.greatest(scope.column(name), term(source, scope))
    assert_never(part)


def all_of(parts: Iterable[Condition], scope: Scope) -> list[sa.ColumnElement[bool]]:
    """Return several conditions, each on its own: a planner matches them one by one."""
    return [condition(part, scope) for part in parts]
