"""The calls that actors make of a machine: on any row, by what they know or once knew of it."""

from __future__ import annotations

import functools
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen
from hypothesis import strategies as st

from statemachine.apart import comparisons
from statemachine.births import births
from statemachine.errors import InvalidArgument
from statemachine.examples import PERIOD_MS
from statemachine.kinds import MILLISECOND, Instant, Plain, Row, Token, admit, present
from statemachine.outcome import Actor
from statemachine.path import broken
from statemachine.simulate import create
from statemachine.testing.arguments import few, odd, usual
from statemachine.testing.asked import Asked, Together
from statemachine.vocabulary import Column, Condition, Param, terms_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from statemachine.machine import Machine
    from statemachine.testing.faces import StoppedClock
    from statemachine.testing.model import Model

ACTORS = tuple(Actor("person", name) for name in ("ada", "bob", "cleo"))
"""Who calls."""

_REMEMBERED = 6
"""How far back an actor may remember a row, in steps."""

_MOST = 4
"""How many calls there are at most in a batch."""

_FAR = 10
"""How long an actor may wait, in leases."""

NOWHERE = "nowhere"


@frozen
class Asking:
    """Draws the calls that can be made of a model's rows.

    Attributes:
        model: The rows, and what they ever were.

        actors: Who calls.

        clock: The time.
    """

    model: Model
    clock: StoppedClock
    actors: tuple[Actor, ...]
    _tokens: dict[str, bytes] = field(factory=dict, init=False)
    _calls: list[None] = field(factory=list, init=False)

    def creation(self, draw: st.DrawFn, name: str) -> Asked:
        """Draw a creation; mostly one that the invariants admit, with few things out of the way."""
        params = self.model.machine.creation(name).params
        usual_ones = _sound(self.model.machine, name)
        given = draw(st.sampled_from(usual_ones)) if usual_ones else {}
        hidden = usual_ones[0] if usual_ones else {}
        return self._asked(draw, name, params, given, hidden=hidden, kind="create")

    def transition(self, draw: st.DrawFn, name: str) -> Asked:
        """Draw a transition on a row that is in one of its states; there must be one."""
        asked = self._on(draw, name, draw(st.sampled_from(self._fit(name))))
        return evolve(asked, after=draw(st.sampled_from(self._waits(asked.key))))

    def out_of_turn(self, draw: st.DrawFn) -> Asked:
        """Draw any transition on any row, and on one that is not there."""
        name = draw(st.sampled_from([t.name for t in self.model.machine.transitions]))
        return self._on(draw, name, draw(st.sampled_from(self._any())))

    def together(self, draw: st.DrawFn) -> Together:
        """Draw one transition on several rows, by one actor."""
        name = draw(st.sampled_from([t.name for t in self.model.machine.transitions]))
        chosen = draw(st.lists(st.sampled_from(self._any()), max_size=_MOST, unique=True))
        actor = draw(st.sampled_from(self.actors))
        calls = tuple(evolve(self._on(draw, name, key), actor=actor) for key in chosen)
        return Together(name, calls)

    def selection(self, draw: st.DrawFn) -> Asked:
        """Draw the taking of a next row."""
        machine, rows = self.model.machine, self.model.rows
        selection = draw(st.sampled_from(machine.selections))
        name = selection.name
        tied = _tied([c for arm in selection.arms for c in (*arm.by, *arm.when)])
        row = draw(st.sampled_from(list(rows.values()))) if rows else None
        passed = st.lists(st.sampled_from(list(rows) or [NOWHERE]), max_size=2, unique=True)
        params = machine.selection_params(name)
        after = draw(st.sampled_from(self._waits(None)))
        known = self._known(draw, params, tied, row)
        passed_over = tuple(draw(passed)) if draw(st.booleans()) else ()
        return self._asked(draw, name, params, known, kind="next", exclude=passed_over, after=after)

    def _fit(self, name: str) -> list[str]:
        machine, rows = self.model.machine, self.model.rows
        sources = machine.transition(name).source
        return [key for key, row in rows.items() if row[machine.state.name] in sources]

    def _any(self) -> list[str]:
        """Return every key, and one that no row has."""
        machine, rows = self.model.machine, self.model.rows
        keys = usual(machine.fields[machine.key.name].kind)
        free = [str(key) for key in (*keys, NOWHERE) if key not in rows]
        return [*rows, *free[:1]]

    def _on(self, draw: st.DrawFn, name: str, key: str) -> Asked:
        transition = self.model.machine.transition(name)
        seen = self.model.seen.get(key, [])[: -_REMEMBERED - 1 : -1]
        row = None
        if seen:
            row = draw(st.sampled_from([seen[0], seen[0], *seen]))
        tied = _tied([guard.condition for guard in transition.when])
        known = self._known(draw, transition.params, tied, row)
        return self._asked(draw, name, transition.params, known, kind="apply", key=key)

    def _known(
        self, draw: st.DrawFn, params: tuple[Param, ...], tied: dict[str, str], row: Row | None
    ) -> dict[str, object]:
        """Return what an actor says who knows a row, and who is mostly right about it."""
        if row is None or not tied:
            return {}
        wrong = draw(st.sampled_from([*[None] * 3 * len(tied), *tied]))
        said = {
            param.name: self._argument(param, row[tied[param.name]])
            for param in params
            if param.name in tied and param.name != wrong
        }
        return {name: value for name, value in said.items() if value is not None}

    def _argument(self, param: Param, plain: Plain) -> object:
        """Return a column's value as an argument, where it can be one; else None."""
        if plain is None:
            return None
        if isinstance(param.kind, Token):
            return self._tokens.get(str(plain))
        try:
            value: object = present(param.kind, plain)
            admit(param.kind, value, param.name)
        except (InvalidArgument, KeyError):
            return None
        return value

    def _asked(
        self,
        draw: st.DrawFn,
        name: str,
        params: tuple[Param, ...],
        given: Mapping[str, object],
        *,
        hidden: Mapping[str, object] = MappingProxyType({}),
        **about: Any,
    ) -> Asked:
        names = [param.name for param in params]
        strange = draw(st.sampled_from([None, *[None] * 2 * len(names), *names]))
        values: dict[str, object] = {}
        for param in params:
            if param.name == strange:
                value = draw(odd(param.kind))
            elif param.name in given:
                value = given[param.name]
            else:
                value = draw(_optional(param))
            values[param.name] = value
            if isinstance(value, bytes):
                self._tokens[str(admit(param.kind, value, param.name))] = value
        call = None
        if draw(st.booleans()):
            self._calls.append(None)
            call = f"call {len(self._calls)}"
        actor = draw(st.sampled_from(self.actors))
        told = tuple(n for n, v in values.items() if v is not None and (n, v) not in hidden.items())
        return Asked(actor=actor, name=name, values=values, call=call, told=told, **about)

    def _waits(self, key: str | None) -> list[timedelta]:
        """Return how long to wait: mostly not, else a while, or until what a row says is due."""
        machine, rows = self.model.machine, self.model.rows
        seen = list(rows.values()) if key is None else [rows[key]] if key in rows else []
        instants = [name for name, f in machine.fields.items() if isinstance(f.kind, Instant)]
        due = [int(row[name] or 0) - self.clock.ms for row in seen for name in instants]
        near = [ms + beside for ms in due for beside in (0, -1, 1) if 1 < ms <= _FAR * PERIOD_MS]
        waits = [*near, PERIOD_MS, 1, _FAR * PERIOD_MS]
        waits = [0] * 2 * len(waits) + waits
        return [ms * MILLISECOND for ms in waits]


