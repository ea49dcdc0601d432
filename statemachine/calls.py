"""The calls that the exploration tries on a row."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from statemachine.apart import comparisons
from statemachine.examples import examples
from statemachine.fitting import is_constant_of
from statemachine.kinds import Boolean, Choice, Duration, Instant, Integer, Kind, Plain, Row
from statemachine.lens import TICK_MS, Lens, View, highest
from statemachine.machine import Transition
from statemachine.solve import variables_of
from statemachine.vocabulary import Assignment, Column, Condition, Param, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from statemachine.machine import Creation, Machine

RUNNERS = (("a", "a" * 64), ("b", "b" * 64))
"""Two runners: name and SHA-256 of the token that each presents."""

LEASE_TICKS = 2
"""How long a duration is, in ticks."""


@frozen
class Given:
    """A parameter with one value, whatever the row."""

    value: Plain


@frozen
class Same:
    """A parameter that equals the row's column."""

    column: str


@frozen
class Beside:
    """A parameter that differs from the row's column."""

    column: str
    kind: Kind


@frozen
class After:
    """An instant so many milliseconds from now."""

    offset_ms: int


Choosing: TypeAlias = Given | Same | Beside | After


@frozen
class Call:
    """One call, with parameters that may depend on the row it meets.

    Attributes:
        name: The transition or creation.

        choices: Each parameter with how it is chosen.

        label: The call as a story tells it, such as `claim(a)`.
    """

    name: str
    choices: tuple[tuple[str, Choosing], ...]
    label: str

    def params(self, row: Row, now: int) -> dict[str, Plain]:
        """Return the plain parameters for a row at an instant."""
        return {name: _chosen(choice, row, now) for name, choice in self.choices}


def _chosen(choice: Choosing, row: Row, now: int) -> Plain:
    match choice:
        case Given(value=value):
            return value
        case Same(column=column):
            return row[column]
        case Beside(column=column, kind=kind):
            return _beside(row[column], kind)
        case After(offset_ms=offset_ms):
            return now + offset_ms


def _beside(value: Plain, kind: Kind) -> Plain:
    if isinstance(kind, Integer):
        number = int(value or 0)
        return number - 1 if number > kind.minimum else number + 1
    return next(other for other in examples(kind) if other != value)


class Caller:
    """Lists the calls of a machine's transitions and creations.

    Args:
        machine: The declaration.

        lens: Tells which parameters matter.
    """

    def __init__(self, machine: Machine, lens: Lens) -> None:
        self._machine = machine
        self._lens = lens

    def calls(self, part: Transition | Creation, guards: Iterable[Condition]) -> tuple[Call, ...]:
        """Return the calls of a transition or creation that can make a difference."""
        runner = self._runner(part.assign, guards)
        others = [param for param in part.params if param.name not in runner]
        options = [self._options(param, part, guards) for param in others]
        found: list[Call] = []
        for name, token in RUNNERS if runner else (("", ""),):
            acts = tuple((p, Given(token if runner[p] else name)) for p in runner)
            for chosen in itertools.product(*options):
                pairs = tuple(zip((p.name for p in others), chosen, strict=True))
                varied = [
                    pair for pair, several in zip(pairs, options, strict=True) if len(several) > 1
                ]
                found.append(Call(part.name, (*acts, *pairs), _label(part.name, name, varied)))
        return tuple(found)

    def _runner(
        self, assign: tuple[Assignment, ...], guards: Iterable[Condition]
    ) -> dict[str, bool]:
        """Return the parameters that say who a runner is, each with whether it is the token."""
        lease = self._machine.lease
        if lease is None:
            return {}
        pairs = [(a.column, t) for a in assign for t in terms_of(a)]
        for terms, _ in comparisons(guards, ()):
            pairs += [(c, t) for c in terms if isinstance(c, Column) for t in terms]
        found: dict[str, bool] = {}
        for column, term in pairs:
            if isinstance(term, Param) and column in (lease.holder, lease.token_hash):
                found[term.name] = column == lease.token_hash
        return found

    def _options(
        self, param: Param, part: Transition | Creation, guards: Iterable[Condition]
    ) -> tuple[Choosing, ...]:
        """Return the values to try for a parameter.

        A creation gives a text or JSON one value only, none of the constants that rules name: with
        one of each for every column, the space would be many times as large.
        """
        compared = [
            term
            for terms, _ in comparisons(guards, ())
            if param in variables_of(terms)
            for term in terms
            if isinstance(term, Column)
        ]
        for column in compared:
            if self._lens.is_relative(column):
                kind = self._machine.fields[column.name].kind
                return (Same(column.name), Beside(column.name, kind))
        written = [a.column.name for a in part.assign if param in variables_of(terms_of(a))]
        views = {self._lens.views.get(name) for name in written}
        if compared:
            views.add(View.VALUE)
        nothing: tuple[Choosing, ...] = (Given(None),) if param.optional else ()
        matters = bool(views - {None, View.NULLNESS, View.CONSTANTS})
        values = _values(param.kind, matters=matters)
        constants: list[Plain] = []
        if isinstance(part, Transition):
            constants += [c for name in written for c in self._lens.constants.get(name, ())]
        values += tuple(Given(c) for c in dict.fromkeys(constants) if is_constant_of(param.kind, c))
        if views <= {None}:
            return nothing or values
        return nothing + values


def _values(kind: Kind, *, matters: bool) -> tuple[Choosing, ...]:
    match kind:
        case Instant():
            return (After(0), After(TICK_MS)) if matters else (After(0),)
        case Duration():
            return (Given(LEASE_TICKS * TICK_MS),)
        case Integer():
            return (Given(highest(kind)),)
        case Boolean() | Choice():
            return tuple(Given(value) for value in examples(kind)[: None if matters else 1])
        case _:
            return tuple(Given(value) for value in examples(kind)[: 2 if matters else 1])


def _label(name: str, runner: str, varied: list[tuple[str, Choosing]]) -> str:
    words = [runner] if runner else []
    for param, choice in varied:
        match choice:
            case Given(value=value) if value is not None:
                words.append(f"{param}={value}")
            case Beside():
                words.append(f"wrong {param}")
            case After(offset_ms=offset_ms):
                words.append(f"{param}={'later' if offset_ms else 'now'}")
            case Given() | Same():
                pass
    return f"{name}({', '.join(words)})" if words else name
