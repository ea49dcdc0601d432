"""The calls that actors make of a machine: on any row, by what they know or once knew of it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

from attrs import evolve, field, frozen
from hypothesis import strategies as st

from statemachine.apart import comparisons
from statemachine.errors import InvalidArgument
from statemachine.kinds import Row, Token, admit, present
from statemachine.testing.arguments import argument, usual
from statemachine.testing.story import written
from statemachine.vocabulary import Column, Condition, Param

if TYPE_CHECKING:
    from collections.abc import Iterable

    from statemachine.outcome import Actor
    from statemachine.testing.model import Model

_REMEMBERED = 6
"""How far back an actor may remember a row, in steps."""

_MOST = 4
"""How many calls there are at most in a batch."""

NOWHERE = "nowhere"


@frozen(repr=False)
class Asked:
    """One call, as an actor makes it.

    Attributes:
        kind: What it makes: a creation, a transition, or the transition of a selection.

        actor: Who.

        name: Name of the creation, transition or selection.

        values: Python values, by parameter.

        key: The row; None where the call does not say.

        call: The call's id; None: the store mints one.

        exclude: For a selection: the keys that it passes over.

        told: The parameters that matter to a story.
    """

    kind: Literal["create", "apply", "next"]
    actor: Actor
    name: str
    values: dict[str, object]
    key: str | None = None
    call: str | None = None
    exclude: tuple[str, ...] = ()
    told: tuple[str, ...] = field(default=(), eq=False)

    def __str__(self) -> str:
        return f"{self.actor.name}: {self.name}{self.about()}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def about(self) -> str:
        """Return the row and what was given, as a story tells them."""
        told = [f"{name}={written(self.values[name])}" for name in self.told]
        told += [f"call={self.call!r}"] if self.call is not None else []
        told += [f"exclude={', '.join(self.exclude)}"] if self.exclude else []
        key = "" if self.key is None else f" {written(self.key)}"
        return key + (f" ({', '.join(told)})" if told else "")


@frozen(repr=False)
class Together:
    """Calls of one transition by one actor, on different rows.

    Attributes:
        name: Name of the transition.

        calls: In the order given.
    """

    name: str
    calls: tuple[Asked, ...]

    def __repr__(self) -> str:
        return f"<{'; '.join(map(str, self.calls)) or self.name}>"


@frozen
class Asking:
    """Draws the calls that can be made of a model's rows.

    Attributes:
        model: The rows, and what they ever were.

        actors: Who calls.
    """

    model: Model
    actors: tuple[Actor, ...]
    _tokens: dict[str, bytes] = field(factory=dict, init=False)
    _calls: list[None] = field(factory=list, init=False)

    def creation(self, draw: st.DrawFn, name: str) -> Asked:
        """Draw a creation."""
        params = self.model.machine.creation(name).params
        return self._asked(draw, name, params, {}, None, kind="create")

    def transition(self, draw: st.DrawFn, name: str) -> Asked:
        """Draw a transition on one of the rows, or on one that is not there."""
        return self._on(draw, name, draw(st.sampled_from(self._keys(name))))

    def together(self, draw: st.DrawFn) -> Together:
        """Draw one transition on several rows, by one actor."""
        name = draw(st.sampled_from([t.name for t in self.model.machine.transitions]))
        keys = dict.fromkeys(self._keys(name))
        chosen = draw(st.lists(st.sampled_from(list(keys)), max_size=_MOST, unique=True))
        actor = draw(st.sampled_from(self.actors))
        calls = tuple(evolve(self._on(draw, name, key), actor=actor) for key in chosen)
        return Together(name, calls)

    def selection(self, draw: st.DrawFn, name: str) -> Asked:
        """Draw the taking of a next row."""
        machine, rows = self.model.machine, self.model.rows
        selection = machine.selection(name)
        tied = _tied([c for arm in selection.arms for c in (*arm.by, *arm.when)])
        row = draw(st.sampled_from(list(rows.values()))) if rows else None
        passed = st.lists(st.sampled_from(list(rows) or [NOWHERE]), max_size=2, unique=True)
        exclude = draw(st.one_of(st.just([]), st.just([]), passed))
        params = machine.selection_params(name)
        return self._asked(draw, name, params, tied, row, kind="next", exclude=tuple(exclude))

    def _keys(self, name: str) -> list[str]:
        """Return the keys to choose among; those in a state that the transition leaves abound."""
        machine, rows = self.model.machine, self.model.rows
        sources = machine.transition(name).source
        fit = [key for key, row in rows.items() if row[machine.state.name] in sources]
        kind = machine.fields[machine.key.name].kind
        free = [str(key) for key in (*usual(kind), NOWHERE) if key not in rows]
        return [*fit, *rows, *fit, *fit, *free[:1]]

    def _on(self, draw: st.DrawFn, name: str, key: str) -> Asked:
        transition = self.model.machine.transition(name)
        seen = self.model.seen.get(key, [])[: -_REMEMBERED - 1 : -1]
        row = None
        if seen:
            row = draw(st.sampled_from([seen[0], seen[0], *seen]))
        tied = _tied([guard.condition for guard in transition.when])
        return self._asked(draw, name, transition.params, tied, row, kind="apply", key=key)

    def _asked(
        self,
        draw: st.DrawFn,
        name: str,
        params: Iterable[Param],
        tied: dict[str, str],
        row: Row | None,
        **about: Any,
    ) -> Asked:
        actor = draw(st.sampled_from(self.actors))
        values: dict[str, object] = {}
        told: list[str] = []
        for param in params:
            known = None if row is None else self._known(param, row.get(tied.get(param.name, "")))
            drawn = argument(param)
            if known is not None:
                # Who knows the row mostly says what is so.
                drawn = st.one_of(st.just(known), st.just(known), st.just(known), drawn)
            value = values[param.name] = draw(drawn)
            if isinstance(value, bytes):
                self._tokens[str(admit(param.kind, value, param.name))] = value
            if param.name in tied or value != plainest(param):
                told.append(param.name)
        call = None
        if draw(st.booleans()):
            self._calls.append(None)
            call = f"call {len(self._calls)}"
        return Asked(actor=actor, name=name, values=values, call=call, told=tuple(told), **about)

    def _known(self, param: Param, plain: object) -> object:
        """Return a column's value as an argument, where it can be one."""
        if plain is None:
            return None
        if isinstance(param.kind, Token):
            return self._tokens.get(str(plain))
        try:
            value: object = present(param.kind, plain)  # type: ignore[arg-type]  # of a plain row
            admit(param.kind, value, param.name)
        except (InvalidArgument, KeyError):
            return None
        return value


def plainest(param: Param) -> object:
    """Return the argument that a story does not mention."""
    return None if param.optional else next(iter(usual(param.kind)), None)


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