@functools.cache
def _optional(param: Param) -> st.SearchStrategy[object]:
    return st.none() | few(param.kind) if param.optional else few(param.kind)


@functools.cache
def _sound(machine: Machine, name: str) -> tuple[dict[str, object], ...]:
    """Return arguments of a creation that the invariants admit, the barest first.

    They lack what gives the key, and tokens: those are drawn.
    """
    creation = machine.creation(name)
    kinds = {param.name: param.kind for param in creation.params}
    drawn = [
        term.name
        for assignment in creation.assign
        for term in terms_of(assignment)
        if isinstance(term, Param)
        if assignment.column == machine.key or isinstance(term.kind, Token)
    ]
    return tuple(
        {
            param: None if plain is None else present(kinds[param], plain)
            for param, plain in birth.params.items()
            if param not in drawn
        }
        for birth in births(machine)
        if birth.creation == name
        if not broken(machine, create(machine, name, birth.params, birth.now).row)
    )


@functools.cache
def _ties(conditions: tuple[Condition, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for terms, _ in comparisons(conditions, ()):
        columns = [term.name for term in terms if isinstance(term, Column)]
        params = [term.name for term in terms if isinstance(term, Param)]
        found |= {param: column for param in params for column in columns}
    return found


def _tied(conditions: list[Condition]) -> dict[str, str]:
    """Return the parameters that are compared with a column, each with the column's name."""
    return _ties(tuple(conditions))
