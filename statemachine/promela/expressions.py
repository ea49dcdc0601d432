"""Conditions, terms and assignments as expressions of Promela."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from attrs import frozen

from statemachine.errors import MachineError
from statemachine.promela.names import NIL, param, slack
from statemachine.promela.values import constant
from statemachine.solve import variables_of
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
    from collections.abc import Callable

    from statemachine.promela.scope import Scope
    from statemachine.vocabulary import Constant

_NEGATED = {"==": "!=", "!=": "==", "<": ">=", "<=": ">"}


@frozen
class Reader:
    """Reads conditions and terms on one row.

    SQL's logic has three values and Promela's two, so each condition is read twice: when it is
    true, and when it is false; in between it is unknown.

    Attributes:
        scope: Which columns are kept.

        place: How a column of the row is written.
    """

    scope: Scope
    place: Callable[[str], str]

    def term(self, term: Term, beside: tuple[Term, ...] = ()) -> str:
        """Return a term; a constant is written as what stands beside it holds it."""
        match term:
            case Column(name=name):
                return self.place(name)
            case Param(name=name):
                return param(name)
            case Now():
                return "0"
            case Deadline(duration=duration):
                return param(duration.name)
            case Literal(value=value):
                return self._literal(value, beside)
        assert_never(term)

    def true(self, condition: Condition) -> str:
        """Return when a condition is true; of a column that is not kept: when it may be."""
        match condition:
            case Equal():
                return self._compared(condition, "==")
            case NotEqual():
                return self._compared(condition, "!=")
            case Less():
                return self._compared(condition, "<")
            case AtMost():
                return self._compared(condition, "<=")
            case IsNull(term=term):
                return self._null(term, "==")
            case NotNull(term=term):
                return self._null(term, "!=")
            case OneOf():
                return self._member(condition, "==")
            case And(conditions=conditions):
                return _joined([self.true(inner) for inner in conditions], "&&", "true")
            case Or(conditions=conditions):
                return _joined([self.true(inner) for inner in conditions], "||", "false")
            case Not(condition=inner):
                return self.false(inner)
        assert_never(condition)

    def false(self, condition: Condition) -> str:
        """Return when a condition is false; of a column that is not kept: when it may be."""
        match condition:
            case Equal():
                return self._compared(condition, _NEGATED["=="])
            case NotEqual():
                return self._compared(condition, _NEGATED["!="])
            case Less():
                return self._compared(condition, _NEGATED["<"])
            case AtMost():
                return self._compared(condition, _NEGATED["<="])
            case IsNull(term=term):
                return self._null(term, "!=")
            case NotNull(term=term):
                return self._null(term, "==")
            case OneOf():
                return self._member(condition, "!=")
            case And(conditions=conditions):
                return _joined([self.false(inner) for inner in conditions], "||", "false")
            case Or(conditions=conditions):
                return _joined([self.false(inner) for inner in conditions], "&&", "true")
            case Not(condition=inner):
                return self.true(inner)
        assert_never(condition)

    def may_be_null(self, term: Term) -> bool:
        """Tell whether a term may be NULL."""
        match term:
            case Column() | Param():
                return self.scope.nullable(term)
            case Deadline(duration=duration):
                return duration.optional
            case Now() | Literal():
                return False
        assert_never(term)

    def _literal(self, value: Constant, beside: tuple[Term, ...]) -> str:
        others = variables_of(beside)
        if not others:
            problem = f"{value!r} is compared with now, and an abstract clock knows nothing else"
            raise MachineError(self.scope.machine.name, "a condition", problem)
        return constant(self.scope, value, others[0])

    def _compared(self, condition: Equal | NotEqual | Less | AtMost, sign: str) -> str:
        left, right = condition.left, condition.right
        if not self.scope.sees(condition):
            return "true"
        parts = [self._null(term, "!=") for term in (left, right) if self.may_be_null(term)]
        compared = f"{self.term(left, (right,))} {sign} {self.term(right, (left,))}"
        return _joined([*parts, compared], "&&", "true")

    def _null(self, term: Term, sign: str) -> str:
        if isinstance(term, Column) and term.name not in self.scope.columns:
            return "true"
        if not self.may_be_null(term):
            return "false" if sign == "==" else "true"
        return f"{self.term(term)} {sign} {NIL}"

    def _member(self, condition: OneOf, sign: str) -> str:
        if not self.scope.sees(condition):
            return "true"
        column = condition.column
        parts = [
            f"{self.term(column)} {sign} {constant(self.scope, value, column)}"
            for value in condition.values
        ]
        if sign == "==":
            return _joined(parts, "||", "false")
        known = [self._null(column, "!=")] if self.may_be_null(column) else []
        return _joined([*known, *parts], "&&", "true")

    def assigned(self, assignment: Assignment) -> str:
        """Return what an assignment writes, from the row as it was."""
        column = assignment.column
        old = self.term(column)
        match assignment:
            case Set(source=source):
                return self._kept(column, source)
            case SetOr(source=source, otherwise=otherwise):
                return _or(self._kept(column, source), self._kept(column, otherwise))
            case SetOnce(source=source):
                return _or(old, self._kept(column, source))
            case Put(value=value):
                return constant(self.scope, value, column)
            case Clear():
                return NIL
            case Add(amount=amount):
                return self._sum(column, amount)
            case Greatest(source=source):
                new = self._kept(column, source)
                if self.scope.flag(column):
                    return _or(old, new)
                greater = f"({old} > {new} -> {old} : {new})"
                return f"({old} == {NIL} -> {new} : ({new} == {NIL} -> {old} : {greater}))"
        assert_never(assignment)

    def _kept(self, column: Column, source: Term) -> str:
        """Return a term as the column keeps it: whole, or only that it is not NULL."""
        text = self.term(source, (column,))
        if not self.scope.flag(column):
            return text
        return f"({text} == {NIL} -> {NIL} : 1)" if self.may_be_null(source) else "1"

    def _sum(self, column: Column, amount: int) -> str:
        """Return a count, which stops where the rules tell nothing apart any more."""
        if self.scope.flag(column):
            return self.term(column)
        least, greatest = self.scope.bounds(column)
        old = self.term(column)
        new = f"{old} + {slack(column.name)}" if self.scope.falls(column) else old
        stop = f"({new} + {amount} > {greatest} -> {greatest} : {new} + {amount})"
        if amount < 0:
            stop = f"({new} - {-amount} < {least} -> {least} : {new} - {-amount})"
        return f"({old} == {NIL} -> {NIL} : {stop})" if self.may_be_null(column) else stop


def _or(text: str, otherwise: str) -> str:
    if text == otherwise or text.isdigit():
        return text
    return f"({text} != {NIL} -> {text} : {otherwise})"


def _joined(parts: list[str], sign: str, nothing: str) -> str:
    """Join conditions, without those that are constant."""
    deciding = "false" if sign == "&&" else "true"
    if deciding in parts:
        return deciding
    left = [part for part in parts if part != nothing]
    if not left:
        return nothing
    return left[0] if len(left) == 1 else "(" + f" {sign} ".join(left) + ")"
