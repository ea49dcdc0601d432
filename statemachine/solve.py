"""Which values make conditions true: a search that gives up early on what cannot hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, assert_never

from attrs import frozen

from statemachine.interpret import Truth, meaning
from statemachine.kinds import Plain
from statemachine.vocabulary import (
    And,
    AtMost,
    Column,
    Condition,
    Deadline,
    Equal,
    IsNull,
    Less,
    Not,
    NotEqual,
    NotNull,
    OneOf,
    Or,
    Param,
    Term,
    terms_in,
)

Variable: TypeAlias = Column | Param
Domains: TypeAlias = Mapping[Variable, Sequence[Plain]]
Possible: TypeAlias = frozenset[Truth]

_Reader: TypeAlias = Callable[[Domains], Possible]
_TRUE: Possible = frozenset({True})
_FALSE: Possible = frozenset({False})


def variables_of(terms: Iterable[Term]) -> tuple[Variable, ...]:
    """Return the columns and parameters among terms, each once, in order."""
    found = (term.duration if isinstance(term, Deadline) else term for term in terms)
    return tuple(dict.fromkeys(term for term in found if isinstance(term, Column | Param)))


class Solver:
    """Searches values of columns and parameters that make conditions true.

    Args:
        conditions: All must be true.

        now: What `NOW` is, in milliseconds since the Unix epoch.
    """

    def __init__(self, conditions: Iterable[Condition], now: int) -> None:
        self._parts = tuple(_part(condition, now) for condition in conditions)
        self.variables = tuple(dict.fromkeys(v for part in self._parts for v in part.variables))
        self._touched = {
            variable: tuple(part for part in self._parts if variable in part.variables)
            for variable in self.variables
        }

    def first(self, domains: Domains) -> dict[Variable, Plain] | None:
        """Return the first solution, or None; each domain's values are tried in order."""
        return next(self._search(dict(domains), self._parts, 0), None)

    def _search(
        self, domains: dict[Variable, Sequence[Plain]], parts: tuple[_Part, ...], depth: int
    ) -> Iterator[dict[Variable, Plain]]:
        if not all(True in part.possible(domains) for part in parts):
            return
        if depth == len(self.variables):
            yield {variable: values[0] for variable, values in domains.items()}
            return
        variable = self.variables[depth]
        for value in domains[variable]:
            narrowed = {**domains, variable: (value,)}
            yield from self._search(narrowed, self._touched[variable], depth + 1)


@frozen
class _Part:
    variables: tuple[Variable, ...]
    possible: _Reader


def _part(condition: Condition, now: int) -> _Part:
    return _Part(variables_of(terms_in(condition)), _possible(condition, now))


def _possible(condition: Condition, now: int) -> _Reader:
    """Return the reader of the truths that a condition may take; at times one too many."""
    match condition:
        case And(conditions=conditions):
            return _conjunction([_possible(inner, now) for inner in conditions])
        case Or(conditions=conditions):
            negated = [_negation(_possible(inner, now)) for inner in conditions]
            return _negation(_conjunction(negated))
        case Not(condition=inner):
            return _negation(_possible(inner, now))
        case Equal() | NotEqual() | Less() | AtMost() | IsNull() | NotNull() | OneOf():
            return _atom(condition, now)
    assert_never(condition)


def _atom(condition: Condition, now: int) -> _Reader:
    variables = variables_of(terms_in(condition))
    truth = meaning(condition)
    known: dict[tuple[tuple[Plain, ...], ...], Possible] = {}

    def read(domains: Domains) -> Possible:
        values = tuple(tuple(domains[variable]) for variable in variables)
        if values not in known:
            known[values] = frozenset(_tried(variables, values))
        return known[values]

    def _tried(
        variables: tuple[Variable, ...], values: tuple[tuple[Plain, ...], ...]
    ) -> Iterator[Truth]:
        for chosen in itertools.product(*values):
            pairs = list(zip(variables, chosen, strict=True))
            row = {v.name: value for v, value in pairs if isinstance(v, Column)}
            params = {v.name: value for v, value in pairs if isinstance(v, Param)}
            yield truth(row, params, now)

    return read


def _negation(reader: _Reader) -> _Reader:
    return lambda domains: frozenset(
        None if truth is None else not truth for truth in reader(domains)
    )


def _conjunction(readers: list[_Reader]) -> _Reader:
    def read(domains: Domains) -> Possible:
        possible = _TRUE
        for reader in readers:
            inner = reader(domains)
            possible = frozenset(_both(one, other) for one in possible for other in inner)
            if possible == _FALSE:
                break
        return possible

    return read


def _both(one: Truth, other: Truth) -> Truth:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True
