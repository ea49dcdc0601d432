"""Retention: final rows and their history are deleted in bounded batches, under a permit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from persistence.binds import LIMIT_BIND, NOW_BIND
from persistence.dialect import Key, Placeholder, Whole, column_type
from persistence.operation import Query
from persistence.schema import HISTORY, PERMIT, final_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from persistence.compile import Program, Statement
    from persistence.operation import Operation

AGE_BIND = "sys_age"
KEYS_BIND = "sys_keys"


def prune(
    program: Program, age: int, limit: int, scope: Mapping[str, str] | None = None
) -> Operation[int]:
    """Delete the final rows that ended first, and their whole histories; within a transaction.

    Args:
        program: The machine's statements.

        age: How long ago the rows must have ended, in milliseconds.

        limit: Most rows.

        scope: Values of columns that only such rows have; None: all rows.

    Returns:
        How many rows were deleted.
    """
    within = scope or {}
    ended = {AGE_BIND: age, LIMIT_BIND: limit, **within}
    answer = yield Query(_ended(program, tuple(within)), ended)
    if not answer.rows:
        return 0
    machine = {"machine": program.machine.name}
    keys = {KEYS_BIND: program.dialect.as_list([row[0] for row in answer.rows])}
    yield Query(_permit(program), machine)
    yield Query(_delete(program), keys)
    yield Query(_forget(program), {**machine, **keys})
    yield Query(_revoke(program), machine)
    return len(answer.rows)


def _ended(program: Program, scope: tuple[str, ...]) -> Statement:
    """Return the SELECT of the keys, locked: of two that prune at once, neither waits."""
    return program.once(
        "retention", f"ended {scope}", lambda: program.statement(_select(program, scope))
    )


def _select(program: Program, scope: tuple[str, ...]) -> sa.Select[Any]:
    table, fields = program.table, program.machine.fields
    key = table.c[program.machine.key.name]
    now = program.dialect.clock() if program.server_clock else Placeholder(NOW_BIND, Whole())
    before = sa.select(now - Placeholder(AGE_BIND, Whole())).scalar_subquery()
    query = (
        sa.select(key)
        .where(final_rows(program.scope(now)), table.c.updated_at <= before)
        .where(*(table.c[n] == Placeholder(n, column_type(fields[n].kind)) for n in scope))
        .order_by(table.c.updated_at, key)
        .limit(Placeholder(LIMIT_BIND, Whole()))
    )
    return query.with_for_update(skip_locked=True) if program.dialect.row_locks else query


def _permit(program: Program) -> Statement:
    """Return the leave to delete; nobody else ever sees it."""
    values = {"machine": Placeholder("machine", Key())}
    return program.once(
        "retention", "permit", lambda: program.statement(sa.insert(PERMIT).values(values))
    )


def _revoke(program: Program) -> Statement:
    query = sa.delete(PERMIT).where(PERMIT.c.machine == Placeholder("machine", Key()))
    return program.once("retention", "revoke", lambda: program.statement(query))


def _delete(program: Program) -> Statement:
    key = program.table.c[program.machine.key.name]
    query = sa.delete(program.table).where(program.dialect.listed(key, KEYS_BIND))
    return program.once("retention", "delete", lambda: program.statement(query))


def _forget(program: Program) -> Statement:
    query = sa.delete(HISTORY).where(
        HISTORY.c.machine == Placeholder("machine", Key()),
        program.dialect.listed(HISTORY.c.key, KEYS_BIND),
    )
    return program.once("retention", "forget", lambda: program.statement(query))
