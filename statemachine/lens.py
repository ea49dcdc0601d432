"""What of a row the rules of a machine can see: it makes the space of rows finite.

Two rows that look alike through the lens can make the same moves, and then look alike again. What
no condition reads is left out; a column that is only tested for NULL keeps only that; one that is
only compared for equality with a parameter likewise, since the calls that are tried take their
parameter from the row; a counter stops above everything that it is compared with; instants are kept
relative to now, those that have passed by their order alone.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from attrs import frozen

from statemachine.apart import comparisons
from statemachine.examples import NOW_MS, examples
from statemachine.kinds import Boolean, Choice, Instant, Integer, Plain, Row
from statemachine.solve import variables_of
from statemachine.vocabulary import (
    Add,
    Column,
    Condition,
    Literal,
    Param,
    SetOr,
    Term,
    terms_in,
    terms_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from statemachine.machine import Machine

TICK_MS = 1_000
"""How far one tick moves the clock."""

Seen = tuple[Plain, ...]
"""What the lens shows of a row: the values of the columns in view."""


class View(enum.Enum):
    """How much of a column is seen."""

    NULLNESS = enum.auto()
    CONSTANTS = enum.auto()
    VALUE = enum.auto()
    COUNT = enum.auto()
    INSTANT = enum.auto()


@frozen
class Counter:
    """How far an integer is counted.

    Attributes:
        constants: What it is compared with.

        partners: Columns that it is compared with, each with whether it never changes.

        highest: The greatest value that a call may put into a partner.

        falls: Whether some transition counts down, so that it must not stop early.
    """

    constants: tuple[int, ...]
    partners: tuple[tuple[str, bool], ...]
    highest: int
    falls: bool


class Lens:
    """Looks at the rows of one machine.

    Args:
        machine: The declaration.

        conditions: What reads the rows beside the machine's own guards and invariants.

        exact: Columns whose value is seen in any case.
    """

    def __init__(
        self,
        machine: Machine,
        conditions: Iterable[Condition] = (),
        exact: Iterable[Column] = (),
    ) -> None:
        self._machine = machine
        self.settled = {machine.key, *machine.immutable}
        guards = [guard.condition for t in machine.transitions for guard in t.when]
        rules = [invariant.condition for invariant in machine.invariants]
        lasting = [c for c in rules if not self.settled.issuperset(variables_of(terms_in(c)))]
        self.conditions = (*guards, *lasting, *conditions)
        self._exact = {machine.state, *exact}
        if machine.lease is not None:
            self._exact |= {machine.lease.holder, machine.lease.token_hash}
        self._compared = _compared_with(self.conditions)
        read = {t for c in self.conditions for t in terms_in(c) if isinstance(t, Column)}
        read |= self._exact
        read |= self._copied_into(read)
        self.views = {n: self._view(Column(n)) for n in machine.fields if Column(n) in read}
        self.constants = {
            n: tuple(t.value for t, _ in self._compared[Column(n)] if isinstance(t, Literal))
            for n, view in self.views.items()
            if view is View.CONSTANTS
        }
        self.counters = {n: self._counter(n) for n, v in self.views.items() if v is View.COUNT}
        self.instants = tuple(n for n, view in self.views.items() if view is View.INSTANT)
        self._plain = {n: self._stand_in(n) for n in machine.fields}

    def see(self, row: Row) -> Seen:
        """Return what is seen of a row at `NOW_MS`."""
        passed = sorted(
            {int(row[n] or 0) for n in self.instants if row[n] is not None and _past(row[n])}
        )
        rank = {value: NOW_MS + (i - len(passed)) * TICK_MS for i, value in enumerate(passed)}
        return tuple(self._seen(name, view, row, rank) for name, view in self.views.items())

    def show(self, seen: Seen) -> dict[str, Plain]:
        """Return a whole row that looks so."""
        return self._plain | dict(zip(self.views, seen, strict=True))

    def later(self, row: Row) -> dict[str, Plain]:
        """Return the row as it looks one tick later."""
        moved = {n: int(row[n] or 0) - TICK_MS for n in self.instants if row[n] is not None}
        return {**row, **moved}

    def is_relative(self, column: Column) -> bool:
        """Tell whether only equality with a parameter matters, which is taken from the row."""
        against = self._compared.get(column, ())
        kind = self._machine.fields[column.name].kind
        return (
            bool(against)
            and column not in self._exact
            and not isinstance(kind, Boolean | Choice)
            and all(isinstance(term, Param) and not ordered for term, ordered in against)
        )

    def _seen(self, name: str, view: View, row: Row, rank: dict[int, int]) -> Plain:
        value = row[name]
        if value is None:
            return None
        match view:
            case View.VALUE:
                return value
            case View.NULLNESS:
                return self._stand_in(name, present=True)
            case View.CONSTANTS:
                return (
                    value if value in self.constants[name] else self._stand_in(name, present=True)
                )
            case View.COUNT:
                counter = self.counters[name]
                return int(value) if counter.falls else min(int(value), _cap(counter, row))
            case View.INSTANT:
                return rank.get(int(value), value)

    def _view(self, column: Column) -> View:
        kind = self._machine.fields[column.name].kind
        if column in self._exact:
            return View.VALUE
        if column not in self._compared or self.is_relative(column):
            return View.NULLNESS
        if isinstance(kind, Instant):
            return View.INSTANT
        if all(isinstance(term, Literal) and not by for term, by in self._compared[column]):
            return View.VALUE if isinstance(kind, Boolean | Choice) else View.CONSTANTS
        counted = isinstance(kind, Integer) and column not in self.settled
        return View.COUNT if counted else View.VALUE

    def _counter(self, name: str) -> Counter:
        against = [term for term, _ in self._compared[Column(name)]]
        others = [term for term in against if isinstance(term, Column)]
        kinds = [self._machine.fields[other.name].kind for other in others]
        kinds += [term.kind for term in against if isinstance(term, Param)]
        changes = [a for t in self._machine.transitions for a in t.assign]
        return Counter(
            constants=tuple(int(t.value) for t in against if isinstance(t, Literal)),
            partners=tuple((other.name, other in self.settled) for other in others),
            highest=max((highest(kind) for kind in kinds if isinstance(kind, Integer)), default=0),
            falls=any(
                isinstance(a, Add) and a.column.name == name and a.amount < 0 for a in changes
            ),
        )

    def _copied_into(self, read: set[Column]) -> set[Column]:
        """Return the columns that a column in view may take its value from."""
        machine = self._machine
        assigned = [part.assign for part in machine.transitions]
        assigned += [part.assign for part in machine.creations]
        return {
            term
            for assign in assigned
            for a in assign
            if isinstance(a, SetOr) and a.column in read
            for term in terms_of(a)
            if isinstance(term, Column)
        }

    def _stand_in(self, name: str, *, present: bool = False) -> Plain:
        declared = self._machine.fields[name]
        if declared.nullable and not present:
            return None
        values = examples(declared.kind)
        if name in self.constants:
            return next(value for value in values if value not in self.constants[name])
        # Room for a stale fencing generation below.
        return values[1] if isinstance(declared.kind, Integer) and len(values) > 1 else values[0]


def highest(kind: Integer) -> int:
    """Return the greatest integer that the calls which are tried give."""
    return min(kind.minimum + 1, kind.maximum)


def _cap(counter: Counter, row: Row) -> int:
    """Return the least value above all that the counter meets in this row."""
    cap = max(counter.constants, default=0)
    for name, settled in counter.partners:
        if not settled:
            cap = max(cap, counter.highest)
        elif row[name] is not None:
            cap = max(cap, int(row[name] or 0))
    return cap + 1


def _past(value: Plain) -> bool:
    return isinstance(value, int) and value < NOW_MS


def _compared_with(conditions: Iterable[Condition]) -> dict[Column, list[tuple[Term, bool]]]:
    found: dict[Column, list[tuple[Term, bool]]] = {}
    for terms, ordered in comparisons(conditions, ()):
        for term in terms:
            if isinstance(term, Column):
                others = [(other, ordered) for other in terms if other is not term]
                found.setdefault(term, []).extend(others)
    return found
