"""Two rows side by side, for the rules that speak of more than one row."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from statemachine.apart import told_apart
from statemachine.examples import NOW_MS, examples
from statemachine.interpret import holds
from statemachine.kinds import Plain, Row
from statemachine.outcome import Moved
from statemachine.path import broken
from statemachine.simulate import create, decide
from statemachine.solve import Solver, Variable, variables_of
from statemachine.valuations import Completion
from statemachine.vocabulary import Column, Param, terms_in, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statemachine.machine import Creation, Machine, Transition, Uniqueness

Part: TypeAlias = tuple[Plain, ...]
Pair: TypeAlias = tuple[Part | None, Part | None]


@frozen
class Population:
    """What exploring two rows says of a uniqueness rule.

    Attributes:
        rule: Its name.

        pairs: How many different pairs of rows were reached.

        entered_by: The transitions and creations that bring a row into the rule's set or change its
            place there; a statement of these must expect a refusal.

        refused: How many of their moves were refused, as the other row held the place.

        clash: How two rows came to hold one place, as a story; None: never.
    """

    rule: str
    pairs: int
    entered_by: tuple[str, ...]
    refused: int
    clash: str | None


def populate(machine: Machine, rule: Uniqueness) -> Population:
    """Explore two rows, as far as a rule sees them, while entering a held place is refused.

    What the rule does not see is taken as it need be: a move counts as possible when some row that
    looks so, and satisfies the invariants, can make it. So no reachable pair is missed.
    """
    return _Pairs(machine, rule).explored()


class _Pairs:
    def __init__(self, machine: Machine, rule: Uniqueness) -> None:
        self._machine = machine
        self._rule = rule
        self._free = Completion(machine).free
        seen = [machine.key, machine.state, *rule.columns]
        seen += [t for t in terms_in(rule.where) if isinstance(t, Column)]
        self._columns = tuple(dict.fromkeys(seen))
        self._rules = [invariant.condition for invariant in machine.invariants]
        ruled = (t for c in self._rules for t in terms_in(c) if isinstance(t, Column))
        self._ruled = tuple(dict.fromkeys(c for c in ruled if c not in self._columns))
        self._keys = examples(machine.fields[machine.key.name].kind)[:2]
        self._prepared = {t.name: self._prepare(t) for t in machine.transitions}
        self._born = [
            [birth for c in machine.creations for birth in self._births(c, key)]
            for key in self._keys
        ]
        self._moves: dict[Part, tuple[tuple[str, Part], ...]] = {}
        self._places: dict[Part, Part | None] = {}

    def explored(self) -> Population:
        start: Pair = (None, None)
        stories: dict[Pair, str] = {start: ""}
        entered: list[str] = []
        refused, clash = 0, None
        queue = [start]
        for pair in queue:
            for index, (name, part) in self._successors(pair):
                place, other = self._place(part), self._place(pair[1 - index])
                enters = place is not None and place != self._place(pair[index])
                if enters:
                    entered.append(name)
                    if place == other:
                        refused += 1
                        continue
                after: Pair = (part, pair[1]) if index == 0 else (pair[0], part)
                if after in stories:
                    continue
                stories[after] = f"{stories[pair]} {self._keys[index]}—{name}→".strip()
                queue.append(after)
                if place is not None and place == other and clash is None:
                    clash = stories[after]
        order = [creation.name for creation in self._machine.creations]
        order += [transition.name for transition in self._machine.transitions]
        names = tuple(name for name in order if name in entered)
        return Population(self._rule.name, len(queue), names, refused, clash)

    def _successors(self, pair: Pair) -> Iterator[tuple[int, tuple[str, Part]]]:
        for index, part in enumerate(pair):
            if part is None:
                yield from ((index, move) for move in self._born[index])
            else:
                if part not in self._moves:
                    self._moves[part] = tuple(self._steps(part))
                yield from ((index, move) for move in self._moves[part])

    def _births(self, creation: Creation, key: Plain) -> Iterator[tuple[str, Part]]:
        for seen in self._choices(creation, self._columns):
            # What the rule does not see is taken as the invariants admit it.
            for unseen in self._choices(creation, self._ruled):
                params = self._named(creation, unseen | seen, key)
                row = create(self._machine, creation.name, params, NOW_MS).row
                if not broken(self._machine, row):
                    yield creation.name, self._part(row)
                    break

    def _named(self, creation: Creation, params: dict[str, Plain], key: Plain) -> dict[str, Plain]:
        """Return all parameters of a creation, among them those that give the key."""
        given: dict[str, Plain] = {
            p.name: None if p.optional else examples(p.kind)[0] for p in creation.params
        }
        for assignment in creation.assign:
            if assignment.column == self._machine.key:
                params |= {term.name: key for term in variables_of(terms_of(assignment))}
        return given | params

    def _steps(self, part: Part) -> Iterator[tuple[str, Part]]:
        known = dict(zip((column.name for column in self._columns), part, strict=True))
        state = known[self._machine.state.name]
        for transition in self._machine.transitions:
            if state not in transition.source:
                continue
            found = {
                self._part(moved.row): None
                for params in self._choices(transition, self._columns)
                if isinstance(moved := self._tried(transition, known, params), Moved)
            }
            yield from ((transition.name, after) for after in found)

    def _prepare(self, transition: Transition) -> tuple[Solver, dict[Variable, tuple[Plain, ...]]]:
        """Return what searches a row that a transition takes, and what its columns may hold."""
        guards = [guard.condition for guard in transition.when]
        domains = dict(self._free)
        for variable, values in told_apart(guards, (), self._machine.fields, thorough=True).items():
            domains[variable] = tuple(dict.fromkeys((*domains.get(variable, ()), *values)))
        return Solver([*guards, *self._rules], NOW_MS), domains

    def _tried(self, transition: Transition, known: Row, params: dict[str, Plain]) -> object:
        """Decide the transition on a row that looks as known and lets it pass, if there is one."""
        solver, free = self._prepared[transition.name]
        domains = dict(free)
        domains |= {p: (params[p.name],) for p in transition.params if p.name in params}
        domains |= {Column(name): (value,) for name, value in known.items()}
        found = solver.first(domains)
        if found is None:
            return None
        row = {v.name: value for v, value in found.items() if isinstance(v, Column)}
        call = {v.name: value for v, value in found.items() if isinstance(v, Param)}
        given: dict[str, Plain] = {
            p.name: None if p.optional else examples(p.kind)[0] for p in transition.params
        }
        return decide(self._machine, row, transition.name, given | params | call, NOW_MS)

    def _choices(
        self, part: Transition | Creation, columns: tuple[Column, ...]
    ) -> Iterator[dict[str, Plain]]:
        """Yield values of the parameters that are written into some columns."""
        written = {
            variable: None
            for a in part.assign
            if a.column in columns and a.column != self._machine.key
            for variable in variables_of(terms_of(a))
            if isinstance(variable, Param)
        }
        options: list[tuple[Plain, ...]] = []
        for param in written:
            nothing: tuple[Plain, ...] = (None,) if param.optional else ()
            options.append(nothing + examples(param.kind))
        for values in itertools.product(*options):
            yield dict(zip((param.name for param in written), values, strict=True))

    def _part(self, row: Row) -> Part:
        return tuple(row[column.name] for column in self._columns)

    def _place(self, part: Part | None) -> Part | None:
        """Return what a row holds of the rule's columns while it is in its set."""
        if part is None:
            return None
        if part not in self._places:
            row = dict(zip((column.name for column in self._columns), part, strict=True))
            values = tuple(row[column.name] for column in self._rule.columns)
            inside = holds(self._rule.where, row, {}, NOW_MS) is True and None not in values
            self._places[part] = values if inside else None
        return self._places[part]
