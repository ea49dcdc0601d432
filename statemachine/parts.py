"""What a machine is made of: transitions, creations, rules, selections."""

from __future__ import annotations

import enum
import functools

from attrs import field, frozen

from statemachine.admission import Admission
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


def _state(state: str) -> str:
    return stored(state) if isinstance(state, enum.Enum) else state


def _dest(state: str | None) -> str | None:
    return None if state is None else _state(state)


def states_of(states: tuple[str, ...]) -> tuple[str, ...]:
    """Return the stored texts of states."""
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
    source: tuple[str, ...] = field(converter=states_of)
    dest: str | None = field(converter=_dest)
    when: tuple[Guard, ...] = ()
    assign: tuple[Assignment, ...] = ()
    quiet: bool = field(default=False, kw_only=True)

    @functools.cached_property
    def params(self) -> tuple[Param, ...]:
        """The values that a call gives, in the order of their first use."""
        guards = [term for guard in self.when for term in terms_in(guard.condition)]
        return params_in([*guards, *(t for a in self.assign for t in terms_of(a))])

    @functools.cached_property
    def admission(self) -> Admission:
        """How a call's values are judged."""
        return Admission(self.params)

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

    @functools.cached_property
    def params(self) -> tuple[Param, ...]:
        """The values that a call gives, in the order of their first use."""
        return params_in([t for a in self.assign for t in terms_of(a)])

    @functools.cached_property
    def admission(self) -> Admission:
        """How a call's values are judged."""
        return Admission(self.params)


@frozen
class Invariant:
    """A named condition that is true of every row at rest."""

    name: str
    condition: Condition


@frozen
class Uniqueness:
    """At most one row per value of `columns` among the rows where `where` is true.

    Attributes:
        name: Unique within the machine; a refusal names it.

        columns: What no two rows share; a row with a NULL there is free.

        where: The rows that are held to it.
    """

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
    """Which columns hold the lease, so that a refusal can name the holder that was faster.

    Attributes:
        holder, holder_kind: Who holds it.

        token_hash: SHA-256 of the holder's token, in hexadecimal.

        generation: The fencing generation.

        acquired_at, heartbeat_at, expires_at: When it was taken, last renewed, and runs out.
    """

    holder: Column = field(converter=column_of)
    holder_kind: Column = field(converter=column_of)
    token_hash: Column = field(converter=column_of)
    generation: Column = field(converter=column_of)
    acquired_at: Column = field(converter=column_of)
    heartbeat_at: Column = field(converter=column_of)
    expires_at: Column = field(converter=column_of)


def params_in(terms: list[Term]) -> tuple[Param, ...]:
    """Return the parameters among terms, each once, in order."""
    found = [t.duration if isinstance(t, Deadline) else t for t in terms]
    return tuple(dict.fromkeys(term for term in found if isinstance(term, Param)))
