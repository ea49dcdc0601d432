"""What may happen to a workflow's turn, and which obligation each event stands for."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from persistence.hosts.safe_error import redacted
from persistence.hosts.turn_message import TurnDescriptor, bounded_reason, describe, source_event_id
from statemachine.canonical import UNSTORABLE
from statemachine.machines import RunOutcome, TurnCause

if TYPE_CHECKING:
    from statemachine.outcome import Event

MAX_STEPS = 1_000
"""How much of a run's history is read."""

USER = "user"
CALLED_OFF_BY = ("cancel", "cancel_stale", "request_cancel")
LAUNCH_NODE = "$launch"
TERMINAL_NODE = "$terminal"


class Quiet(enum.Enum):
    """What a user or a host does on purpose; no automatic turn follows."""

    CANCELLED = enum.auto()
    PAUSED = enum.auto()
    ESCAPED = enum.auto()
    SHUT_DOWN = enum.auto()


class End(enum.StrEnum):
    """What a run's turn came to, once that is durable."""

    COMPLETED = "completed"
    WAITING = "waiting"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


@frozen(kw_only=True)
class WorkflowTurn:
    """Whose turn it was.

    Attributes:
        run_id, workflow: The run.

        session_id: The session that is owed the next turn.

        child: Whether a controller started the run.
    """

    run_id: str
    workflow: str
    session_id: str
    child: bool = False


END_OF = {
    RunOutcome.COMPLETED: End.COMPLETED,
    RunOutcome.CHECKPOINTED: End.WAITING,
    RunOutcome.FAILED: End.FAILED,
    RunOutcome.TIMED_OUT: End.TIMED_OUT,
    RunOutcome.CANCELLED: End.CANCELLED,
}


def wanted_by_user(history: list[Event]) -> bool:
    """Tell whether a user called the run off, by its history."""
    return any(event.transition in CALLED_OFF_BY and event.actor.kind == USER for event in history)


def aborted(
    turn: WorkflowTurn,
    cause: TurnCause,
    *,
    node_id: str | None,
    attempt_id: str | None,
    reason: str | None,
) -> TurnDescriptor:
    """Return the obligation of an active turn that is aborted."""
    handoff = cause is TurnCause.CLAIM_LOST
    return describe(
        run_id=turn.run_id,
        workflow=turn.workflow,
        session_id=turn.session_id,
        cause=cause,
        source_event=source_event_id(
            turn.run_id,
            cause,
            source="agent-step-abort",
            node_id=node_id,
            attempt_id=attempt_id,
        ),
        observed_state="handedOff" if handoff else "interrupted",
        node_id=node_id,
        attempt_id=attempt_id,
        reason=told(reason),
        handoff=handoff,
    )


def failed_launch(turn: WorkflowTurn, reason: str) -> TurnDescriptor:
    """Return the obligation of a launch that failed."""
    return describe(
        run_id=turn.run_id,
        workflow=turn.workflow,
        session_id=turn.session_id,
        cause=TurnCause.LAUNCH_FAILED,
        source_event=source_event_id(
            turn.run_id, TurnCause.LAUNCH_FAILED, source="queued-launch", node_id=LAUNCH_NODE
        ),
        observed_state="failedToStart",
        node_id=LAUNCH_NODE,
        reason=told(reason),
    )


def told(reason: str | None) -> str | None:
    """Return a reason as it may be stored: without secrets, on one line, fit for JSON.

    As in all free error text, U+0000 and lone surrogates become U+FFFD.
    """
    return None if reason is None else UNSTORABLE.sub("\ufffd", redacted(reason))


def observed(descriptor: TurnDescriptor, end: End, reason: str | None) -> TurnDescriptor:
    """Return the same obligation with what was observed at the end."""
    facts = evolve(
        descriptor.fallback_facts,
        observed_state=end.value,
        reason=bounded_reason(reason),
        handoff=False,
    )
    return evolve(descriptor, fallback_facts=facts)


def terminal(turn: WorkflowTurn, end: End) -> TurnDescriptor:
    """Return the obligation of a run that failed without an abort before."""
    cause = TurnCause.TIMED_OUT if end is End.TIMED_OUT else TurnCause.FAILED
    return describe(
        run_id=turn.run_id,
        workflow=turn.workflow,
        session_id=turn.session_id,
        cause=cause,
        source_event=source_event_id(turn.run_id, cause, source="terminal", node_id=TERMINAL_NODE),
        observed_state=end.value,
        node_id=TERMINAL_NODE,
    )
