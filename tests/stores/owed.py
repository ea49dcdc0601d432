"""Turn intents and notifications, made shortly."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from persistence import IntentClaim, NotificationClaim, Store
from statemachine import Notification, TurnIntent

LEASE = timedelta(seconds=30)
SESSION = "s1"


def facts(**changed: Any) -> dict[str, Any]:
    """Return facts of run `r1`, as they stand on the wire."""
    return {
        "schema": "pi-workflows.deferred-turn-facts.v1",
        "workflowName": "build",
        "runId": "r1",
        "observedState": "failed",
        "cause": "failed",
        "nodeId": None,
        "attemptId": None,
        "reason": "it broke",
        "handoff": False,
        **changed,
    }


def owe(store: Store, intent_id: str = "i1", **changed: Any) -> TurnIntent:
    """Oblige the session to a turn."""
    run_id = changed.get("run_id", "r1")
    given: dict[str, Any] = {
        "source_event_id": "event-1",
        "run_id": run_id,
        "workflow": "build",
        "target_session_id": SESSION,
        "cause": "failed",
        "fallback_facts": facts(runId=run_id),
        **changed,
    }
    return store.intents.ensure(intent_id=intent_id, **given)


def taken(store: Store, intent_id: str = "i1", **changed: Any) -> IntentClaim:
    """Take the delivery of an intent."""
    given: dict[str, Any] = {"session_id": SESSION, "holder": "ann", "lease": LEASE, **changed}
    claim = store.intents.claim(intent_id, **given)
    assert isinstance(claim, IntentClaim), claim

    return claim


def notify(store: Store, index: int = 1, **changed: Any) -> Notification:
    """Put a message into the session's outbox."""
    given: dict[str, Any] = {
        "run_id": "r1",
        "node_id": "plan",
        "attempt_id": "a1",
        "notification_index": index,
        "target_session_id": SESSION,
        "kind": "progress",
        "content": f"message {index}",
        **changed,
    }
    return store.notifications.enqueue(**given)


def batch(store: Store, holder: str = "ann", **changed: Any) -> list[NotificationClaim]:
    """Take the delivery of the session's oldest messages."""
    given: dict[str, Any] = {"holder": holder, "lease": LEASE, **changed}
    return store.notifications.claim_batch(SESSION, **given)
