"""The event log: appended by the triggers, read here."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from persistence.binds import LIMIT_BIND
from persistence.compile import Statement
from persistence.dialect import Key, Placeholder, Whole, text_of
from persistence.operation import Query
from persistence.reading import FEED_COLUMNS, SEQ_BIND, TX_BIND, feed
from persistence.schema import HISTORY
from statemachine.errors import InvalidArgument
from statemachine.kinds import Integer, admit
from statemachine.outcome import Actor, Event, HostEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from persistence.dialect import Dialect
    from persistence.operation import Operation

_MACHINE = Placeholder("machine", Key())
_ROW = Placeholder("key", Key())
_CALL = Placeholder("call", Key())
_AFTER = Placeholder("after", Whole())
_LIMIT = Placeholder("limit", Whole())

COLUMNS = (
    "machine", "key", "revision", "transition", "source", "dest", "actor_kind", "actor",
    "generation", "call", "at", "changes",
)  # fmt: skip
"""What `event_of` reads, in order."""


def _select() -> sa.Select[Any]:
    return sa.select(*(HISTORY.c[name] for name in COLUMNS))


@functools.cache
def by_call(dialect: Dialect) -> Statement:
    """Return the SELECT of a call's steps, over all keys of a machine."""
    query = _select().where(HISTORY.c.machine == _MACHINE, HISTORY.c.call == _CALL)
    return Statement(text_of(query.order_by(HISTORY.c.key), dialect.statements))


@functools.cache
def of_row(dialect: Dialect) -> Statement:
    """Return the SELECT of a row's steps after a revision, oldest first."""
    query = _select().where(
        HISTORY.c.machine == _MACHINE,
        HISTORY.c.key == _ROW,
        HISTORY.c.transition.is_not(sa.null()),
        HISTORY.c.revision > _AFTER,
    )
    return Statement(text_of(query.order_by(HISTORY.c.seq).limit(_LIMIT), dialect.statements))


def event_of(row: Sequence[Any]) -> Event:
    """Return a history row as the event that it records."""
    named = dict(zip(COLUMNS, row, strict=True))
    return Event(
        machine=named["machine"],
        key=named["key"],
        revision=named["revision"],
        transition=named["transition"],
        source=named["source"],
        dest=named["dest"],
        actor=Actor(named["actor_kind"], named["actor"]),
        generation=named["generation"],
        call=named["call"],
        at=named["at"],
        changes=json.loads(named["changes"]),
    )


def entry_of(row: Sequence[Any]) -> Event | HostEvent:
    """Return a row of the feed as the event of a machine or of a host."""
    named = dict(zip(FEED_COLUMNS, row, strict=True))
    if named["event"] is None:
        return event_of([named[name] for name in COLUMNS])
    return HostEvent(
        machine=named["machine"],
        key=named["key"],
        revision=named["revision"],
        type=named["event"],
        payload=json.loads(named["changes"]),
        actor=Actor(named["actor_kind"], named["actor"]),
        call=named["call"],
        at=named["at"],
    )


@functools.cache
def feed_of_call(dialect: Dialect) -> Statement:
    """Return the SELECT of whatever a call appended, as the feed shows it."""
    query = sa.select(*(HISTORY.c[name] for name in FEED_COLUMNS))
    query = query.where(HISTORY.c.machine == _MACHINE, HISTORY.c.call == _CALL)
    return Statement(text_of(query, dialect.statements))


def events_after(
    dialect: Dialect, cursor: str | None, limit: int
) -> Operation[tuple[list[Event | HostEvent], str]]:
    """Read the feed behind a cursor; answers the events and the cursor behind them.

    Raises:
        InvalidArgument: Not a cursor, or a limit that is not 1 to 1,000.
    """
    tx, seq = _place(cursor)
    most = admit(Integer(1, 1_000), limit, "limit")
    params = {TX_BIND: tx, SEQ_BIND: seq, LIMIT_BIND: most}
    answer = yield Query(feed(dialect), params)
    if answer.rows:
        tx, seq = answer.rows[-1][:2]
    return [entry_of(row) for row in answer.rows], f"{tx}.{seq}"


def _place(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return 0, 0
    match = re.fullmatch(r"([0-9]{1,19})\.([0-9]{1,19})", str(cursor))
    if match is None:
        raise InvalidArgument("cursor", "a cursor that events_after answered")
    tx, seq = int(match[1]), int(match[2])
    if max(tx, seq) >= 2**63:
        raise InvalidArgument("cursor", "a cursor that events_after answered")
    return tx, seq
