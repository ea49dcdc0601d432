"""Turn intent: the durable obligation to give a session exactly one successor turn."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated

import attrs

from statemachine.kinds import Choice, Integer, Json, Text
from statemachine.machine import (
    Arm,
    Creation,
    Invariant,
    Machine,
    OnlyBy,
    Selection,
    Transition,
    Uniqueness,
)
from statemachine.machines import _lease as lease
from statemachine.machines._run import RUN_ID, RunId, SmallJson
from statemachine.vocabulary import (
    NOW,
    AtMost,
    Condition,
    Equal,
    Guard,
    IsNull,
    Not,
    NotEqual,
    NotNull,
    OneOf,
    Or,
    Param,
    Set,
    SetOnce,
    iff,
    implies,
)


class TurnStatus(enum.StrEnum):
    """Where a turn intent stands."""

    PENDING = "pending"
    ELIGIBLE = "eligible"
    RESOLVED = "resolved"


class TurnCause(enum.StrEnum):
    """What stopped or stranded the turn before."""

    AGENT_CANCELLED = "agentCancelled"
    TIMED_OUT = "timedOut"
    FAILED = "failed"
    LAUNCH_FAILED = "launchFailed"
    CONTROLLER_INTERRUPTED = "controllerInterrupted"
    CLAIM_LOST = "claimLost"


class TurnResolution(enum.StrEnum):
    """What became the successor turn."""

    WORKFLOW_PROMPT = "workflowPrompt"
    PRESENTATION = "presentation"
    FALLBACK = "fallback"


PENDING, ELIGIBLE, RESOLVED = TurnStatus
UNRESOLVED = (PENDING, ELIGIBLE)


@attrs.frozen(kw_only=True)
class TurnIntent(lease.Leased):
    """One obligation, as stored; the lease is that of whoever delivers the turn just now.

    All instants are aware, in UTC.

    Attributes:
        intent_id: The key.

        source_event_id: The event that obliged to it.

        run_id, workflow, node_id, attempt_id: What was at work.

        target_session_id: Who gets the turn.

        cause: What stopped the turn before.

        status: Where it stands.

        fallback_facts: What a fallback may say, in its wire form.

        requested_at, eligible_at, resolved_at: When it was obliged to, since when a fallback may be
            sent, and when the turn was given.

        resolution, resolution_message_id: What became the turn.

        revision: Grows by one with each step, from 1.

        last_transition, last_actor_kind, last_actor, last_call, updated_at: The latest step, who
            made it, under which id, and when.
    """

    intent_id: str
    source_event_id: str
    run_id: RunId
    workflow: str
    target_session_id: str
    cause: TurnCause
    node_id: str | None = None
    attempt_id: str | None = None
    status: TurnStatus
    fallback_facts: SmallJson = attrs.field(repr=False)
    requested_at: datetime
    eligible_at: datetime | None = None
    resolved_at: datetime | None = None
    resolution: TurnResolution | None = None
    resolution_message_id: str | None = None
    revision: Annotated[int, Integer(minimum=1)]
    last_transition: str
    last_actor_kind: str
    last_actor: str
    last_call: str
    updated_at: datetime


intent = attrs.fields(TurnIntent)

# Parameters

_KEY = Text()
SESSION = Param("session_id", _KEY)
FACTS = Param("fallback_facts", Json(65_536))
RESOLUTION = Param("resolution", Choice(TurnResolution))

# Guards

OF_SESSION = Equal(intent.target_session_id, SESSION)
FOR_SESSION = (Guard("target session", OF_SESSION),)
IS_DUE = AtMost(intent.eligible_at, NOW)
DUE = (Guard("due", IS_DUE),)
MAY_FALL_BACK = (
    Guard(
        "a fallback only when eligible",
        Or(NotEqual(RESOLUTION, TurnResolution.FALLBACK), Equal(intent.status, ELIGIBLE)),
    ),
)

# Assignments

GIVEN = (
    Set(intent.intent_id, Param("intent_id", _KEY)),
    Set(intent.source_event_id, Param("source_event_id", _KEY)),
    Set(intent.run_id, Param("run_id", RUN_ID)),
    Set(intent.workflow, Param("workflow", _KEY)),
    Set(intent.target_session_id, Param("target_session_id", _KEY)),
    Set(intent.cause, Param("cause", Choice(TurnCause))),
    Set(intent.node_id, Param("node_id", _KEY, optional=True)),
    Set(intent.attempt_id, Param("attempt_id", _KEY, optional=True)),
    Set(intent.fallback_facts, FACTS),
    Set(intent.requested_at, NOW),
)
IDENTITY = (
    intent.source_event_id,
    intent.run_id,
    intent.workflow,
    intent.target_session_id,
    intent.cause,
    intent.node_id,
    intent.attempt_id,
)
HOW_RESOLVED = (
    Set(intent.resolved_at, NOW),
    Set(intent.resolution, RESOLUTION),
    Set(intent.resolution_message_id, Param("message_id", _KEY)),
)


def _in(*states: TurnStatus) -> Condition:
    """Return "the intent is in one of these states"."""
    return OneOf(intent.status, states)


TURN_INTENT = Machine(
    name="turn_intent",
    record=TurnIntent,
    table="turn_intents",
    key=intent.intent_id,
    state=intent.status,
    initial=UNRESOLVED,
    final=(RESOLVED,),
    creations=(
        Creation("ensure", PENDING, GIVEN, identity=IDENTITY),
        Creation(
            "ensure_eligible",
            ELIGIBLE,
            GIVEN + (Set(intent.eligible_at, NOW),),
            identity=IDENTITY,
        ),
    ),
    transitions=(
        Transition("claim", UNRESOLVED, None, when=FOR_SESSION + lease.FREE, assign=lease.TAKE),
        Transition(
            "claim_eligible",
            (ELIGIBLE,),
            None,
            when=FOR_SESSION + DUE + lease.FREE,
            assign=lease.TAKE,
        ),
        Transition(
            "make_eligible",
            UNRESOLVED,
            ELIGIBLE,
            assign=(Set(intent.fallback_facts, FACTS), SetOnce(intent.eligible_at, NOW)),
        ),
        Transition(
            "resolve",
            UNRESOLVED,
            RESOLVED,
            when=FOR_SESSION + lease.HELD + MAY_FALL_BACK,
            assign=lease.DROP + HOW_RESOLVED,
        ),
        Transition("release", UNRESOLVED, None, when=FOR_SESSION + lease.HELD, assign=lease.DROP),
    ),
    uniqueness=(
        Uniqueness(
            "one unresolved intent",
            (intent.run_id, intent.target_session_id),
            Not(_in(RESOLVED)),
        ),
    ),
    invariants=(
        Invariant(
            "resolved exactly when it says when", iff(_in(RESOLVED), NotNull(intent.resolved_at))
        ),
        Invariant(
            "resolved exactly when it says how", iff(_in(RESOLVED), NotNull(intent.resolution))
        ),
        Invariant(
            "resolved exactly when it names the message",
            iff(_in(RESOLVED), NotNull(intent.resolution_message_id)),
        ),
        Invariant("eligible since an instant", implies(_in(ELIGIBLE), NotNull(intent.eligible_at))),
        Invariant(
            "a fallback was eligible",
            Or(
                IsNull(intent.resolution),
                NotEqual(intent.resolution, TurnResolution.FALLBACK),
                NotNull(intent.eligible_at),
            ),
        ),
        Invariant("a resolved intent is not leased", implies(_in(RESOLVED), Not(lease.LEASED))),
        *lease.INVARIANTS,
    ),
    selections=(
        Selection(
            name="claim_eligible",
            transition="claim_eligible",
            arms=(
                Arm(
                    name="due",
                    fixed=(_in(ELIGIBLE),),
                    by=(OF_SESSION,),
                    when=(IS_DUE,),
                    order=(intent.eligible_at, intent.intent_id),
                ),
            ),
        ),
    ),
    immutable=(intent.intent_id, *IDENTITY, intent.requested_at),
    write_once=(intent.eligible_at,),
    only_by=(
        OnlyBy((intent.fallback_facts,), ("make_eligible",)),
        OnlyBy((intent.resolved_at, intent.resolution, intent.resolution_message_id), ("resolve",)),
    ),
    listed_by=(intent.requested_at, intent.intent_id),
    listed_for=(intent.target_session_id, intent.run_id),
    recorded=(
        intent.run_id,
        intent.target_session_id,
        intent.cause,
        intent.eligible_at,
        intent.resolved_at,
        intent.resolution,
        intent.resolution_message_id,
        intent.lease_holder,
    ),
    private=(intent.lease_token_hash,),
    lease=lease.COLUMNS,
)
