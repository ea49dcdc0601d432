"""A machine's statements: one guarded UPDATE per transition, compiled once per database."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from attrs import field, frozen

from persistence.codec import reader_of
from persistence.dialect import Dialect, Key, Placeholder, Whole, column_type, text_of
from persistence.expressions import Scope, all_of, assigned, condition
from persistence.rules import columns_in, index_name
from persistence.schema import table_of
from persistence.selecting import Chooser
from statemachine.vocabulary import Greatest, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from statemachine.kinds import Row
    from statemachine.machine import Creation, Machine, Selection, Transition
    from statemachine.vocabulary import Assignment

NOW_BIND = "sys_now"
KEY_BIND = "sys_key"
CALL_BIND = "sys_call"
ACTOR_BIND = "sys_actor"
ACTOR_KIND_BIND = "sys_actor_kind"

_KEY, _CALL = Placeholder(KEY_BIND, Key()), Placeholder(CALL_BIND, Key())
_ACTOR, _ACTOR_KIND = Placeholder(ACTOR_BIND, Key()), Placeholder(ACTOR_KIND_BIND, Key())


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
    def names(self) -> tuple[str, ...]:
        """The columns of an answered row, in order."""
        return tuple(self.machine.fields)

    def row(self, answered: Sequence[Any]) -> Row:
        """Return an answered row, by column."""
        return dict(zip(self.names, answered, strict=False))

    @cached_property
    def record(self) -> Callable[[Row], Any]:
        """How a row becomes the machine's record."""
        return reader_of(self.machine)

    def update(self, name: str) -> Statement:
        """Return the UPDATE of a transition, by key."""
        return self.once("update", name, lambda: self._update(self.machine.transition(name)))

    def next(self, name: str) -> Statement:
        """Return the UPDATE that takes a selection's next row."""
        return self.once("next", name, lambda: self._next(self.machine.selection(name)))

    def pick(self, name: str) -> Statement:
        """Return the SELECT of a selection's next key, locked where the database locks rows."""
        return self.once("pick", name, lambda: self._pick(name, lock=True))

    def look(self, name: str) -> Statement:
        """Return the SELECT of a selection's next key, whoever has it locked."""
        return self.once("look", name, lambda: self._pick(name, lock=False))

    def insert(self, name: str) -> Statement:
        """Return the INSERT of a creation."""
        return self.once("insert", name, lambda: self._insert(self.machine.creation(name)))

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

    def _statement(self, query: sa.sql.ClauseElement, *, entering: bool = False) -> Statement:
        return Statement(text_of(query, self.dialect.statements), entering)

    def _answer(
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

    def _scope(self, now: sa.ColumnElement[Any]) -> Scope:
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
        return self._statement(
            sa.update(table)
            .where(key == _KEY, *self._guarded(transition, self._scope(now)))
            .values(self._values(transition, self._scope(now)))
            .returning(*self._answer(transition.assign, waits=entering)),
            entering=entering,
        )

    def _guarded(self, transition: Transition, scope: Scope) -> list[sa.ColumnElement[bool]]:
        state = scope.column(self.machine.state.name)
        states = [sa.literal(name, state.type) for name in transition.source]
        return [state.in_(states), *all_of([g.condition for g in transition.when], scope)]

    def _values(self, transition: Transition, scope: Scope) -> dict[str, sa.ColumnElement[Any]]:
        values = {a.column.name: assigned(a, scope) for a in transition.assign}
        if transition.dest is not None:
            state = self.table.c[self.machine.state.name]
            values[state.name] = sa.literal(transition.dest, state.type)
        if transition.quiet:
            return values
        actor_kind, actor = _ACTOR_KIND, _ACTOR
        if self.machine.lease is not None and self.machine.by_holder(transition):
            actor_kind = self.table.c[self.machine.lease.holder_kind.name]  # type: ignore[assignment]  # both are column elements
            actor = self.table.c[self.machine.lease.holder.name]  # type: ignore[assignment]  # both are column elements
        assert scope.now is not None
        return values | {
            "revision": self.table.c.revision + sa.literal(1, sa.BigInteger()),
            "last_transition": sa.literal(transition.name, Key()),
            "last_actor_kind": actor_kind,
            "last_actor": actor,
            "last_call": _CALL,
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

    def _insert(self, creation: Creation) -> Statement:
        table, key = self.table, self.table.c[self.machine.key.name]
        source: sa.FromClause | None = None
        now: sa.ColumnElement[Any] = Placeholder(NOW_BIND, Whole())
        if self.server_clock:
            source = sa.select(self.dialect.clock().label("now")).cte("clock")
            source = source.prefix_with("MATERIALIZED")
            now = source.c.now
        scope = self._scope(now)
        values: dict[str, sa.ColumnElement[Any]] = {
            f.name: sa.null() if f.default is None else sa.literal(f.default, column_type(f.kind))
            for f in self.machine.fields.values()
            if f.has_default
        }
        values |= {a.column.name: assigned(a, scope) for a in creation.assign}
        values |= {
            self.machine.state.name: sa.literal(creation.dest, Key()),
            "revision": sa.literal(1, sa.BigInteger()),
            "last_transition": sa.literal(creation.name, Key()),
            "last_actor_kind": _ACTOR_KIND,
            "last_actor": _ACTOR,
            "last_call": _CALL,
            "updated_at": now,
        }
        new = sa.select(*(values[name].label(name) for name in self.names))
        there = table.alias("there")
        taken = sa.exists(
            sa.select(sa.literal_column("1"))
            .select_from(there)
            .where(there.c[key.name] == values[key.name])
        )
        if source is not None:
            new = new.select_from(source)
        return self._statement(
            sa.insert(table)
            .from_select(list(self.names), new.where(sa.not_(taken)))
            .returning(*self._answer(creation.assign, waits=True)),
            entering=True,
        )

    def _read(self) -> Statement:
        key = self.table.c[self.machine.key.name]
        return self._statement(sa.select(*self._answer()).where(key == _KEY))

    def _blocker(self, name: str) -> Statement:
        rule = next(rule for rule in self.machine.uniqueness if rule.name == name)
        scope = self._scope(sa.null())
        same = [
            self.table.c[c.name]
            == Placeholder(c.name, column_type(self.machine.fields[c.name].kind))
            for c in rule.columns
        ]
        return self._statement(
            sa.select(*self._answer()).where(*same, condition(rule.where, scope))
        )

    # The next row

    def _next(self, selection: Selection) -> Statement:
        key = self.table.c[self.machine.key.name]
        transition = self.machine.transition(selection.transition)
        now = self._moment()
        scope = self._scope(now)
        entering = self._may_enter(transition.assign, moves=transition.dest is not None)
        return self._statement(
            sa.update(self.table)
            .where(key == self._chooser.key(selection, now, lock=True))
            .where(*self._guarded(transition, scope))
            .values(self._values(transition, scope))
            .returning(*self._answer(transition.assign, waits=entering)),
            entering=entering,
        )

    def _pick(self, name: str, *, lock: bool) -> Statement:
        chosen = self._chooser.key(self.machine.selection(name), self._moment(), lock=lock)
        return self._statement(sa.select(chosen))

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
