"""The values of constants and of calls, as a Promela model writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from statemachine.errors import MachineError
from statemachine.fitting import is_constant_of
from statemachine.kinds import Boolean, Choice, Duration, Instant, Integer, Json, Prose, Text, Token
from statemachine.promela.names import NIL
from statemachine.promela.scope import Scope, Sort

if TYPE_CHECKING:
    from statemachine.kinds import Plain
    from statemachine.solve import Variable
    from statemachine.vocabulary import Param

DURATION_TICKS = (1, 2)
"""How long the durations of calls are, in ticks."""

INSTANT_TICKS = (0, 1)
"""How far from now the instants of calls are, in ticks."""


def constant(scope: Scope, value: Plain, variable: Variable) -> str:
    """Return a constant as a column or parameter holds it.

    Raises:
        MachineError: An instant: the clock of a model knows none but now.
    """
    if value is None:
        return NIL
    if scope.flag(variable):
        return "1"
    match scope.sort(variable):
        case Sort.STATE:
            return scope.states[str(value)]
        case Sort.TEXT:
            return scope.symbols[str(value)]
        case Sort.BOOLEAN:
            return str(int(bool(value)))
        case Sort.INTEGER:
            least, greatest = scope.bounds(variable)
            return str(max(least, min(int(value), greatest)))
        case Sort.INSTANT | Sort.TICKS:
            problem = f"the constant {value!r} has no place on an abstract clock"
            raise MachineError(scope.machine.name, f"{variable.name!r}", problem)


def given(scope: Scope, param: Param) -> tuple[str, ...]:
    """Return the values of a parameter that are tried in every call."""
    return (*(NIL,) * param.optional, *_given(scope, param))


def _given(scope: Scope, param: Param) -> tuple[str, ...]:
    if scope.flag(param) and not isinstance(param.kind, Duration):
        return ("1",)
    match param.kind:
        case Boolean():
            return ("0", "1")
        case Choice():
            return tuple(constant(scope, text, param) for text in param.kind.texts)
        case Integer():
            return _integers(scope, param, param.kind)
        case Instant():
            return tuple(str(ticks) for ticks in INSTANT_TICKS)
        case Duration():
            return tuple(str(ticks) for ticks in DURATION_TICKS)
        case Text() | Prose() | Json() | Token():
            return _texts(scope, param)
    assert_never(param.kind)


def _integers(scope: Scope, param: Param, kind: Integer) -> tuple[str, ...]:
    """Return what stands beside each constant, and what stands for all that is greater."""
    group = scope.group(param)
    anchors = [int(c) for c in group.constants]
    wanted = {kind.minimum, kind.minimum + 1, *(a + n for a in anchors for n in (-1, 0, 1))}
    if param in scope.compared:
        wanted.add(scope.bounds(param)[1])
    return tuple(str(n) for n in sorted(wanted) if kind.minimum <= n <= kind.maximum)


def _texts(scope: Scope, param: Param) -> tuple[str, ...]:
    group = scope.group(param)
    named = [c for c in group.constants if is_constant_of(param.kind, c)]
    symbols = [constant(scope, c, param) for c in named]
    if group.ordered:
        symbols += [f"({symbol} + 1)" for symbol in symbols]
    others = scope.others if group.against or group.ordered else scope.others[:1]
    return (*symbols, *others)


def key_in(scope: Scope, param: Param) -> tuple[tuple[str, str], ...]:
    """Return the value that gives each row its own key, under which row it is."""
    values = given(scope, param)
    if scope.sort(param) is Sort.TEXT:
        values = scope.others
    if isinstance(param.kind, Integer):
        values = tuple(str(param.kind.minimum + row) for row in range(scope.rows))
    return tuple((f"r == {row}", values[row]) for row in range(scope.rows))
