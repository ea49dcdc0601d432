"""Guards, invariants and assignments written out for a person: total readers of the vocabulary."""

from __future__ import annotations

from typing import assert_never

from statemachine.vocabulary import (
    Add,
    And,
    Assignment,
    AtMost,
    Clear,
    Column,
    Condition,
    Constant,
    Deadline,
    Equal,
    Greatest,
    Guard,
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


def constant_label(value: Constant) -> str:
    """Return a constant as SQL spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def term_label(term: Term) -> str:
    """Return a term; parameters are marked by a colon."""
    match term:
        case Column(name=name):
            return name
        case Param(name=name):
            return f":{name}"
        case Now():
            return "now"
        case Literal(value=value):
            return constant_label(value)
        case Deadline(duration=duration):
            return f"now + :{duration.name}"
    assert_never(term)


def condition_label(condition: Condition) -> str:
    """Return a condition; `implies` and `iff` are written as they were meant."""
    match condition:
        case Equal(left=left, right=right):
            return f"{term_label(left)} = {term_label(right)}"
        case NotEqual(left=left, right=right):
            return f"{term_label(left)} <> {term_label(right)}"
        case Less(left=left, right=right):
            return f"{term_label(left)} < {term_label(right)}"
        case AtMost(left=left, right=right):
            return f"{term_label(left)} <= {term_label(right)}"
        case IsNull(term=term):
            return f"{term_label(term)} is null"
        case NotNull(term=term):
            return f"{term_label(term)} is not null"
        case OneOf(column=column, values=values):
            return f"{column.name} in ({', '.join(map(constant_label, values))})"
        case Or(conditions=(And(conditions=(a, b)), And(conditions=(Not(c), Not(d))))) if (
            a == c and b == d
        ):
            return f"{_inner(a)} exactly when {_inner(b)}"
        case Or(conditions=(Not(condition=premise), consequence)):
            return f"{_inner(premise)} implies {_inner(consequence)}"
        case And(conditions=conditions):
            return " and ".join(map(_inner, conditions)) or "true"
        case Or(conditions=conditions):
            return " or ".join(map(_inner, conditions)) or "false"
        case Not(condition=inner):
            return f"not ({condition_label(inner)})"
    assert_never(condition)


def _inner(condition: Condition) -> str:
    """Return a condition within another; a compound one in parentheses."""
    label = condition_label(condition)
    match condition:
        case And(conditions=(_, _, *_)) | Or(conditions=(_, _, *_)):
            return f"({label})"
        case _:
            return label


def assignment_label(assignment: Assignment) -> str:
    """Return what is written to which column."""
    column = assignment.column.name
    match assignment:
        case Set(source=source):
            value = term_label(source)
        case SetOr(source=source, otherwise=otherwise):
            value = f"{term_label(source)} or else {term_label(otherwise)}"
        case SetOnce(source=source):
            value = f"{column} or else {term_label(source)}"
        case Put(value=constant):
            value = constant_label(constant)
        case Clear():
            value = "null"
        case Add(amount=amount):
            value = f"{column} + {amount}" if amount >= 0 else f"{column} - {-amount}"
        case Greatest(source=source):
            value = f"greatest({column}, {term_label(source)})"
        case _:
            assert_never(assignment)
    return f"{column} := {value}"


def transition_label(name: str, guards: tuple[Guard, ...]) -> str:
    """Return `name [guards]`; blank names of guards are left out."""
    named = [guard.name for guard in guards if guard.name.strip()]
    return f"{name} [{', '.join(named)}]" if named else name
