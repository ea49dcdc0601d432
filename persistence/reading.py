"""Statements that read: lists in a deterministic order, and the audit feed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from attrs import frozen

from persistence.binds import ACTOR_BIND, ACTOR_KIND_BIND, CALL_BIND, KEY_BIND, LIMIT_BIND, NOW_BIND
from persistence.compile import Statement
from persistence.dialect import Key, Placeholder, Whole, column_type, text_of
from persistence.schema import HISTORY

if TYPE_CHECKING:
    from persistence.compile import Program
    from persistence.dialect import Dialect

STATES_BIND = "sys_states"
AFTER_BIND = "sys_after"
PAYLOAD_BIND = "sys_payload"
EVENT_BIND = "sys_event"
TX_BIND = "sys_tx"
SEQ_BIND = "sys_seq"

FEED_COLUMNS = (
    "tx", "seq", "at", "machine", "key", "revision", "transition", "source", "dest",
    "actor_kind", "actor", "generation", "call", "changes", "event",
)  # fmt: skip
"""What `feed` answers, in order."""


@frozen
class Listing:
    """A list in the machine's order.

    Attributes:
        equal: Columns that are compared with a parameter of their name.

        states: Whether the state is in a list parameter.

        after: Whether it continues behind a row, given by its key.

        newest_first: Whether the order is turned round.
    """

    equal: tuple[str, ...] = ()
    states: bool = False
    after: bool = False
    newest_first: bool = False


def listing(program: Program, wanted: Listing) -> Statement:
    """Return the SELECT of a list."""
    return program.once("list", repr(wanted), lambda: _listing(program, wanted))


def _listing(program: Program, wanted: Listing) -> Statement:
    machine, dialect, table = program.machine, program.dialect, program.table
    fields = machine.fields
    order = [table.c[c.name] for c in machine.listed_by or (machine.key,)]
    query = sa.select(*(table.c[name] for name in fields)).where(
        *(table.c[n] == Placeholder(n, column_type(fields[n].kind)) for n in wanted.equal)
    )
    if wanted.states:
        query = query.where(dialect.listed(table.c[machine.state.name], STATES_BIND))
    if wanted.after:
        last = table.alias("last")
        place = (
            sa.select(*(last.c[c.name] for c in order))
            .where(last.c[machine.key.name] == Placeholder(AFTER_BIND, Key()))
            .scalar_subquery()
        )
        here = sa.tuple_(*order)
        query = query.where(here < place if wanted.newest_first else here > place)
    ordered = query.order_by(*(c.desc() if wanted.newest_first else c.asc() for c in order))
    limited = ordered.limit(Placeholder(LIMIT_BIND, Whole()))
    return Statement(text_of(limited, dialect.statements))


def counting(program: Program, equal: tuple[str, ...] = ()) -> Statement:
    """Return the SELECT of how many rows are in each state.

    Args:
        program: The machine's statements.

        equal: Columns that are compared with a parameter of their name.
    """
    return program.once("count", repr(equal), lambda: _counting(program, equal))


def _counting(program: Program, equal: tuple[str, ...]) -> Statement:
    table, fields = program.table, program.machine.fields
    state = table.c[program.machine.state.name]
    query = sa.select(state, sa.func.count()).where(
        *(table.c[name] == Placeholder(name, column_type(fields[name].kind)) for name in equal)
    )
    return program.statement(query.group_by(state))


@cache
def feed(dialect: Dialect) -> Statement:
    """Return the SELECT of what was appended behind a cursor and is settled."""
    order = [HISTORY.c[name] for name in dialect.feed_order]
    binds = {"tx": Placeholder(TX_BIND, Whole()), "seq": Placeholder(SEQ_BIND, Whole())}
    behind: Any = order[0] > binds[order[0].name]
    if len(order) > 1:
        behind = sa.tuple_(*order) > sa.tuple_(*(binds[column.name] for column in order))
    query = sa.select(*(HISTORY.c[name] for name in FEED_COLUMNS)).where(behind)
    settled = dialect.settled(HISTORY.c.tx)
    if settled is not None:
        query = query.where(settled)
    limited = query.order_by(*order).limit(Placeholder(LIMIT_BIND, Whole()))
    return Statement(text_of(limited, dialect.statements))


def append(program: Program) -> Statement:
    """Return the INSERT of a host's event; it carries the row's revision, and needs the row."""
    return program.once("append", "", lambda: _append(program))


def _append(program: Program) -> Statement:
    machine, dialect, table = program.machine, program.dialect, program.table
    now = dialect.clock() if program.server_clock else Placeholder(NOW_BIND, Whole())
    values: dict[str, sa.ColumnElement[Any]] = {
        "at": now,
        "machine": sa.literal(machine.name, Key()),
        "key": table.c[machine.key.name],
        "revision": table.c.revision,
        "actor_kind": Placeholder(ACTOR_KIND_BIND, Key()),
        "actor": Placeholder(ACTOR_BIND, Key()),
        "call": Placeholder(CALL_BIND, Key()),
        "changes": Placeholder(PAYLOAD_BIND, Key()),
        "event": Placeholder(EVENT_BIND, Key()),
    }
    source = sa.select(*values.values()).where(
        table.c[machine.key.name] == Placeholder(KEY_BIND, Key())
    )
    query = sa.insert(HISTORY).from_select(list(values), source)
    return Statement(text_of(query.returning(HISTORY.c.revision, HISTORY.c.at), dialect.statements))
