"""What a declaration may say of columns, and what its parts may write into them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from statemachine.errors import MachineError
from statemachine.fields import ENGINE_FIELDS
from statemachine.fitting import colliding
from statemachine.kinds import Choice, Instant, Integer, Text
from statemachine.vocabulary import (
    Add,
    And,
    Assignment,
    Clear,
    Column,
    Condition,
    Deadline,
    Greatest,
    IsNull,
    Param,
    Put,
    Set,
    SetOnce,
    SetOr,
    Term,
    columns_of,
)

if TYPE_CHECKING:
    from statemachine.machine import Creation, Machine, Transition


def check_columns(machine: Machine) -> None:
    """Check the columns and their classes.

    Raises:
        MachineError: An unknown column, an engine column of another kind, classes that contradict.
    """
    for place, columns in _named_columns(machine):
        for column in columns:
            require(machine, place, column)
    for name, declared in machine.fields.items():
        engine = ENGINE_FIELDS.get(name)
        if engine and (declared.kind, declared.nullable) != (engine.kind, engine.nullable):
            problem = f"the engine adds this column, as {engine.kind}"
            raise MachineError(machine.name, f"column {name!r}", problem)
        if isinstance(declared.kind, Choice):
            problem = colliding(declared.kind.options, declared.kind.texts) or ""
            if problem:
                raise MachineError(machine.name, f"column {name!r}", problem)
    key = machine.fields[machine.key.name]
    if not isinstance(key.kind, Text) or key.nullable:
        problem = "the key must be a text and never NULL"
        raise MachineError(machine.name, f"column {machine.key.name!r}", problem)
    for column in machine.recorded:
        if column in machine.private:
            problem = "a private column cannot be recorded in history"
            raise MachineError(machine.name, f"column {column.name!r}", problem)
    for only in machine.only_by:
        for name in only.transitions:
            if name not in [transition.name for transition in machine.transitions]:
                raise MachineError(machine.name, "only_by", f"unknown transition {name!r}")
    _check_classes(machine)
    _check_lease(machine)


def require(machine: Machine, place: str, column: Column) -> None:
    """Raise MachineError unless the record has the column."""
    if column.name not in machine.fields:
        problem = f"unknown column {column.name!r}; known: {', '.join(machine.fields)}"
        raise MachineError(machine.name, place, problem)


def check_assignments(machine: Machine) -> None:
    """Check what transitions and creations write; the terms are known to be right.

    Raises:
        MachineError: A column written twice, or one that may not be written so.
    """
    for transition in machine.transitions:
        place = f"transition {transition.name!r}"
        _check_written(machine, place, transition.assign)
        for assignment in transition.assign:
            problem = _against_class(machine, transition, assignment)
            if problem is None and transition.quiet:
                problem = _against_quiet(machine, assignment)
            if problem is not None:
                at = f"column {assignment.column.name!r}: {problem}"
                raise MachineError(machine.name, place, at)
    for creation in machine.creations:
        _check_creation(machine, creation)


def _named_columns(machine: Machine) -> Iterator[tuple[str, Iterable[Column]]]:
    yield "key", (machine.key,)
    yield "state", (machine.state,)
    yield "immutable", machine.immutable
    yield "write_once", machine.write_once
    yield "clear_only", machine.clear_only
    for only in machine.only_by:
        yield "only_by", only.columns
    yield "listed_by", machine.listed_by
    yield "listed_for", machine.listed_for
    yield "recorded", machine.recorded
    yield "private", machine.private
    if machine.lease is not None:
        yield "lease", _lease_columns(machine)
    for creation in machine.creations:
        yield f"identity of creation {creation.name!r}", creation.identity


def _lease_columns(machine: Machine) -> tuple[Column, ...]:
    lease = machine.lease
    if lease is None:
        return ()
    return columns_of(
        (
            lease.holder,
            lease.holder_kind,
            lease.token_hash,
            lease.generation,
            lease.acquired_at,
            lease.heartbeat_at,
            lease.expires_at,
        )
    )


def _check_classes(machine: Machine) -> None:
    only = tuple(column for rule in machine.only_by for column in rule.columns)
    classes = {
        "immutable": machine.immutable,
        "write_once": machine.write_once,
        "clear_only": machine.clear_only,
        "only_by": only,
    }
    seen: dict[Column, str] = {machine.state: "state"}
    for name, columns in classes.items():
        for column in columns:
            if column in seen:
                problem = f"it is listed as {seen[column]} and as {name}"
                raise MachineError(machine.name, f"column {column.name!r}", problem)
            if column.name in ENGINE_FIELDS:
                problem = f"the engine writes it; it cannot be {name}"
                raise MachineError(machine.name, f"column {column.name!r}", problem)
            seen[column] = name
        if name == "write_once":
            _check_nullable(machine, columns, "a column that is written once starts as NULL")
    if machine.listed_by and machine.listed_by[-1] != machine.key:
        raise MachineError(machine.name, "listed_by", "the order of lists must end in the key")
    if machine.listed_for and not machine.listed_by:
        raise MachineError(machine.name, "listed_for", "it needs the order of lists, listed_by")


def _check_nullable(machine: Machine, columns: Iterable[Column], problem: str) -> None:
    for column in columns:
        if not machine.fields[column.name].nullable:
            raise MachineError(machine.name, f"column {column.name!r}", problem)


def _check_lease(machine: Machine) -> None:
    lease = machine.lease
    if lease is None:
        return
    generation = machine.fields[lease.generation.name]
    if not isinstance(generation.kind, Integer) or generation.nullable:
        problem = "the lease's generation must be an integer and never NULL"
        raise MachineError(machine.name, f"column {lease.generation.name!r}", problem)
    others = tuple(column for column in _lease_columns(machine) if column != lease.generation)
    _check_nullable(machine, others, "a column of the lease is NULL while the lease is absent")
    for column in (lease.acquired_at, lease.heartbeat_at, lease.expires_at):
        if not isinstance(machine.fields[column.name].kind, Instant):
            problem = "this column of the lease must be an instant"
            raise MachineError(machine.name, f"column {column.name!r}", problem)


def _check_written(machine: Machine, place: str, assignments: tuple[Assignment, ...]) -> None:
    seen: list[Column] = []
    for assignment in assignments:
        column = assignment.column
        problem = None
        if column in seen:
            problem = "assigned twice"
        elif column == machine.state:
            problem = "the state is written by dest alone"
        elif column.name in ENGINE_FIELDS:
            problem = "the engine writes it"
        elif not machine.fields[column.name].nullable and _may_be_null(machine, assignment):
            problem = "NULL into a required column"
        if problem is not None:
            raise MachineError(machine.name, place, f"column {column.name!r}: {problem}")
        seen.append(column)


def _may_be_null(machine: Machine, assignment: Assignment) -> bool:
    match assignment:
        case Clear():
            return True
        case Set(source=source):
            return _nullable(machine, source)
        case SetOr(otherwise=otherwise):
            return _nullable(machine, otherwise)
        case SetOnce() | Put() | Add() | Greatest():
            return False


def _nullable(machine: Machine, term: Term) -> bool:
    match term:
        case Param(optional=optional):
            return optional
        case Deadline(duration=duration):
            return duration.optional
        case Column(name=name):
            return machine.fields[name].nullable
        case _:
            return False


def _against_class(machine: Machine, transition: Transition, assignment: Assignment) -> str | None:
    column = assignment.column
    if column == machine.key:
        return "the key never changes"
    if column in machine.immutable:
        return "it is immutable"
    if column in machine.clear_only and not isinstance(assignment, Clear | Put):
        return "it is clear only: Clear or Put a constant"
    if column in machine.write_once and not isinstance(assignment, SetOnce):
        null = any(_demands_null(guard.condition, column) for guard in transition.when)
        if not null or not isinstance(assignment, Set | SetOr | Put):
            return "it is written once: SetOnce, or demand IsNull by a guard"
    for only in machine.only_by:
        if column in only.columns and transition.name not in only.transitions:
            return f"it is written only by {', '.join(only.transitions)}"
    return None


def _demands_null(condition: Condition, column: Column) -> bool:
    match condition:
        case IsNull(term=term):
            return term == column
        case And(conditions=conditions):
            return any(_demands_null(inner, column) for inner in conditions)
        case _:
            return False


def _against_quiet(machine: Machine, assignment: Assignment) -> str | None:
    if assignment.column in machine.recorded:
        return "a quiet transition cannot write a recorded column"
    return None


def _check_creation(machine: Machine, creation: Creation) -> None:
    place = f"creation {creation.name!r}"
    _check_written(machine, place, creation.assign)
    written = [assignment.column.name for assignment in creation.assign]
    for assignment in creation.assign:
        new = isinstance(assignment, Set | SetOr | Put | Clear)
        if not new or (isinstance(assignment, SetOr) and isinstance(assignment.otherwise, Column)):
            problem = f"column {assignment.column.name!r}: there is no old row to read"
            raise MachineError(machine.name, place, problem)
    if machine.key.name not in written:
        problem = f"column {machine.key.name!r}: the key is not assigned"
        raise MachineError(machine.name, place, problem)
    for name, declared in machine.fields.items():
        given = name in written or name in ENGINE_FIELDS or name == machine.state.name
        if not (given or declared.has_default or declared.nullable):
            problem = f"column {name!r}: required, without a default, and not assigned"
            raise MachineError(machine.name, place, problem)
