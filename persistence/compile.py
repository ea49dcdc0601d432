"""A machine's statements: one guarded UPDATE per transition, compiled once per database."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from attrs import field, frozen

from persistence.binds import KEY_BIND, LIMIT_BIND, NOW_BIND, ONE_CALL, CallTerms
from persistence.built import Built
from persistence.codec import Answered, reader_of
from persistence.creating import insertion
from persistence.dialect import Dialect, Key, Placeholder, Whole, column_type, text_of
from persistence.expressions import Scope, all_of, assigned, condition
from persistence.rules import columns_in, index_name
from persistence.schema import table_of
from persistence.selecting import Chooser
from persistence.unread import answer_of
from statemachine.admission import Admission
from statemachine.vocabulary import Greatest, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from persistence.operation import Cells
    from statemachine.fields import Field
    from statemachine.kinds import Row
    from statemachine.machine import Machine, Selection, Transition
    from statemachine.vocabulary import Assignment

_KEY = Placeholder(KEY_BIND, Key())


@frozen
class Statement:
    """A finished statement.

    Attributes:
        sql: Its text, with named parameters.

        entering: Whether it may enter a uniqueness rule's set, and so be refused by another row.
    """

    sql: str
    entering: bool = False


@frozen(slots=False)
class Program:
    """A machine's statements for one database.

    Attributes:
        machine: The machine.

        dialect: The database.

        server_clock: Whether `NOW` is the server's clock; else it is a parameter.
    """

    machine: Machine
    dialect: Dialect
    server_clock: bool
    _done: dict[tuple[str, str], Statement] = field(factory=dict, init=False, eq=False)

    @cached_property
    def table(self) -> sa.Table:
        """The machine's table."""
        return table_of(self.machine)

    @cached_property
    def _chooser(self) -> Chooser:
        return Chooser(self.machine, self.dialect, self.table)

    @cached_property
    def key(self) -> Field:
        """The column that identifies a row."""
        return self.machine.fields[self.machine.key.name]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of an answered row, in order."""
        return tuple(self.machine.fields)

    def row(self, answered: Cells) -> Answered:
        """Return an answered row, by column."""
        return Answered(answered, self.places)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Where each column's cell is in an answered row."""
        return {name: place for place, name in enumerate(self.names)}

    @cached_property
    def record(self) -> Callable[[Row], Any]:
        """How a row becomes the machine's record."""
        return reader_of(self.machine)

    @cached_property
    def moved(self) -> Callable[[Cells], Any]:
        """How a row that has moved becomes the machine's record, field by field when looked at."""
        return answer_of(self.machine) or (lambda cells: self.record(self.row(cells)))

    @cached_property
    def update(self) -> Mapping[str, Statement]:
        """The UPDATE of each transition, by key."""
        return Built(lambda name: self._update(self.machine.transition(name)))

    @cached_property
    def next(self) -> Mapping[str, Statement]:
        """The UPDATE that takes the next row of each selection."""
        return Built(lambda name: self._next(self.machine.selection(name)))

    @cached_property
    def insert(self) -> Mapping[str, Statement]:
        """The INSERT of each creation."""
        return Built(lambda name: insertion(self, self.machine.creation(name)))

    @cached_property
    def given(self) -> Mapping[str, Admission]:
        """What a call of each transition is given."""
        return Built(lambda name: self.machine.transition(name).admission)

    @cached_property
    def wanted(self) -> Mapping[str, Admission]:
        """What a call of each selection is given."""
        return Built(lambda name: Admission(self.machine.selection_params(name)))

    def look(self, name: str) -> Statement:
        """Return the SELECT of a selection's next key, whoever has it locked."""
        return self.once("look", name, lambda: self._look(name))

    def choices(self, name: str, arm: int) -> Statement:
        """Return the SELECT of next keys of one arm of a selection; locked where rows can be."""
        return self.once("choices", f"{name}/{arm}", lambda: self._choices(name, arm))

    def read(self) -> Statement:
        """Return the SELECT of one row by its key."""
        return self.once("read", "", self._read)

    def blocker(self, rule: str) -> Statement:
        """Return the SELECT of the row that stands in the way of a rule's columns."""
        return self.once("blocker", rule, lambda: self._blocker(rule))

    def once(self, kind: str, name: str, build: Callable[[], Statement]) -> Statement:
        """Return a statement that is built at most once."""
        try:
            return self._done[kind, name]
        except KeyError:
            return self._done.setdefault((kind, name), build())

    def statement(self, query: sa.sql.ClauseElement, *, entering: bool = False) -> Statement:
        """Return a query as a finished statement."""
        return Statement(text_of(query, self.dialect.statements), entering)

    def answer(
        self, written: tuple[Assignment, ...] = (), *, waits: bool = False
    ) -> list[sa.ColumnElement[Any]]:
        """Return what a statement answers: the row, and the server's clock where that rules.

        A statement that waits for another's uncommitted uniqueness does so after it has read the
        clock. If it gives a lease that has run out by its end, it divides by zero: then it was
        never made, where a second statement could only take a second attempt.
        """
        answer: list[sa.ColumnElement[Any]] = [self.table.c[name] for name in self.names]
        if not self.server_clock:
            return answer
        clock, lease = self.dialect.clock(), self.machine.lease
        gives = [a for a in written if isinstance(a, Set | Greatest)]
        if not waits or lease is None or lease.expires_at not in [a.column for a in gives]:
            return [*answer, clock]
        in_time = self.table.c[lease.expires_at.name] > clock
        return [*answer, clock // sa.cast(sa.cast(in_time, sa.Integer()), sa.BigInteger())]

    def scope(self, now: sa.ColumnElement[Any]) -> Scope:
        """Return where the terms of an expression over the table come from."""
        return Scope(self.machine, self.dialect, lambda name: self.table.c[name], now)

    # One row

    def _update(self, transition: Transition) -> Statement:
        table, key = self.table, self.table.c[self.machine.key.name]
        now: sa.ColumnElement[Any] = Placeholder(NOW_BIND, Whole())
        if self.server_clock:
            # Read once the row's lock is held, or a claim that waited would store an expired lease.
            locked = (
                sa.select(key).where(key == _KEY).with_for_update().cte("locked")
            ).prefix_with("MATERIALIZED")
            clock = sa.select(self.dialect.clock().label("now")).select_from(locked).cte("clock")
            now = clock.prefix_with("MATERIALIZED").c.now
        entering = self._may_enter(transition.assign, moves=transition.dest is not None)
        return self.statement(
            sa.update(table)
            .where(key == _KEY, *self.guarded(transition, self.scope(now)))
            .values(self.values(transition, self.scope(now)))
            .returning(*self.answer(transition.assign, waits=entering)),
            entering=entering,
        )

    def guarded(self, transition: Transition, scope: Scope) -> list[sa.ColumnElement[bool]]:
        """Return the state and the guards that a transition's UPDATE demands."""
        state = scope.column(self.machine.state.name)
        states = [sa.literal(name, state.type) for name in transition.source]
        return [
            self.dialect.among(state, states),
            *all_of([g.condition for g in transition.when], scope),
        ]

    def values(
        self, transition: Transition, scope: Scope, call: CallTerms = ONE_CALL
    ) -> dict[str, sa.ColumnElement[Any]]:
        """Return what a transition's UPDATE sets, by column."""
        values = {a.column.name: assigned(a, scope) for a in transition.assign}
        if transition.dest is not None:
            state = self.table.c[self.machine.state.name]
            values[state.name] = sa.literal(transition.dest, state.type)
        if transition.quiet:
            return values
        actor_kind, actor = call.actor_kind, call.actor
        if self.machine.lease is not None and self.machine.by_holder(transition):
            actor_kind = self.table.c[self.machine.lease.holder_kind.name]
            actor = self.table.c[self.machine.lease.holder.name]
        assert scope.now is not None
        return values | {
            "revision": self.table.c.revision + sa.literal(1, sa.BigInteger()),
            "last_transition": sa.literal(transition.name, Key()),
            "last_actor_kind": actor_kind,
            "last_actor": actor,
            "last_call": call.call,
            "updated_at": self.dialect.greatest(self.table.c.updated_at, scope.now),
        }

    def _may_enter(self, assign: tuple[Assignment, ...], *, moves: bool) -> bool:
        written = {assignment.column.name for assignment in assign}
        if moves:
            written.add(self.machine.state.name)
        return any(
            column.name in written
            for rule in self.machine.uniqueness
            for column in (*rule.columns, *columns_in(rule.where))
        )

    def _read(self) -> Statement:
        key = self.table.c[self.machine.key.name]
        return self.statement(sa.select(*self.answer()).where(key == _KEY))

    def _blocker(self, name: str) -> Statement:
        rule = next(rule for rule in self.machine.uniqueness if rule.name == name)
        scope = self.scope(sa.null())
        same = [
            self.table.c[c.name]
            == Placeholder(c.name, column_type(self.machine.fields[c.name].kind))
            for c in rule.columns
        ]
        return self.statement(sa.select(*self.answer()).where(*same, condition(rule.where, scope)))

    # The next row

    def _next(self, selection: Selection) -> Statement:
        key = self.table.c[self.machine.key.name]
        transition = self.machine.transition(selection.transition)
        now = self._moment()
        scope = self.scope(now)
        entering = self._may_enter(transition.assign, moves=transition.dest is not None)
        return self.statement(
            sa.update(self.table)
            .where(key == self._chooser.key(selection, now, lock=True))
            .where(*self.guarded(transition, scope))
            .values(self.values(transition, scope))
            .returning(*self.answer(transition.assign, waits=entering)),
            entering=entering,
        )

    def _look(self, name: str) -> Statement:
        chosen = self._chooser.key(self.machine.selection(name), self._moment(), lock=False)
        return self.statement(sa.select(chosen))

    def _choices(self, name: str, arm: int) -> Statement:
        selection = self.machine.selection(name)
        some = Placeholder(LIMIT_BIND, Whole())
        query = self._chooser.arm(selection, selection.arms[arm], self._moment(), some, lock=True)
        return self.statement(query)

    def _moment(self) -> sa.ColumnElement[Any]:
        """Rows that are locked are passed over, so the clock can be read before the choice."""
        if not self.server_clock:
            return Placeholder(NOW_BIND, Whole())
        clock = sa.select(self.dialect.clock().label("now")).cte("clock")
        return sa.select(clock.prefix_with("MATERIALIZED").c.now).scalar_subquery()


def rule_of_index(machine: Machine, index: str) -> str | None:
    """Return the uniqueness rule that an index or trigger of this name holds."""
    for rule in machine.uniqueness:
        if index_name(machine, rule.name) == index:
            return rule.name
    return None
