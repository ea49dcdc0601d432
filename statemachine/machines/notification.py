"""Notification: a passive outbox of messages for a session; it starts no turn."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated

import attrs

from statemachine.kinds import Choice, Integer, Prose, Text
from statemachine.machine import (
    Arm,
    Creation,
    Invariant,
    Machine,
    Selection,
    Transition,
    Uniqueness,
)
from statemachine.machines import _lease as lease
from statemachine.machines._run import RUN_ID, RunId
from statemachine.vocabulary import (
    NOW,
    AtMost,
    Condition,
    Equal,
    Guard,
    Not,
    NotNull,
    OneOf,
    Param,
    Set,
    iff,
    implies,
)


class NotificationStatus(enum.StrEnum):
    """Where a notification stands."""

    PENDING = "pending"
    DELIVERED = "delivered"


class NotificationKind(enum.StrEnum):
    """What a notification tells."""

    PROGRESS = "progress"
    FINAL = "final"


PENDING, DELIVERED = NotificationStatus

CONTENT = Prose(max_chars=65_536, verbatim=True)
INDEX = Integer(minimum=1, maximum=2**53 - 1)  # what every JSON reader holds exactly


@attrs.frozen(kw_only=True)
class Notification(lease.Leased):
    """One message, as stored; the lease is that of whoever delivers it just now.

    All instants are aware, in UTC.

    Attributes:
        notification_id: The key.

        run_id, node_id, attempt_id: Whose it is.

        notification_index: Counts the notifications of an attempt, from 1.

        target_session_id: Who gets it.

        kind: What it tells.

        content: 1 to 65,536 characters, as given.

        status: Where it stands.

        created_at, delivered_at: When it was put into the outbox, and when it reached its session.

        revision: Grows by one with each step, from 1.

        last_transition, last_actor_kind, last_actor, last_call, updated_at: The latest step, who
            made it, under which id, and when.
    """

    notification_id: str
    run_id: RunId
    node_id: str
    attempt_id: str
    notification_index: Annotated[int, INDEX]
    target_session_id: str
    kind: NotificationKind
    content: Annotated[str, CONTENT] = attrs.field(repr=False)
    status: NotificationStatus
    created_at: datetime
    delivered_at: datetime | None = None
    revision: Annotated[int, Integer(minimum=1)]
    last_transition: str
    last_actor_kind: str
    last_actor: str
    last_call: str
    updated_at: datetime


note = attrs.fields(Notification)

_KEY = Text()
OF_SESSION = Equal(note.target_session_id, Param("session_id", _KEY))
FOR_SESSION = (Guard("target session", OF_SESSION),)
COUNTED = AtMost(1, note.notification_index)

GIVEN = (
    Set(note.notification_id, Param("notification_id", _KEY)),
    Set(note.run_id, Param("run_id", RUN_ID)),
    Set(note.node_id, Param("node_id", _KEY)),
    Set(note.attempt_id, Param("attempt_id", _KEY)),
    Set(note.notification_index, Param("notification_index", INDEX)),
    Set(note.target_session_id, Param("target_session_id", _KEY)),
    Set(note.kind, Param("kind", Choice(NotificationKind))),
    Set(note.content, Param("content", CONTENT)),
    Set(note.created_at, NOW),
)
FACTS = (
    note.run_id,
    note.node_id,
    note.attempt_id,
    note.notification_index,
    note.target_session_id,
    note.kind,
    note.content,
)


def _in(*states: NotificationStatus) -> Condition:
    """Return "the notification is in one of these states"."""
    return OneOf(note.status, states)


NOTIFICATION = Machine(
    name="notification",
    record=Notification,
    table="notifications",
    key=note.notification_id,
    state=note.status,
    initial=(PENDING,),
    final=(DELIVERED,),
    creations=(Creation("enqueue", PENDING, GIVEN, identity=FACTS),),
    transitions=(
        Transition("claim", (PENDING,), None, when=FOR_SESSION + lease.FREE, assign=lease.TAKE),
        Transition(
            "mark_delivered",
            (PENDING,),
            DELIVERED,
            when=FOR_SESSION + lease.HELD,
            assign=lease.DROP + (Set(note.delivered_at, NOW),),
        ),
    ),
    uniqueness=(
        Uniqueness(
            "one per index", (note.run_id, note.attempt_id, note.notification_index), COUNTED
        ),
    ),
    invariants=(
        Invariant(
            "delivered exactly when it says when", iff(_in(DELIVERED), NotNull(note.delivered_at))
        ),
        Invariant("counted from one", COUNTED),
        Invariant(
            "a delivered notification is not leased", implies(_in(DELIVERED), Not(lease.LEASED))
        ),
        *lease.INVARIANTS,
    ),
    selections=(
        Selection(
            name="claim_batch",
            transition="claim",
            arms=(
                Arm(
                    name="oldest",
                    fixed=(_in(PENDING),),
                    by=(OF_SESSION,),
                    order=(note.created_at, note.notification_id),
                ),
            ),
        ),
    ),
    immutable=(note.notification_id, *FACTS, note.created_at),
    listed_by=(note.created_at, note.notification_id),
    listed_for=(note.target_session_id,),
    recorded=(
        note.run_id,
        note.attempt_id,
        note.notification_index,
        note.target_session_id,
        note.kind,
        note.delivered_at,
        note.lease_holder,
    ),
    private=(note.lease_token_hash,),
    lease=lease.COLUMNS,
)
