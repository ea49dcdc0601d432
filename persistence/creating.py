"""The INSERT of a creation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from persistence.binds import NOW_BIND, ONE_CALL
from persistence.dialect import Key, Placeholder, Whole, column_type
from persistence.expressions import assigned

if TYPE_CHECKING:
    from persistence.compile import Program, Statement
    from statemachine.parts import Creation


def insertion(program: Program, creation: Creation) -> Statement:
    """Return the INSERT of a creation: it adds nothing where the key exists."""
    table, key = program.table, program.table.c[program.machine.key.name]
    source: sa.FromClause | None = None
    now: sa.ColumnElement[Any] = Placeholder(NOW_BIND, Whole())
    if program.server_clock:
        source = sa.select(program.dialect.clock().label("now")).cte("clock")
        source = source.prefix_with("MATERIALIZED")
        now = source.c.now
    scope = program.scope(now)
    values: dict[str, sa.ColumnElement[Any]] = {
        f.name: sa.null() if f.default is None else sa.literal(f.default, column_type(f.kind))
        for f in program.machine.fields.values()
        if f.has_default
    }
    values |= {a.column.name: assigned(a, scope) for a in creation.assign}
    values |= {
        program.machine.state.name: sa.literal(creation.dest, Key()),
        "revision": sa.literal(1, sa.BigInteger()),
        "last_transition": sa.literal(creation.name, Key()),
        "last_actor_kind": ONE_CALL.actor_kind,
        "last_actor": ONE_CALL.actor,
        "last_call": ONE_CALL.call,
        "updated_at": now,
    }
    new = sa.select(*(values[name].label(name) for name in program.names))
    there = table.alias("there")
    taken = sa.exists(
        sa.select(sa.literal_column("1"))
        .select_from(there)
        .where(there.c[key.name] == values[key.name])
    )
    if source is not None:
        new = new.select_from(source)
    return program.statement(
        sa.insert(table)
        .from_select(list(program.names), new.where(sa.not_(taken)))
        .returning(*program.answer(creation.assign, waits=True)),
        entering=True,
    )
