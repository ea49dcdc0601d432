"""A lifecycle as data: states, transitions, rules, and what is derived from them."""

from __future__ import annotations

import enum
from typing import Any, TypeVar

from attrs import field, frozen

from statemachine import declaration, notebook
from statemachine.errors import UnknownTransition
from statemachine.fields import ENGINE_FIELDS, Field, fields_of
from statemachine.kinds import stored
from statemachine.vocabulary import (
    Assignment,
    Column,
    Condition,
    Deadline,
    Equal,
    Guard,
    Param,
    Term,
    column_of,
    columns_of,
    terms_in,
    terms_of,
)

__all__ = [
    "Arm", "Creation", "Invariant", "LeaseColumns", "Machine", "OnlyBy", "Selection",
    "Transition", "Uniqueness",
]  # fmt: skip

_Part = TypeVar("_Part", "Transition", "Creation", "Selection")


def _state(state: str) -> str:
    return stored(state) if isinstance(state, enum.Enum) else state


def _dest(state: str | None) -> str | None:
    return None if state is None else _state(state)


def _states(states: tuple[str, ...]) -> tuple[str, ...]:
    given: object = states
    # A lone state given for a tuple of states must not fall apart into its letters.
    return (_state(given),) if isinstance(given, str) else tuple(_state(state) for state in states)


@frozen
class Transition:
    """A named move: one name, one UPDATE.

    Attributes:
        name: Unique within the machine.

        source: The states that it leaves.

        dest: The state that it reaches; None: it stays where it is (internal).

        when: Guards, all of which must hold.

        assign: What it writes.

        quiet: Neither revision nor history; only internal transitions may be quiet.
    """

    name: str
    source: tuple[str, ...] = field(converter=_states)
    dest: str | None = field(converter=_dest)
    when: tuple[Guard, ...] = ()
    assign: tuple[Assignment, ...] = ()
    quiet: bool = field(default=False, kw_only=True)

    @property
    def params(self) -> tuple[Param, ...]:
        """The values that a call gives, in the order of their first use."""
        guards = [term for guard in self.when for term in terms_in(guard.condition)]
        return params_in([*guards, *(t for a in self.assign for t in terms_of(a))])

    def reaches(self, state: str) -> str:
        """Return the state that the transition leads to from `state`."""
        return state if self.dest is None else self.dest


@frozen
class Creation:
    """How a row comes to be.

    Attributes:
        name: Unique within the machine, among transitions too.

        dest: The state of the new row.

        assign: What is written; other columns take their default from the record class.

        identity: Columns that must agree when the same key is created again.
    """

    name: str
    dest: str = field(converter=_state)
    assign: tuple[Assignment, ...] = ()
    identity: tuple[Column, ...] = field(default=(), converter=columns_of, kw_only=True)

    @property
    def params(self) -> tuple[Param, ...]:
        """The values that a call gives, in the order of their first use."""
        return params_in([t for a in self.assign for t in terms_of(a)])


@frozen
class Invariant:
    """A named condition that is true of every row at rest."""

    name: str
    condition: Condition


@frozen
class Uniqueness:
    """At most one row per value of `columns` among the rows where `where` is true."""

    name: str
    columns: tuple[Column, ...] = field(converter=columns_of)
    where: Condition


@frozen
class OnlyBy:
    """Columns that only the named transitions (and creations) may assign."""

    columns: tuple[Column, ...] = field(converter=columns_of)
    transitions: tuple[str, ...]


@frozen(kw_only=True)
class Arm:
    """One ordered source of rows for a selection; one partial index serves it.

    Attributes:
        name: Unique within the selection.

        fixed: Conditions on the row alone, without parameters: the index's predicate.

        by: Equalities with a parameter: the index's leading columns.

        when: Conditions that only the moment decides.

        order: Columns, ascending; they end in the key.
    """

    name: str
    fixed: tuple[Condition, ...] = ()
    by: tuple[Equal, ...] = ()
    when: tuple[Condition, ...] = ()
    order: tuple[Column, ...] = field(converter=columns_of)


@frozen(kw_only=True)
class Selection:
    """Which row a "next" call takes: the first row of the first arm that has one.

    Attributes:
        name: Unique within the machine.

        transition: The transition that takes the row; all its guards hold for a chosen row.

        arms: In order of preference.

        vacant: Names of uniqueness rules: a row whose slot another row holds is passed over.
    """

    name: str
    transition: str
    arms: tuple[Arm, ...]
    vacant: tuple[str, ...] = ()


