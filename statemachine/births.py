"""The creations worth trying: what a machine's invariants can tell apart of a new row."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from statemachine.examples import NOW_MS, examples
from statemachine.kinds import Plain, Row
from statemachine.path import broken
from statemachine.simulate import create
from statemachine.solve import variables_of
from statemachine.vocabulary import Column, Param, terms_in, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statemachine.machine import Creation, Machine

Call: TypeAlias = dict[str, Plain]
Domains: TypeAlias = dict[str, tuple[Plain, ...]]


@frozen
class Birth:
    """One creation to try; the invariants may forbid its row.

    Attributes:
        creation: Name of the creation.

        params: The plain values of the call.

        now: Milliseconds since the Unix epoch.
    """

    creation: str
    params: Row
    now: int


def births(machine: Machine) -> tuple[Birth, ...]:
    """Return the creations to try.

    From a bare call and from one that gives everything: each parameter in turn takes each of its
    values, and those that one invariant reads together take every combination.
    """
    return tuple(
        Birth(creation.name, params, NOW_MS)
        for creation in machine.creations
        for params in _calls(machine, creation)
    )


def _calls(machine: Machine, creation: Creation) -> Iterator[Call]:
    domains = {param.name: _values(param) for param in creation.params}
    together = _read_together(machine, creation)
    bare: Call = {name: values[0] for name, values in domains.items()}
    full: Call = {n: next(v for v in values if v is not None) for n, values in domains.items()}
    seen: dict[tuple[Plain, ...], None] = {}
    for start in (bare, full):
        sound = start
        for names in together:
            sound = min(
                (sound, *_varied(sound, names, domains)),
                key=lambda call: len(_broken(machine, creation, call)),
            )
        for names in [(name,) for name in domains] + together:
            for call in _varied(sound, names, domains):
                values = tuple(call.values())
                if values not in seen:
                    seen[values] = None
                    yield call


def _varied(call: Call, names: tuple[str, ...], domains: Domains) -> Iterator[Call]:
    for chosen in itertools.product(*(domains[name] for name in names)):
        yield call | dict(zip(names, chosen, strict=True))


def _broken(machine: Machine, creation: Creation, call: Call) -> tuple[str, ...]:
    return broken(machine, create(machine, creation.name, call, NOW_MS).row)


def _values(param: Param) -> tuple[Plain, ...]:
    return (None,) * param.optional + examples(param.kind)


def _read_together(machine: Machine, creation: Creation) -> list[tuple[str, ...]]:
    written = {
        assignment.column: [v.name for v in variables_of(terms_of(assignment)) if _given(v)]
        for assignment in creation.assign
    }
    groups = [
        tuple(
            dict.fromkeys(
                name
                for term in terms_in(invariant.condition)
                if isinstance(term, Column)
                for name in written.get(term, ())
            )
        )
        for invariant in machine.invariants
    ]
    return list(dict.fromkeys(group for group in groups if group))


def _given(variable: Column | Param) -> bool:
    return isinstance(variable, Param)
