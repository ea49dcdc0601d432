"""The whole language of guards and assignments: closed unions of small frozen classes.

Meaning is SQL's three-valued logic: a comparison with NULL is unknown, and unknown refuses.
Each union has total readers: `interpret` (in memory), `persistence` (SQL), `render` (label).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import Attribute, field, frozen

from statemachine.kinds import Kind, stored

if TYPE_CHECKING:
    from collections.abc import Iterable

Constant: TypeAlias = bool | int | str


@frozen
class Column:
    """A column of the machine's own row, by its name."""

    name: str


@frozen
class Param:
    """A value of the call.

    Attributes:
        name: Its keyword.

        kind: Its bounds and plain form.

        optional: Whether it may be NULL.
    """

    name: str
    kind: Kind
    optional: bool = False


@frozen
class Now:
    """The instant of the call; one value within one statement."""


@frozen
class Literal:
    """A constant, in plain form."""

    value: Constant


@frozen
class Deadline:
    """`NOW` plus a duration parameter."""

    duration: Param


NOW = Now()

Term: TypeAlias = Column | Param | Now | Literal | Deadline
ColumnLike: TypeAlias = "Column | Attribute[Any]"
TermLike: TypeAlias = "ColumnLike | Param | Now | Literal | Deadline | Constant"


def column_of(column: ColumnLike) -> Column:
    """Return the reference to a column, from itself or from `attrs.fields(Record).name`."""
    return column if isinstance(column, Column) else Column(column.name)


def columns_of(columns: Iterable[ColumnLike]) -> tuple[Column, ...]:
    """Return references to several columns."""
    return tuple(column_of(column) for column in columns)


def constant_of(value: Constant) -> Constant:
    """Return the plain form of a constant: an enum member becomes its stored text."""
    return stored(value) if isinstance(value, enum.Enum) else value


def _constants(values: Iterable[Constant]) -> tuple[Constant, ...]:
    return tuple(constant_of(value) for value in values)


def term_of(term: TermLike) -> Term:
    """Return the term that a column, a parameter, `NOW` or a constant stands for."""
    match term:
        case Column() | Param() | Now() | Literal() | Deadline():
            return term
        case Attribute():
            return column_of(term)
        case _:
            return Literal(constant_of(term))


@frozen
class Equal:
    """left = right."""

    left: Term = field(converter=term_of)
    right: Term = field(converter=term_of)


@frozen
class NotEqual:
    """left <> right; unknown when either is NULL."""

    left: Term = field(converter=term_of)
    right: Term = field(converter=term_of)


@frozen
class Less:
    """left < right."""

    left: Term = field(converter=term_of)
    right: Term = field(converter=term_of)


@frozen
class AtMost:
    """left <= right."""

    left: Term = field(converter=term_of)
    right: Term = field(converter=term_of)


@frozen
class IsNull:
    """The term is NULL."""

    term: Term = field(converter=term_of)


@frozen
class NotNull:
    """The term is not NULL."""

    term: Term = field(converter=term_of)


@frozen
class OneOf:
    """The column holds one of the constants; unknown when it is NULL."""

    column: Column = field(converter=column_of)
    values: tuple[Constant, ...] = field(converter=_constants)


@frozen(init=False)
class And:
    """All of the conditions."""

    conditions: tuple[Condition, ...]

    def __init__(self, *conditions: Condition) -> None:
        self.__attrs_init__(conditions)


@frozen(init=False)
class Or:
    """Any of the conditions."""

    conditions: tuple[Condition, ...]

    def __init__(self, *conditions: Condition) -> None:
        self.__attrs_init__(conditions)


@frozen
class Not:
    """The condition is false; unknown stays unknown."""

    condition: Condition


Condition: TypeAlias = Equal | NotEqual | Less | AtMost | IsNull | NotNull | OneOf | And | Or | Not


@frozen
class Guard:
    """A named condition, so that a refusal can say which one failed."""

    name: str
    condition: Condition


def implies(condition: Condition, consequence: Condition) -> Condition:
    """Return "if the condition holds, so does the consequence"."""
    return Or(Not(condition), consequence)


def iff(left: Condition, right: Condition) -> Condition:
    """Return "both hold, or neither does"."""
    return Or(And(left, right), And(Not(left), Not(right)))


@frozen
class Set:
    """column := a parameter, `NOW` or a deadline."""

    column: Column = field(converter=column_of)
    source: Param | Now | Deadline


@frozen
class SetOr:
    """column := a parameter, or another term where the call gives none."""

    column: Column = field(converter=column_of)
    source: Param
    otherwise: Term = field(converter=term_of)


@frozen
class SetOnce:
    """column := a parameter or `NOW`, where it is still NULL."""

    column: Column = field(converter=column_of)
    source: Param | Now


@frozen
class Put:
    """column := a constant."""

    column: Column = field(converter=column_of)
    value: Constant = field(converter=constant_of)


@frozen
class Clear:
    """column := NULL."""

    column: Column = field(converter=column_of)


@frozen
class Add:
    """column := column + amount."""

    column: Column = field(converter=column_of)
    amount: int = 1


@frozen
class Greatest:
    """column := the greater of itself and a term; a NULL is ignored."""

    column: Column = field(converter=column_of)
    source: Param | Now | Deadline


Assignment: TypeAlias = Set | SetOr | SetOnce | Put | Clear | Add | Greatest


def conditions_in(condition: Condition) -> Iterable[Condition]:
    """Yield a condition and every condition within it, in written order."""
    yield condition
    match condition:
        case And() | Or():
            for inner in condition.conditions:
                yield from conditions_in(inner)
        case Not():
            yield from conditions_in(condition.condition)
        case Equal() | NotEqual() | Less() | AtMost() | IsNull() | NotNull() | OneOf():
            pass


def terms_in(condition: Condition) -> Iterable[Term]:
    """Yield every term of a condition, in written order."""
    for inner in conditions_in(condition):
        match inner:
            case Equal() | NotEqual() | Less() | AtMost():
                yield inner.left
                yield inner.right
            case IsNull() | NotNull():
                yield inner.term
            case OneOf():
                yield inner.column
            case And() | Or() | Not():
                pass


def terms_of(assignment: Assignment) -> tuple[Term, ...]:
    """Return the terms that an assignment reads, in written order."""
    match assignment:
        case Set() | SetOnce() | Greatest():
            return (assignment.source,)
        case SetOr():
            return (assignment.source, assignment.otherwise)
        case Put() | Clear() | Add():
            return ()
