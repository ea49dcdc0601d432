"""What a trigger appends to the history, and whom it wakes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from attrs import frozen

from statemachine.kinds import Boolean, Instant, Integer, Json

if TYPE_CHECKING:
    from persistence.change import Change


@frozen
class Recorder:
    """Writes the history row of a change.

    Attributes:
        change: The row before and after.
    """

    change: Change

    def takeable(self) -> str | None:
        """Who waits for work is told of rows that nobody holds, not of each step of a held one."""
        machine = self.change.machine
        taking = [machine.transition(selection.transition) for selection in machine.selections]
        sources = tuple(dict.fromkeys(state for t in taking for state in t.source))
        if not sources:
            return None
        there = self.change.state(self.change.new, sources)
        if machine.lease is not None:
            there = sa.and_(there, self.change.new(machine.lease.holder.name).is_(sa.null()))
        return self.change.text(there)

    def history(self) -> tuple[tuple[str, str], ...]:
        """Return the columns of a history row and their values, over NEW."""
        lease = self.change.machine.lease
        columns = {
            "at": self.change.new("updated_at"),
            "machine": sa.literal(self.change.machine.name, sa.Text()),
            "key": self.change.new(self.change.machine.key.name),
            "revision": self.change.new("revision"),
            "transition": self.change.new("last_transition"),
            "dest": self.change.new(self.change.machine.state.name),
            "actor_kind": self.change.new("last_actor_kind"),
            "actor": self.change.new("last_actor"),
            "call": self.change.new("last_call"),
            "generation": sa.null() if lease is None else self.change.new(lease.generation.name),
        }
        return tuple((name, self.change.text(value)) for name, value in columns.items())

    def json(self, *, changed: bool) -> str:
        """Concatenate the members: cheaper than a sub-query that filters a list of them."""
        members = [
            self._member(column.name, changed=changed) for column in self.change.machine.recorded
        ]
        if not members:
            return "'{}'"
        return f"'{{' || substr({' || '.join(members)}, 2) || '}}'"

    def _member(self, name: str, *, changed: bool) -> str:
        column = self.change.new(name)
        field = self.change.machine.fields[name]
        value: sa.ColumnElement[Any]
        match field.kind:
            case Boolean():
                value = sa.case((column, sa.literal("true")), else_=sa.literal("false"))
            case Integer() | Instant():
                value = sa.cast(column, sa.Text())
            case Json():
                value = column
            case _:
                value = self.change.dialect.json_text(column)
        written: sa.ColumnElement[Any] = sa.literal(f',"{name}":').concat(
            sa.func.coalesce(value, sa.literal("null")) if changed else value
        )
        if changed and not field.nullable:
            written = sa.literal(f',"{name}":').concat(value)
        there = sa.not_(self.change.same(name)) if changed else column.is_not(sa.null())
        return self.change.text(sa.case((there, written), else_=sa.literal("")))
