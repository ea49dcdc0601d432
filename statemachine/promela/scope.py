"""What of a machine a Promela model keeps: its columns, and the few values that each may take."""

from __future__ import annotations

import enum
from functools import cached_property
from typing import TYPE_CHECKING

from attrs import frozen

from statemachine.apart import comparisons
from statemachine.errors import MachineError
from statemachine.fields import ENGINE_FIELDS
from statemachine.kinds import Boolean, Choice, Duration, Instant, Integer, Kind
from statemachine.promela.groups import Group, groups
from statemachine.promela.names import Identifiers
from statemachine.solve import variables_of
from statemachine.vocabulary import Add, Column, Param, Put, SetOr, terms_in

if TYPE_CHECKING:
    from statemachine.machine import Creation, Invariant, Machine, Transition
    from statemachine.solve import Variable
    from statemachine.vocabulary import Assignment, Condition, Constant

_MOST = 32_000
"""Integers beyond are refused: a model keeps 16 bits of each column."""

_FRESH = "abcdefghijklmnopqrstuvwxyz"


class Sort(enum.Enum):
    """How the values of a column or parameter are written."""

    STATE = enum.auto()
    TEXT = enum.auto()
    INTEGER = enum.auto()
    INSTANT = enum.auto()
    BOOLEAN = enum.auto()
    TICKS = enum.auto()


