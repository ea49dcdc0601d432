"""The values that guards and assignments can tell apart, and the calls that try them all."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from attrs import frozen

from statemachine.apart import comparisons, told_apart
from statemachine.errors import MachineError
from statemachine.examples import NOW_MS, examples
from statemachine.interpret import meaning
from statemachine.kinds import Boolean, Choice, Duration, Instant, Integer, Plain, Row
from statemachine.solve import Solver, Variable, variables_of
from statemachine.vocabulary import Column, Param, terms_in, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from statemachine.machine import Machine, Transition


_REMEMBERED = 20_000
"""How many completions are kept at hand."""


@frozen
class Cell:
    """One call to try.

    Attributes:
        transition: Name of the transition.

        row: A plain row with every column, which satisfies the invariants.

        params: The plain values of the call.

        now: Milliseconds since the Unix epoch.
    """

    transition: str
    row: Row
    params: Row
    now: int


@frozen
class Cells:
    """Every call worth trying.

    Attributes:
        tried: The calls.

        left_out: How many valuations no row can hold, since an invariant forbids them.
    """

    tried: tuple[Cell, ...]
    left_out: int

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.tried)

    def __len__(self) -> int:
        return len(self.tried)


@frozen
class Valuation:
    """Values that a transition can tell apart, without a row around them.

    Attributes:
        columns: Values of columns.

        params: The plain values of the call.

        passes: Whether all guards are true.
    """

    columns: dict[str, Plain]
    params: dict[str, Plain]
    passes: bool


def cells(machine: Machine) -> Cells:
    """Return every transition in every state under all values that it can tell apart.

    What its assignments alone can tell apart is tried where its guards pass; there each valuation
    is tried on a bare row and on one whose other columns are filled as far as the invariants let.

    Raises:
        MachineError: A column's pattern admits none of the texts that are tried.
    """
    completion = Completion(machine)
    tried: list[Cell] = []
    left_out = 0
    for transition in machine.transitions:
        for state in machine.states:
            for valuation in valuations(machine, transition, state):
                fixed = {**valuation.columns, machine.state.name: state}
                bare = completion.row(fixed)
                if bare is None:
                    left_out += 1
                    continue
                rows = [bare]
                if valuation.passes:
                    filled = completion.row(fixed, filled=True)
                    rows += [] if filled in (None, bare) else [filled]
                tried += [Cell(transition.name, r, valuation.params, NOW_MS) for r in rows]
    return Cells(tuple(tried), left_out)


def valuations(machine: Machine, transition: Transition, state: str) -> Iterator[Valuation]:
    """Yield the combinations of values that a transition can tell apart in a state."""
    conditions = [guard.condition for guard in transition.when]
    apart = told_apart(conditions, transition.assign, machine.fields)
    apart.pop(machine.state, None)
    _vary_whole(machine, transition, apart)
    guards = [meaning(condition) for condition in conditions]
    decisive = [v for v in variables_of(t for c in conditions for t in terms_in(c)) if v in apart]
    others = [v for v in apart if v not in decisive]
    for chosen in itertools.product(*(apart[v] for v in decisive)):
        values = dict(zip(decisive, chosen, strict=True))
        given: dict[Variable, Plain] = {v: apart[v][-1] for v in others if isinstance(v, Param)}
        columns, params = _split(given | values)
        row = {**columns, machine.state.name: state}
        passes = all(truth(row, params, NOW_MS) is True for truth in guards)
        if not passes or state not in transition.source:
            yield Valuation(columns, params, passes=False)
            continue
        for rest in itertools.product(*(apart[v] for v in others)):
            columns, params = _split({**values, **dict(zip(others, rest, strict=True))})
            yield Valuation(columns, params, passes=True)


def _split(values: Mapping[Variable, Plain]) -> tuple[dict[str, Plain], dict[str, Plain]]:
    return (
        {v.name: value for v, value in values.items() if isinstance(v, Column)},
        {v.name: value for v, value in values.items() if isinstance(v, Param)},
    )


def _vary_whole(
    machine: Machine, transition: Transition, apart: dict[Variable, tuple[Plain, ...]]
) -> None:
    """Try every choice that a call may write into a column whose value an invariant reads."""
    conditions = [invariant.condition for invariant in machine.invariants]
    compared: set[Variable] = {
        v for terms, _ in comparisons(conditions, ()) for v in variables_of(terms)
    }
    for assignment in transition.assign:
        if assignment.column in compared:
            for param in variables_of(terms_of(assignment)):
                if isinstance(param, Param) and isinstance(param.kind, Choice | Boolean):
                    nothing = (None,) if param.optional else ()
                    apart[param] = (*nothing, *examples(param.kind))


class Completion:
    """Completes a few columns to a whole row that satisfies a machine's invariants."""

    def __init__(self, machine: Machine) -> None:
        conditions = [invariant.condition for invariant in machine.invariants]
        self._machine = machine
        self._solver = Solver(conditions, NOW_MS)
        apart = told_apart(conditions, (), machine.fields, thorough=True)
        self.free: dict[Variable, tuple[Plain, ...]] = {
            Column(n): _plainest(machine, n, apart.get(Column(n), ())) for n in machine.fields
        }
        self._filled = {
            v: _second_first(values)
            if isinstance(machine.fields[v.name].kind, Integer)
            else tuple(reversed(values))
            for v, values in self.free.items()
        }
        self._found: dict[tuple[object, ...], dict[Variable, Plain] | None] = {}

    def row(self, fixed: Row, *, filled: bool = False) -> dict[str, Plain] | None:
        """Return a row with these columns' values, or None where the invariants admit none.

        Args:
            fixed: Plain values that the row must have.

            filled: Prefer a value to NULL, and one other than the default.
        """
        free = self._filled if filled else self.free
        domains: dict[Variable, tuple[Plain, ...]] = {
            v: (fixed[v.name],) if v.name in fixed else free[v] for v in free
        }
        bound = tuple((v, fixed[v.name]) for v in self._solver.variables if v.name in fixed)
        if len(self._found) > _REMEMBERED:
            self._found.clear()
        if (filled, bound) not in self._found:
            known = {v: domains[v] for v in self._solver.variables}
            self._found[filled, bound] = self._solver.first(known)
        found = self._found[filled, bound]
        if found is None:
            return None
        return {v.name: found[v] if v in found else values[0] for v, values in domains.items()}


def _second_first(values: tuple[Plain, ...]) -> tuple[Plain, ...]:
    """Return numbers with one beside the plainest in front, since the greatest bars others."""
    present = [value for value in values if value is not None]
    return (*present[1:2], *present[:1], *present[2:], *(v for v in values if v is None))


def _plainest(machine: Machine, name: str, compared: tuple[Plain, ...]) -> tuple[Plain, ...]:
    """Return what a column may hold in a completed row, the default and NULL first."""
    declared = machine.fields[name]
    wide = () if isinstance(declared.kind, Instant | Duration) else compared
    first = ((declared.default,) if declared.has_default else ()) + (None,) * declared.nullable
    values = tuple(dict.fromkeys((*first, *examples(declared.kind), *wide)))
    if not values:
        problem = "no text is found that matches its pattern; begin it with literal text"
        raise MachineError(machine.name, f"column {name!r}", problem)
    return values
