"""Which row a selection takes, as one scalar sub-query: each arm one partial index and LIMIT 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from attrs import frozen

from persistence.binds import EXCLUDE_BIND
from persistence.expressions import Scope, all_of, condition
from statemachine.vocabulary import Condition, OneOf, Or

if TYPE_CHECKING:
    from persistence.dialect import Dialect
    from statemachine.machine import Machine
    from statemachine.parts import Arm, Selection, Transition


@frozen
class Chooser:
    """Builds the choices of one machine.

    Attributes:
        machine: Whose rows.

        dialect: The database.

        table: Where they are.
    """

    machine: Machine
    dialect: Dialect
    table: sa.Table

    def key(
        self, selection: Selection, now: sa.ColumnElement[Any], *, lock: bool
    ) -> sa.ColumnElement[Any]:
        """Return the first arm's first key; the later arms never run.

        Args:
            selection: Which.

            now: The expression of `NOW`.

            lock: Whether the row is locked, and locked ones passed over, where the database can.
        """
        one: sa.ColumnElement[Any] = sa.literal_column("1")
        arms = [
            self.arm(selection, arm, now, one, lock=lock).scalar_subquery()
            for arm in selection.arms
        ]
        chosen = arms[0] if len(arms) == 1 else sa.func.coalesce(*arms)
        return sa.select(chosen).scalar_subquery()

    def arm(
        self,
        selection: Selection,
        arm: Arm,
        now: sa.ColumnElement[Any],
        limit: sa.ColumnElement[Any],
        *,
        lock: bool,
    ) -> sa.Select[Any]:
        """Return an arm's first keys, in its order."""
        row = self.table.alias("candidate")
        scope = Scope(self.machine, self.dialect, lambda name: row.c[name], now)
        transition = self.machine.transition(selection.transition)
        key = row.c[self.machine.key.name]
        query = (
            sa.select(key)
            .where(*all_of(arm.fixed, scope), *all_of(arm.by, scope))
            .where(*(self.dialect.likely(c) for c in all_of(arm.when, scope)))
            .where(*self._unsaid(transition, arm, scope))
            .where(*(self._vacant(name, row) for name in selection.vacant))
            .where(sa.not_(self.dialect.listed(key, EXCLUDE_BIND)))
            .order_by(*(row.c[column.name] for column in arm.order))
            .limit(limit)
        )
        if lock and self.dialect.row_locks:
            query = query.with_for_update(skip_locked=True)
        return query

    def _unsaid(
        self, transition: Transition, arm: Arm, scope: Scope
    ) -> list[sa.ColumnElement[bool]]:
        """Return the guards that the arm does not say already.

        Each condition said twice lowers SQLite's estimate of the rows; lowered far enough, it
        sorts what the index has in order.
        """
        said = {*arm.fixed, *arm.when}
        guards = [g.condition for g in transition.when if not _follows(g.condition, said)]
        unsaid = all_of(guards, scope)
        state = self.machine.state
        if not any(
            isinstance(c, OneOf) and c.column == state and {*c.values} <= {*transition.source}
            for c in arm.fixed
        ):
            column = scope.column(state.name)
            states = [sa.literal(s, column.type) for s in transition.source]
            unsaid.append(self.dialect.among(column, states))
        return unsaid

    def _vacant(self, name: str, row: sa.FromClause) -> sa.ColumnElement[bool]:
        """Return "no other row holds the slot"; a row outside of the rule's reach has none."""
        rule = next(rule for rule in self.machine.uniqueness if rule.name == name)
        other = self.table.alias("other")
        scope = Scope(self.machine, self.dialect, lambda column: other.c[column])
        key = self.machine.key.name
        return sa.not_(
            sa.exists(
                sa.select(sa.literal_column("1"))
                .select_from(other)
                .where(
                    *(other.c[c.name] == row.c[c.name] for c in rule.columns),
                    condition(rule.where, scope),
                    other.c[key] != row.c[key],
                )
                .correlate(row)
            )
        )


def _follows(guard: Condition, said: set[Condition]) -> bool:
    """Tell whether a guard holds wherever what is said does: it is said, or one way of it is."""
    return guard in said or (isinstance(guard, Or) and any(way in said for way in guard.conditions))
