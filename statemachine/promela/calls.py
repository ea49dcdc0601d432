"""Creations and transitions as guarded commands of a Promela model."""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING

from attrs import frozen

from statemachine.promela.expressions import Reader
from statemachine.promela.names import column, moved, param, slack, told
from statemachine.promela.rules import SOUND, laws_of, taken
from statemachine.promela.values import constant, given, key_in
from statemachine.solve import variables_of
from statemachine.vocabulary import Add, Column, Param, terms_in, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from statemachine.machine import Creation, Transition
    from statemachine.promela.scope import Scope
    from statemachine.vocabulary import Term

_AT_ONCE = 16

MOVES = "moves"
"""Whether the call on its way happens."""


@frozen
class Choice:
    """A variable of a call, and the values that it may take, each under a condition."""

    name: str
    values: tuple[tuple[str, str], ...]


@frozen(kw_only=True)
class Command:
    """One call on the row `r`.

    Attributes:
        name: The transition or creation.

        ready: When it is tried.

        asked: What is chosen before the guards are asked.

        passes: Whether the guards let it pass.

        chosen: What is chosen then.

        writes: How the moved row is computed.

        admits: Whether the moved row may be.

        ways: When it goes from which state to which.

        laws: Inlines that assert what must be true of the move.
    """

    name: str
    ready: str
    asked: tuple[Choice, ...] = ()
    passes: str = "true"
    chosen: tuple[Choice, ...]
    writes: tuple[str, ...]
    admits: str = "true"
    ways: tuple[tuple[str, str], ...]
    laws: tuple[str, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that it chooses the values of."""
        return tuple(choice.name for choice in (*self.asked, *self.chosen))


def commands(scope: Scope) -> tuple[Command, ...]:
    """Return every call of a machine."""
    machine = scope.machine
    births = tuple(_birth(scope, creation) for creation in machine.creations)
    return births + tuple(_move(scope, transition) for transition in machine.transitions)


def _birth(scope: Scope, creation: Creation) -> Command:
    state, fields = scope.machine.state.name, scope.machine.fields
    row = {name: constant(scope, fields[name].default, Column(name)) for name in scope.columns}
    row[state] = scope.states[creation.dest]
    read = Reader(scope, row.__getitem__)
    row |= {a.column.name: read.assigned(a) for a in scope.written(creation)}
    return Command(
        name=creation.name,
        ready=f"{column(state)}[r] == 0",
        chosen=_choices(scope, creation, list(row.values())),
        writes=tuple(f"{moved(name)} = {value}" for name, value in row.items()),
        admits=SOUND,
        ways=(("true", f"new -> {row[state]}"),),
    )


def _move(scope: Scope, transition: Transition) -> Command:
    state, states = scope.machine.state.name, scope.states
    read = Reader(scope, lambda name: f"{column(name)}[r]")
    conditions = [guard.condition for guard in transition.when]
    alone = [read.true(c) for c in conditions if not _params(terms_in(c))]
    asking = [read.true(c) for c in conditions if _params(terms_in(c))]
    sources = [f"{column(state)}[r] == {states[source]}" for source in transition.source]
    values = {a.column.name: read.assigned(a) for a in scope.written(transition)}
    if transition.dest is not None:
        values[state] = states[transition.dest]
    asked = _choices(scope, transition, asking)
    chosen = _choices(scope, transition, list(values.values()))
    ways = [f"{states[s]} -> {states[transition.reaches(s)]}" for s in transition.source]
    return Command(
        name=transition.name,
        ready=" && ".join(f"({text})" for text in (" || ".join(sources), *alone)),
        asked=asked,
        passes=" && ".join(f"({text})" for text in asking) or "true",
        chosen=tuple(choice for choice in chosen if choice not in asked),
        writes=tuple(f"{moved(name)} = {value}" for name, value in values.items()),
        ways=tuple(zip(sources, ways, strict=True)),
        laws=laws_of(scope, transition),
    )


def _params(terms: Iterable[Term]) -> tuple[Param, ...]:
    return tuple(v for v in variables_of(terms) if isinstance(v, Param))


def _choices(scope: Scope, part: Transition | Creation, texts: list[str]) -> tuple[Choice, ...]:
    """Return the choices that expressions read: parameters, and how far a count had gone on."""
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for one in part.params:
        found[param(one.name)] = tuple(("true", value) for value in given(scope, one))
    for assignment in scope.written(part):
        if assignment.column == scope.machine.key:
            for one in _params(terms_of(assignment)):
                found[param(one.name)] = key_in(scope, one)
        if isinstance(assignment, Add) and scope.falls(assignment.column):
            name = assignment.column.name
            least, greatest = scope.bounds(assignment.column)
            edge, step = (least, -1) if assignment.amount > 0 else (greatest, 1)
            beyond = range(step, step * (abs(assignment.amount) + 1), step)
            stopped = f"{column(name)}[r] == {edge}"
            found[slack(name)] = (("true", "0"), *((stopped, str(n)) for n in beyond))
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    return tuple(Choice(name, values) for name, values in found.items() if name in words)


def written(scope: Scope, command: Command) -> Iterator[str]:
    """Yield a command's lines."""
    yield f"\t\t:: {command.ready} -> /* {command.name} */"
    yield from _choosing(command.asked)
    asks = command.passes != "true"
    if asks:
        yield f"\t\t\tif :: !({command.passes}) -> skip :: else ->"
    yield from _choosing(command.chosen)
    yield "\t\t\td_step {"
    yield from (f"\t\t\t\t{line};" for line in command.writes)
    fis = 0
    for when, told_so in _against(scope, command):
        yield f"\t\t\t\tif :: {when} -> {told_so} :: else ->"
        fis += 1
    several = len(command.ways) > 1
    for when, way in command.ways:
        happens = f'printf("{command.name}: {way}\\n")'
        yield f"\t\t\t\tif :: {when} -> {happens} :: else fi;" if several else f"\t\t\t\t{happens};"
    yield from (f"\t\t\t\t{law};" for law in command.laws)
    yield f"\t\t\t\t{MOVES} = 1"
    yield "\t\t\t\t" + "fi " * fis + "}" + " fi" * asks


def _against(scope: Scope, command: Command) -> Iterator[tuple[str, str]]:
    if command.admits != "true":
        yield f"!{command.admits}", "skip"
    for rule, when in taken(scope):
        yield when, f'printf("{command.name}: taken, {told(rule)}\\n")'


def _choosing(choices: tuple[Choice, ...]) -> Iterator[str]:
    """Choose all at once where that is short: each step of a call is a state to keep."""
    if math.prod(len(choice.values) for choice in choices) > _AT_ONCE:
        for choice in choices:
            yield from _choosing_of((choice,))
    elif choices:
        yield from _choosing_of(choices)


def _choosing_of(choices: tuple[Choice, ...]) -> Iterator[str]:
    ways = []
    for values in itertools.product(*(choice.values for choice in choices)):
        when = " && ".join(text for text, _ in values if text != "true") or "true"
        given_so = [f"{c.name} = {v}" for c, (_, v) in zip(choices, values, strict=True)]
        ways.append(f"d_step {{ {when} -> {'; '.join(given_so)} }}")
    yield f"\t\t\tif :: {' :: '.join(ways)} fi;"