@frozen(slots=False)
class Scope:
    """One machine as a model sees it.

    Attributes:
        machine: The declaration.

        rows: One: every column that a guard or an invariant reads is kept. More: only what the
            uniqueness rules see; another column may hold anything at any time.
    """

    machine: Machine
    rows: int

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that are kept, in declared order.

        Raises:
            MachineError: A rule reads what the engine writes.
        """
        machine = self.machine
        seen: set[object] = {machine.state, *self.watched}
        if self.rows == 1:
            seen |= {t for c in self._alone for t in terms_in(c)}
        else:
            seen.add(machine.key)
            seen |= {t for rule in machine.uniqueness for t in terms_in(rule.where)}
        for _ in machine.fields:
            kept = [a for a in self._writes if isinstance(a, SetOr) and a.column in seen]
            seen |= {a.otherwise for a in kept}
        names = tuple(name for name in machine.fields if Column(name) in seen)
        for name in names:
            if name in ENGINE_FIELDS:
                problem = "a rule reads what the engine writes, which a model does not keep"
                raise MachineError(machine.name, f"column {name!r}", problem)
        return names

    @cached_property
    def watched(self) -> tuple[Column, ...]:
        """The columns that no condition reads, but the laws of leases or the uniqueness rules."""
        machine, lease = self.machine, self.machine.lease
        if self.rows > 1:
            return tuple(column for rule in machine.uniqueness for column in rule.columns)
        return () if lease is None else (lease.token_hash, lease.generation, lease.expires_at)

    @cached_property
    def invariants(self) -> tuple[Invariant, ...]:
        """The invariants that speak of kept columns alone."""
        return tuple(rule for rule in self.machine.invariants if self.sees(rule.condition))

    @cached_property
    def compared(self) -> frozenset[Variable]:
        """The columns and parameters that a kept condition compares."""
        terms = [t for compared, _ in comparisons(self._read, ()) for t in compared]
        return frozenset(variables_of(terms))

    def falls(self, column: Column) -> bool:
        """Tell whether a column counts down, so that a stopped count may come back."""
        adds = [a.amount for a in self._writes if isinstance(a, Add) and a.column == column]
        return any(amount < 0 for amount in adds)

    @cached_property
    def instants(self) -> tuple[str, ...]:
        """The columns that time moves."""
        return tuple(n for n in self.columns if self._moves(Column(n)))

    def sees(self, condition: Condition) -> bool:
        """Tell whether every column of a condition is kept."""
        return all(t.name in self.columns for t in terms_in(condition) if isinstance(t, Column))

    def written(self, part: Transition | Creation) -> tuple[Assignment, ...]:
        """Return the assignments to kept columns."""
        return tuple(a for a in part.assign if a.column.name in self.columns)

    def kind(self, variable: Variable) -> Kind:
        """Return the kind of a column or parameter."""
        if isinstance(variable, Param):
            return variable.kind
        return self.machine.fields[variable.name].kind

    def nullable(self, variable: Variable) -> bool:
        """Tell whether a column or parameter may be NULL."""
        if isinstance(variable, Param):
            return variable.optional
        return self.machine.fields[variable.name].nullable

    def group(self, variable: Variable) -> Group:
        """Return what a column or parameter meets."""
        return self._groups.get(variable, Group({variable: None}))

    def flag(self, variable: Variable) -> bool:
        """Tell whether only NULL is told from the rest; 1 stands for all of that."""
        return variable != self.machine.state and not self.group(variable).compared

    def sort(self, variable: Variable) -> Sort:
        """Return how a column's or parameter's values are written."""
        kind = self.kind(variable)
        match kind:
            case Choice():
                known = self.machine.fields[self.machine.state.name].kind
                of_states = isinstance(known, Choice) and kind.options is known.options
                return Sort.STATE if of_states else Sort.TEXT
            case Integer():
                return Sort.INTEGER
            case Instant():
                return Sort.INSTANT
            case Boolean():
                return Sort.BOOLEAN
            case Duration():
                return Sort.TICKS
            case _:
                return Sort.TEXT

    @cached_property
    def states(self) -> Identifiers:
        """The identifiers of the states."""
        return Identifiers.of("s_", self.machine.states)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Every text that the declaration names, by code point; two apart, as there are others."""
        named: dict[Constant, None] = {}
        for group in self._groups.values():
            named |= group.constants
            named |= {t: None for v in group.variables for t in _texts(self.kind(v))}
        named |= {a.value: None for a in self._writes if isinstance(a, Put)}
        named |= {field.default: None for field in self.machine.fields.values() if field.default}
        return tuple(sorted(text for text in named if isinstance(text, str)))

    @cached_property
    def symbols(self) -> Identifiers:
        """The identifiers of the texts, and of some that the declaration does not name."""
        others = [letter for letter in _FRESH if letter not in self.texts]
        return Identifiers.of("v_", (*self.texts, *others[: self.rows + 1]))

    @cached_property
    def others(self) -> tuple[str, ...]:
        """Identifiers of texts that the declaration does not name: one is below all."""
        return tuple(name for text, name in self.symbols.items() if text not in self.texts)

    def numbers(self) -> tuple[tuple[str, int, str], ...]:
        """Return the symbols with their numbers, ordered as the texts are, and the texts."""
        found = [(self.symbols[text], 2 * (n + 1), text) for n, text in enumerate(self.texts)]
        above = 2 * len(self.texts)
        beyond = [(name, 1 if n == 0 else above + n, "") for n, name in enumerate(self.others)]
        return tuple(sorted((*found, *beyond), key=lambda one: one[1]))

    def bounds(self, variable: Variable) -> tuple[int, int]:
        """Return the least and greatest integer that a group tells apart from those beyond.

        Raises:
            MachineError: They are too great.
        """
        group = self.group(variable)
        values = [int(c) for c in group.constants]
        for one in group.variables:
            kind = self.kind(one)
            if isinstance(one, Param) and isinstance(kind, Integer):
                values += [kind.minimum, min(kind.minimum + 1, kind.maximum)]
        names = {v.name for v in group.variables if isinstance(v, Column)}
        values += [
            int(a.value) for a in self._writes if isinstance(a, Put) and a.column.name in names
        ]
        values += [int(self.machine.fields[name].default or 0) for name in names]
        least, greatest = min(values) - 1, max(values) + 1
        if greatest - least > _MOST or greatest > _MOST or least < -_MOST:
            problem = f"a model cannot count from {least} to {greatest}"
            raise MachineError(self.machine.name, f"{variable.name!r}", problem)
        return least, greatest

    def _moves(self, column: Column) -> bool:
        if self.sort(column) is not Sort.INSTANT or self.flag(column):
            return False
        if self.group(column).constants:
            problem = "it is compared with a constant instant, which an abstract clock has none of"
            raise MachineError(self.machine.name, f"column {column.name!r}", problem)
        return True

    @cached_property
    def _alone(self) -> tuple[Condition, ...]:
        guards = [guard.condition for t in self.machine.transitions for guard in t.when]
        return (*guards, *(rule.condition for rule in self.machine.invariants))

    @cached_property
    def _writes(self) -> tuple[Assignment, ...]:
        born = [a for creation in self.machine.creations for a in creation.assign]
        return (*born, *(a for t in self.machine.transitions for a in t.assign))

    @cached_property
    def _groups(self) -> dict[Variable, Group]:
        writes = [a for a in self._writes if a.column.name in self.columns]
        return groups(self._read, writes, self.watched)

    @cached_property
    def _read(self) -> tuple[Condition, ...]:
        """The conditions on kept columns alone."""
        if self.rows == 1:
            return self._alone
        seen = [c for c in self._alone if self.sees(c)]
        return (*seen, *(rule.where for rule in self.machine.uniqueness))


def _texts(kind: Kind) -> tuple[str, ...]:
    return kind.texts if isinstance(kind, Choice) else ()
