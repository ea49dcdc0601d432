"""The identities and texts of successor turns, which other implementations compute alike."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import attrs
from attrs import frozen

from persistence.stores.turn_facts import MAX_REASON, Reason, TurnFacts, facts_of
from statemachine.kinds import trimmed
from statemachine.machines import TurnCause, TurnResolution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from statemachine.machines import TurnIntent

MESSAGE_TYPE = "pi-workflows-deferred-turn"
DETAILS_SCHEMA = "pi-workflows.deferred-turn-message.v1"

_LONE = re.compile("[\ud800-\udfff]")
_INSPECT = "Inspect the durable workflow state before you explain the outcome or"


@frozen(kw_only=True)
class TurnDescriptor:
    """What `store.intents.ensure` is given: the identity of an obligation, and its facts."""

    intent_id: str
    source_event_id: str
    run_id: str
    workflow: str
    target_session_id: str
    cause: TurnCause
    node_id: str | None
    attempt_id: str | None
    fallback_facts: TurnFacts

    def given(self) -> dict[str, Any]:
        """Return it as the arguments of `ensure`."""
        return attrs.asdict(self, recurse=False)


@frozen(kw_only=True)
class TurnMessage:
    """A fallback message.

    Attributes:
        message_id: Its id, the same whoever sends it.

        type: Its type on the wire.

        text: One paragraph of observed facts; it never claims that recovery happened.

        details: What a reader of the conversation knows it by.
    """

    message_id: str
    type: str
    text: str
    details: dict[str, str]


def digest_of(parts: Sequence[str]) -> str:
    """Return the SHA-256, in hexadecimal, of the canonical JSON of an array of texts."""
    text = json.dumps(list(parts), ensure_ascii=False, separators=(",", ":"))
    plain = _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return hashlib.sha256(plain.encode()).hexdigest()


def source_event_id(
    run_id: str,
    cause: TurnCause,
    *,
    source: str | None = None,
    node_id: str | None = None,
    attempt_id: str | None = None,
) -> str:
    """Return the id of the event that stopped or stranded a turn."""
    node, attempt = _named(node_id, attempt_id)
    digest = digest_of((run_id, "run" if source is None else source, node, attempt, cause.value))
    return f"turn-source:{digest}"


def message_id(intent_id: str, resolution: TurnResolution) -> str:
    """Return the id of the message that resolves an intent."""
    return f"turn-message:{digest_of((intent_id, resolution.value))}"


def describe(
    *,
    run_id: str,
    workflow: str,
    session_id: str,
    cause: TurnCause,
    source_event: str,
    observed_state: str,
    node_id: str | None = None,
    attempt_id: str | None = None,
    reason: str | None = None,
    handoff: bool = False,
) -> TurnDescriptor:
    """Return the descriptor of an obligation; the same event always has the same ids."""
    node, attempt = _named(node_id, attempt_id)
    digest = digest_of((session_id, run_id, source_event, node, attempt, cause.value))
    return TurnDescriptor(
        intent_id=f"deferred-turn:{digest}",
        source_event_id=source_event,
        run_id=run_id,
        workflow=workflow,
        target_session_id=session_id,
        cause=cause,
        node_id=node_id,
        attempt_id=attempt_id,
        fallback_facts=TurnFacts(
            workflow_name=workflow,
            run_id=run_id,
            observed_state=observed_state,
            cause=cause,
            node_id=node_id,
            attempt_id=attempt_id,
            reason=bounded_reason(reason),
            handoff=handoff,
        ),
    )


def bounded_reason(reason: str | None) -> Reason | None:
    """Return a reason trimmed and cut at 8,192 characters; a blank one is none."""
    text = trimmed(reason or "")[:MAX_REASON]
    return Reason(text) if text else None


def fallback_text(facts: TurnFacts) -> str:
    """Return what a fallback message says of observed facts, in one paragraph."""
    parts = [_what_happened(facts)]
    source = [
        f"{what} {name}"
        for what, name in (("node", facts.node_id), ("attempt", facts.attempt_id))
        if name is not None
    ]
    if source:
        parts.append(f"Source: {', '.join(source)}.")
    if facts.reason is not None:
        period = "" if facts.reason.endswith((".", "!", "?")) else "."
        parts.append(f"Reason: {facts.reason}{period}")
    failed_to_start = facts.cause is TurnCause.LAUNCH_FAILED
    then = (
        "start a corrected workflow" if failed_to_start else "take any authorized corrective action"
    )
    return " ".join([*parts, f"{_INSPECT} {then}."])


def fallback_message(intent: TurnIntent) -> TurnMessage:
    """Return the message that gives a session its turn where nothing natural did."""
    return TurnMessage(
        message_id=message_id(intent.intent_id, TurnResolution.FALLBACK),
        type=MESSAGE_TYPE,
        text=fallback_text(facts_of(intent.fallback_facts)),
        details=message_details(intent.intent_id, run_id=intent.run_id, cause=intent.cause),
    )


def message_details(intent_id: str, *, run_id: str, cause: TurnCause) -> dict[str, str]:
    """Return what a reader of the conversation knows a fallback message by."""
    return {
        "schema": DETAILS_SCHEMA,
        "turnIntentId": intent_id,
        "runId": run_id,
        "cause": cause.value,
    }


def _named(node_id: str | None, attempt_id: str | None) -> tuple[str, str]:
    node = "$run" if node_id is None else node_id
    return node, "$none" if attempt_id is None else attempt_id


def _what_happened(facts: TurnFacts) -> str:
    workflow = f"Workflow {facts.workflow_name}"
    run = f"(run {facts.run_id})"
    if facts.cause is TurnCause.LAUNCH_FAILED:
        return f"{workflow} failed to start {run}."
    if facts.handoff:
        state = f"Observed state: {facts.observed_state}."
        return f"{workflow} was handed to another runner {run}. {state}"
    return f"{workflow} ended with state {facts.observed_state} {run}."
