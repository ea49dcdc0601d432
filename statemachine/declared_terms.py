"""What a declaration's conditions and assignments may read and compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from statemachine.declared_columns import require
from statemachine.errors import MachineError
from statemachine.fitting import colliding, comparable, fits, is_constant_of
from statemachine.kinds import Choice, Duration, Instant, Integer, Kind
from statemachine.vocabulary import (
    Add,
    Assignment,
    AtMost,
    Clear,
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
    Put,
    Set,
    SetOnce,
    SetOr,
    Term,
    conditions_in,
    terms_in,
    terms_of,
)

if TYPE_CHECKING:
    from statemachine.machine import Creation, Machine, Selection, Transition

RESERVED = "sys_"
"""How the names of the engine's own parameters begin."""


def check_terms(machine: Machine) -> None:
    """Check every condition and assignment.

    Raises:
        MachineError: An unknown column, a constant outside its kind, two kinds compared or mixed.
    """
    for place, condition in _conditions(machine):
        _check_condition(machine, place, condition)
    parts: tuple[Transition | Creation, ...] = (*machine.transitions, *machine.creations)
    for part in parts:
        place = f"{type(part).__name__.lower()} {part.name!r}"
        for assignment in part.assign:
            _check_assignment(machine, place, assignment)
        _check_params(machine, place, part.params)
    for selection in machine.selections:
        moves = [t.params for t in machine.transitions if t.name == selection.transition]
        params = [*_params_of(selection), *(param for found in moves for param in found)]
        _check_params(machine, f"selection {selection.name!r}", params)


def _conditions(machine: Machine) -> Iterator[tuple[str, Condition]]:
    for transition in machine.transitions:
        for guard in transition.when:
            yield f"guard {guard.name!r} of transition {transition.name!r}", guard.condition
    for invariant in machine.invariants:
        yield f"invariant {invariant.name!r}", invariant.condition
    for rule in machine.uniqueness:
        yield f"uniqueness rule {rule.name!r}", rule.where
    for selection in machine.selections:
        for arm in selection.arms:
            for condition in (*arm.fixed, *arm.by, *arm.when):
                yield f"arm {arm.name!r} of selection {selection.name!r}", condition


def _params_of(selection: Selection) -> tuple[Param, ...]:
    found: list[Param] = []
    for arm in selection.arms:
        for condition in (*arm.fixed, *arm.by, *arm.when):
            found += [term for term in terms_in(condition) if isinstance(term, Param)]
    return tuple(dict.fromkeys(found))


def _check_params(machine: Machine, place: str, params: Iterable[Param]) -> None:
    named: dict[str, Param] = {}
    for param in params:
        if param.name.startswith(RESERVED):
            problem = f"parameter {param.name!r}: names with {RESERVED!r} are the engine's"
            raise MachineError(machine.name, place, problem)
        if named.setdefault(param.name, param) != param:
            problem = f"parameter {param.name!r} is used with two kinds"
            raise MachineError(machine.name, place, problem)
        if isinstance(param.kind, Choice):
            problem = colliding(param.kind.options, param.kind.texts) or ""
            if problem:
                raise MachineError(machine.name, place, f"parameter {param.name!r}: {problem}")


def _check_condition(machine: Machine, place: str, condition: Condition) -> None:
    for term in terms_in(condition):
        if isinstance(term, Column):
            require(machine, place, term)
    for inner in conditions_in(condition):
        match inner:
            case Equal() | NotEqual():
                problem = _against_comparison(machine, inner.left, inner.right, ordered=False)
            case Less() | AtMost():
                problem = _against_comparison(machine, inner.left, inner.right, ordered=True)
            case OneOf():
                problem = _against_choice(machine, inner)
            case _:
                problem = None
        if problem is not None:
            raise MachineError(machine.name, place, problem)


def _against_comparison(machine: Machine, left: Term, right: Term, *, ordered: bool) -> str | None:
    if isinstance(left, Literal) and isinstance(right, Literal):
        return "it compares two constants"
    for literal, other in ((left, right), (right, left)):
        if isinstance(literal, Literal):
            kind = _kind_of(machine, other)
            if not is_constant_of(kind, literal.value):
                return f"{literal.value!r} is no value of {_shown(other)} ({kind})"
            return None
    kinds = _kind_of(machine, left), _kind_of(machine, right)
    if not comparable(*kinds, ordered=ordered):
        how = "ordered by" if ordered else "equal to"
        return f"{_shown(left)} ({kinds[0]}) cannot be {how} {_shown(right)} ({kinds[1]})"
    return None


def _against_choice(machine: Machine, condition: OneOf) -> str | None:
    if not condition.values:
        return f"no value is given for {_shown(condition.column)}"
    kind = _kind_of(machine, condition.column)
    for value in condition.values:
        if not is_constant_of(kind, value):
            return f"{value!r} is no value of {_shown(condition.column)} ({kind})"
    return None


def _check_assignment(machine: Machine, place: str, assignment: Assignment) -> None:
    column = assignment.column
    require(machine, place, column)
    for term in terms_of(assignment):
        if isinstance(term, Column):
            require(machine, place, term)
    problem = _against_assignment(machine, assignment)
    if problem is not None:
        raise MachineError(machine.name, place, f"column {column.name!r}: {problem}")


def _against_assignment(machine: Machine, assignment: Assignment) -> str | None:
    declared = machine.fields[assignment.column.name]
    kind = declared.kind
    match assignment:
        case Put(value=value):
            return None if is_constant_of(kind, value) else f"{value!r} is no value of {kind}"
        case Add():
            return None if isinstance(kind, Integer) else "only an integer can be added to"
        case SetOnce() if not declared.nullable:
            return "it is never NULL, so SetOnce never writes it"
        case SetOr(source=source) if not source.optional:
            return f"{_shown(source)} is always given; use Set"
        case Greatest() if not isinstance(kind, Instant | Integer):
            return "only instants and integers have a greater one"
        case Set() | SetOr() | SetOnce() | Greatest():
            for term in terms_of(assignment):
                if not _fits(machine, term, kind):
                    return f"{_shown(term)} does not fit into {kind}"
            return None
        case Clear():
            return None


def _fits(machine: Machine, term: Term, kind: Kind) -> bool:
    if isinstance(term, Literal):
        return is_constant_of(kind, term.value)
    return fits(_kind_of(machine, term), kind)


def _kind_of(machine: Machine, term: Term) -> Kind:
    match term:
        case Column(name=name):
            return machine.fields[name].kind
        case Param(kind=kind):
            return kind
        case Now():
            return Instant()
        case Deadline(duration=duration):
            # A wrong duration is reported as what it is: no instant.
            return Instant() if isinstance(duration.kind, Duration) else duration.kind
        case Literal():
            raise AssertionError("a constant takes the kind of what it meets")


def _shown(term: Term) -> str:
    match term:
        case Column(name=name):
            return f"column {name!r}"
        case Param(name=name):
            return f"parameter {name!r}"
        case Now():
            return "NOW"
        case Deadline(duration=duration):
            return f"NOW + parameter {duration.name!r}"
        case Literal(value=value):
            return repr(value)
