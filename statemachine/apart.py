"""Which values of a column or parameter conditions and assignments can tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from attrs import field, frozen

from statemachine.examples import NOW_MS, PERIOD_MS, examples
from statemachine.kinds import MAX_INSTANT, Boolean, Choice, Instant, Integer, Kind, Plain
from statemachine.solve import Solver, Variable, variables_of
from statemachine.vocabulary import (
    Assignment,
    AtMost,
    Column,
    Condition,
    Deadline,
    Equal,
    Greatest,
    Less,
    Literal,
    NotEqual,
    Now,
    OneOf,
    Param,
    SetOnce,
    Term,
    conditions_in,
    terms_in,
    terms_of,
)

if TYPE_CHECKING:
    from statemachine.fields import Field

Fields: TypeAlias = Mapping[str, "Field"]

_PAIR = 2


def satisfiable(
    guards: Iterable[Condition], sources: tuple[str, ...], state: Column, fields: Fields
) -> bool:
    """Tell whether some values make all guards true in one of the source states."""
    conditions = list(guards)
    apart: dict[Variable, tuple[Plain, ...]] = told_apart(conditions, (), fields, thorough=True)
    if state in apart:
        apart[state] = sources
    return Solver(conditions, NOW_MS).first(apart) is not None


def told_apart(
    conditions: Iterable[Condition],
    assignments: tuple[Assignment, ...],
    fields: Fields,
    *,
    thorough: bool = False,
) -> dict[Variable, tuple[Plain, ...]]:
    """Return, for each column and parameter that is read, the values worth trying.

    NULL where it may be; each constant it is compared with, and one beside; below, at and above
    `NOW` and a deadline; less than, equal to and greater than what else it is compared with.

    Args:
        conditions: What reads the values.

        assignments: What also does.

        fields: The columns.

        thorough: Vary both sides of a comparison also where one would do.
    """
    conditions = list(conditions)
    groups = _groups(conditions, assignments)
    read = [*(t for c in conditions for t in terms_in(c))]
    read += [t for a in assignments for t in (*_read_back(a), *terms_of(a))]
    apart: dict[Variable, tuple[Plain, ...]] = {}
    for variable in variables_of(read):
        kind, nullable = _kind(variable, fields)
        values = groups[variable].values(kind, fields) if variable in groups else ()
        if not values and isinstance(variable, Param):
            # Other than what a bare row holds, so that it shows whether it is written.
            values = examples(kind)[1:2] or examples(kind)[:1]
        elif not values:
            values = examples(kind)[:1]
        elif not thorough and isinstance(variable, Param) and groups[variable].is_pair:
            values = values[len(values) // 2 :][:1] if groups[variable].ordered else values[:1]
        apart[variable] = (None, *values) if nullable else tuple(values)
    return apart


@frozen
class _Group:
    """Variables that are compared with each other, and the constants they meet.

    Attributes:
        ordered: By less or at most, not by equality alone.
    """

    variables: list[Variable] = field(factory=list)
    anchors: list[Plain] = field(factory=list)
    orders: list[bool] = field(factory=list)

    @property
    def ordered(self) -> bool:
        return any(self.orders)

    @property
    def is_pair(self) -> bool:
        """Tell whether varying the one column tries all that its one parameter can meet."""
        columns = [v for v in self.variables if isinstance(v, Column)]
        return len(self.variables) == _PAIR and len(columns) == 1 and not self.anchors

    def values(self, kind: Kind, fields: Fields) -> tuple[Plain, ...]:
        """Return what to try of a kind, in order; without NULL."""
        if isinstance(kind, Boolean):
            return examples(kind)
        if isinstance(kind, Integer | Instant):
            return self._numbers(kind, fields)
        beside = [value for value in examples(kind) if value not in self.anchors]
        wanted = 1 if self.anchors else min(2, len(self.variables))
        values = (*self.anchors, *beside[:wanted])
        allowed = kind.texts if isinstance(kind, Choice) else values
        return tuple(value for value in values if value in allowed)

    def _numbers(self, kind: Integer | Instant, fields: Fields) -> tuple[Plain, ...]:
        steps = (-1, 0, 1) if self.ordered else (0, 1)
        anchors = [int(anchor) for anchor in self.anchors if anchor is not None]
        if not anchors and len(self.variables) > 1:
            if not self.is_pair:
                steps = (0, 1)
            anchors = [NOW_MS if isinstance(kind, Instant) else self._least(fields) - steps[0]]
        low, high = (kind.minimum, kind.maximum) if isinstance(kind, Integer) else (0, MAX_INSTANT)
        values = sorted({anchor + step for anchor in anchors for step in steps})
        return tuple(value for value in values if low <= value <= high)

    def _least(self, fields: Fields) -> int:
        """Return the least integer above zero that all the variables may hold."""
        kinds = [_kind(variable, fields)[0] for variable in self.variables]
        return max(1, *(kind.minimum for kind in kinds if isinstance(kind, Integer)))


def _groups(
    conditions: list[Condition], assignments: tuple[Assignment, ...]
) -> dict[Variable, _Group]:
    groups: dict[Variable, _Group] = {}
    for terms, ordered in comparisons(conditions, assignments):
        variables = variables_of(t for t in terms if not isinstance(t, Deadline))
        joined = _Group()
        for group in {id(g): g for v in variables if (g := groups.get(v))}.values():
            joined.variables.extend(group.variables)
            joined.anchors.extend(group.anchors)
            joined.orders.extend(group.orders)
        joined.variables.extend(v for v in variables if v not in joined.variables)
        anchors = [a for term in terms for a in _anchors(term)]
        joined.anchors.extend(a for a in anchors if a not in joined.anchors)
        joined.orders.append(ordered)
        groups |= dict.fromkeys(joined.variables, joined)
    return groups


def comparisons(
    conditions: Iterable[Condition], assignments: tuple[Assignment, ...]
) -> Iterator[tuple[tuple[Term, ...], bool]]:
    """Yield the terms that are compared with each other, and whether by their order."""
    for condition in conditions:
        for inner in conditions_in(condition):
            match inner:
                case Equal() | NotEqual():
                    yield (inner.left, inner.right), False
                case Less() | AtMost():
                    yield (inner.left, inner.right), True
                case OneOf():
                    yield (inner.column, *(Literal(value) for value in inner.values)), False
                case _:
                    pass
    for assignment in assignments:
        if isinstance(assignment, Greatest):
            yield (assignment.column, assignment.source), True


def _anchors(term: Term) -> tuple[Plain, ...]:
    match term:
        case Literal(value=value):
            return (value,)
        case Now():
            return (NOW_MS,)
        case Deadline():
            return (NOW_MS + PERIOD_MS,)
        case Column() | Param():
            return ()


def _read_back(assignment: Assignment) -> tuple[Column, ...]:
    """Return the column where what is written depends on what it held."""
    return (assignment.column,) if isinstance(assignment, SetOnce | Greatest) else ()


def _kind(variable: Variable, fields: Fields) -> tuple[Kind, bool]:
    if isinstance(variable, Param):
        return variable.kind, variable.optional
    return fields[variable.name].kind, fields[variable.name].nullable
