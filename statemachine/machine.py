"""A lifecycle as data: states, transitions, rules, and what is derived from them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import field, frozen

from statemachine import declaration, notebook
from statemachine.errors import UnknownTransition
from statemachine.fields import ENGINE_FIELDS, Field, fields_of
from statemachine.parts import (
    Arm,
    Creation,
    Invariant,
    LeaseColumns,
    OnlyBy,
    Selection,
    Transition,
    Uniqueness,
    params_in,
    states_of,
)
from statemachine.vocabulary import Column, Param, column_of, columns_of, terms_in

__all__ = [
    "Arm", "Creation", "Invariant", "LeaseColumns", "Machine", "OnlyBy", "Selection",
    "Transition", "Uniqueness",
]  # fmt: skip

_Part = TypeVar("_Part", Transition, Creation, Selection)


@frozen(kw_only=True, cache_hash=True)
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

        creations, transitions: How rows come to be, and how they move.

        invariants, uniqueness: What is true of every row at rest, and of rows side by side.

        selections: Which rows "next" calls take.

        immutable, write_once, clear_only, only_by: The columns' classes; all others are mutable.

        listed_by: The order of lists, ascending; ends in the key (default: the key alone).

        listed_for: Columns that lists are asked for one value of; an index serves each of them.

        recorded: Columns whose change goes into the history row.

        private: Columns that never appear in history, logs or `repr`.

        lease: The columns of the lease; None: rows are not leased.

        fields: Every column, the engine's own last; worked out.

    Raises:
        MachineError: The declaration does not hold together.
    """

    name: str
    record: type[Any]
    table: str
    key: Column = field(converter=column_of)
    state: Column = field(converter=column_of)
    initial: tuple[str, ...] = field(converter=states_of)
    final: tuple[str, ...] = field(converter=states_of)
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
    listed_for: tuple[Column, ...] = field(default=(), converter=columns_of)
    recorded: tuple[Column, ...] = field(default=(), converter=columns_of)
    private: tuple[Column, ...] = field(default=(), converter=columns_of)
    lease: LeaseColumns | None = None
    _repr_mimebundle_ = notebook.mimebundle
    fields: dict[str, Field] = field(init=False, repr=False, eq=False)

    @fields.default
    def _fields(self) -> dict[str, Field]:
        own = fields_of(self.record, self.name)
        return own | {name: f for name, f in ENGINE_FIELDS.items() if name not in own}

    def __attrs_post_init__(self) -> None:
        declaration.check(self)

    @functools.cached_property
    def _transitions(self) -> Mapping[str, Transition]:
        return _by_name(self.transitions)

    @functools.cached_property
    def _creations(self) -> Mapping[str, Creation]:
        return _by_name(self.creations)

    @functools.cached_property
    def _selections(self) -> Mapping[str, Selection]:
        return _by_name(self.selections)

    @property
    def states(self) -> tuple[str, ...]:
        """Every state, in declared order."""
        return self.fields[self.state.name].choices

    def transition(self, name: str) -> Transition:
        """Return the transition of this name.

        Raises:
            UnknownTransition: None is declared.
        """
        try:
            return self._transitions[name]
        except (KeyError, TypeError):
            raise UnknownTransition(self.name, name, list(self._transitions)) from None

    def creation(self, name: str) -> Creation:
        """Return the creation of this name.

        Raises:
            UnknownTransition: None is declared.
        """
        try:
            return self._creations[name]
        except (KeyError, TypeError):
            raise UnknownTransition(self.name, name, list(self._creations)) from None

    def selection(self, name: str) -> Selection:
        """Return the selection of this name.

        Raises:
            UnknownTransition: None is declared.
        """
        try:
            return self._selections[name]
        except (KeyError, TypeError):
            raise UnknownTransition(self.name, name, list(self._selections)) from None

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


def _by_name(parts: tuple[_Part, ...]) -> Mapping[str, _Part]:
    return {part.name: part for part in parts}