@frozen
class LeaseColumns:
    """Which columns hold the lease, so that a refusal can name the holder that was faster."""

    holder: Column = field(converter=column_of)
    holder_kind: Column = field(converter=column_of)
    token_hash: Column = field(converter=column_of)
    generation: Column = field(converter=column_of)
    acquired_at: Column = field(converter=column_of)
    heartbeat_at: Column = field(converter=column_of)
    expires_at: Column = field(converter=column_of)


@frozen(kw_only=True, eq=False)
class Machine:
    """One declared lifecycle over one record class and one state field; equal to itself alone.

    Attributes:
        name: Names the machine in history and messages.

        record: A frozen attrs class; its annotations give the columns' kinds, its defaults the
            values that a creation need not assign.

        table: Name of the table.

        key, state: The columns that identify a row and hold its state.

        initial: The states in which rows come to be.

        final: The states without a way out.

        immutable, write_once, clear_only, only_by: The columns' classes; all others are mutable.

        listed_by: The order of lists, ascending; ends in the key (default: the key alone).

        recorded: Columns whose change goes into the history row.

        private: Columns that never appear in history, logs or `repr`.

    Raises:
        MachineError: The declaration does not hold together.
    """

    name: str
    record: type[Any]
    table: str
    key: Column = field(converter=column_of)
    state: Column = field(converter=column_of)
    initial: tuple[str, ...] = field(converter=_states)
    final: tuple[str, ...] = field(converter=_states)
    creations: tuple[Creation, ...]
    transitions: tuple[Transition, ...]
    invariants: tuple[Invariant, ...] = ()
    uniqueness: tuple[Uniqueness, ...] = ()
    selections: tuple[Selection, ...] = ()
    immutable: tuple[Column, ...] = field(default=(), converter=columns_of)
    write_once: tuple[Column, ...] = field(default=(), converter=columns_of)
    clear_only: tuple[Column, ...] = field(default=(), converter=columns_of)
    only_by: tuple[OnlyBy, ...] = ()
    listed_by: tuple[Column, ...] = field(default=(), converter=columns_of)
    recorded: tuple[Column, ...] = field(default=(), converter=columns_of)
    private: tuple[Column, ...] = field(default=(), converter=columns_of)
    lease: LeaseColumns | None = None
    _repr_mimebundle_ = notebook.mimebundle
    fields: dict[str, Field] = field(init=False, repr=False)

    @fields.default
    def _fields(self) -> dict[str, Field]:
        own = fields_of(self.record, self.name)
        return own | {name: f for name, f in ENGINE_FIELDS.items() if name not in own}

    def __attrs_post_init__(self) -> None:
        declaration.check(self)

    @property
    def states(self) -> tuple[str, ...]:
        """Every state, in declared order."""
        return self.fields[self.state.name].choices

    def transition(self, name: str) -> Transition:
        """Return the transition of this name.

        Raises:
            UnknownTransition: None is declared.
        """
        return _named(self, name, self.transitions)

    def creation(self, name: str) -> Creation:
        """Return the creation of this name.

        Raises:
            UnknownTransition: None is declared.
        """
        return _named(self, name, self.creations)

    def selection(self, name: str) -> Selection:
        """Return the selection of this name.

        Raises:
            UnknownTransition: None is declared.
        """
        return _named(self, name, self.selections)

    def selection_params(self, name: str) -> tuple[Param, ...]:
        """Return what a selection needs: the transition's parameters, then those of its arms.

        Raises:
            UnknownTransition: None is declared.
        """
        selection = self.selection(name)
        taken = list(self.transition(selection.transition).params)
        conditions = [c for arm in selection.arms for c in (*arm.by, *arm.when)]
        return params_in([*taken, *(t for c in conditions for t in terms_in(c))])

    def by_holder(self, transition: Transition) -> bool:
        """Tell whether only the lease's holder can make this transition."""
        return self.lease is not None and any(
            self.lease.token_hash in terms_in(guard.condition) for guard in transition.when
        )


def params_in(terms: list[Term]) -> tuple[Param, ...]:
    """Return the parameters among terms, each once, in order."""
    found = [t.duration if isinstance(t, Deadline) else t for t in terms]
    return tuple(dict.fromkeys(term for term in found if isinstance(term, Param)))


def _named(machine: Machine, name: str, parts: tuple[_Part, ...]) -> _Part:
    for part in parts:
        if part.name == name:
            return part
    raise UnknownTransition(machine.name, name, [part.name for part in parts])
