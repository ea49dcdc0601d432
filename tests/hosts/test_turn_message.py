"""Identities and texts of successor turns are those that another implementation computes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from persistence.hosts.turn_message import (
    bounded_reason,
    describe,
    digest_of,
    fallback_text,
    message_details,
    message_id,
    source_event_id,
)
from persistence.stores.turn_facts import Reason, TurnFacts, facts_of, wire_of
from statemachine import TurnCause, TurnResolution
from statemachine.errors import InvalidArgument
from statemachine.kinds import canonical_json
from tests.hosts.test_safe_error import spelled

VECTORS = Path(__file__).parents[1] / "vectors"
IDS = json.loads((VECTORS / "deferred_turn_ids.json").read_text())
CONTENT = json.loads((VECTORS / "deferred_turn_content.json").read_text())["vectors"]
REASONS = json.loads((VECTORS / "bounded_reason.json").read_text())["vectors"]


def given_of(vector: dict[str, Any]) -> dict[str, Any]:
    """Return a vector's arguments, long texts spelled out."""
    return {
        name: spelled(value) if isinstance(value, dict) else value
        for name, value in vector["args"].items()
    }


@pytest.mark.parametrize("vector", IDS["digest_preimages"])
def test_digest(vector: dict[str, Any]) -> None:
    """The digest is over the canonical JSON of the texts, whatever they hold."""
    assert vector["sha256"] == digest_of(vector["parts"])


@pytest.mark.parametrize("vector", IDS["source_event_ids"])
def test_source_event(vector: dict[str, Any]) -> None:
    """One event has one id; what is absent has a name of its own."""
    given = given_of(vector)

    named = source_event_id(given.pop("run_id"), TurnCause(given.pop("cause")), **given)

    assert vector["source_event_id"] == named


@pytest.mark.parametrize("vector", IDS["descriptors"])
def test_descriptor(vector: dict[str, Any]) -> None:
    """Intent id, stored facts and message ids follow from the event."""
    given = given_of(vector)
    descriptor = describe(
        run_id=given.pop("run_id"),
        workflow=given.pop("workflow_name"),
        session_id=given.pop("target_session_id"),
        cause=TurnCause(given.pop("cause")),
        source_event=given.pop("source_event_id"),
        **given,
    )

    wanted = dict(vector["descriptor"])
    facts = wanted.pop("fallback_facts")
    assert wanted.pop("workflow_ref") == descriptor.workflow
    assert wanted == {name: getattr(descriptor, name) for name in wanted}
    assert facts == wire_of(descriptor.fallback_facts)
    assert vector["message_ids"] == {
        resolution.value: message_id(descriptor.intent_id, resolution)
        for resolution in TurnResolution
    }


@pytest.mark.parametrize("vector", CONTENT)
def test_content(vector: dict[str, Any]) -> None:
    """The text says what was observed, in one paragraph; the details are the row's."""
    given = vector["facts"]
    facts = TurnFacts(
        workflow_name=given["workflowName"],
        run_id=given["runId"],
        observed_state=given["observedState"],
        cause=TurnCause(given["cause"]),
        node_id=given["nodeId"],
        attempt_id=given["attemptId"],
        reason=None if given["reason"] is None else Reason(spelled(given["reason"])),
        handoff=given["handoff"],
    )
    row = vector["row"]

    details = message_details(
        "deferred-turn:x", run_id=row["run_id"], cause=TurnCause(row["cause"])
    )

    assert vector["content"] == fallback_text(facts)
    assert vector["details"] == details


@pytest.mark.parametrize("vector", REASONS)
def test_reason(vector: dict[str, Any]) -> None:
    """Trimmed, none when blank, and cut at 8,192 characters instead of UTF-16 units (D18)."""
    given = vector["input"]
    text = None if given is None or given == {"$js": "undefined"} else spelled(given)

    told = bounded_reason(text)

    if "result" in vector:
        assert vector["result"] == told
        return
    wanted = vector["result_long"]
    units = str(told).encode("utf-16-le")
    if all(ord(letter) < 0x10000 for letter in str(told)):
        assert wanted["sha256_of_utf16le"] == hashlib.sha256(units).hexdigest()
    else:
        assert str(text)[:8_192] == told
        assert str(told).startswith(wanted["head"][:4])


def test_stored_facts_are_the_recorded_text() -> None:
    """The canonical text of the facts, byte for byte, but for names that are no keys (D18)."""
    refused = []
    for vector in IDS["descriptors"]:
        try:
            facts = facts_of(vector["descriptor"]["fallback_facts"])
        except InvalidArgument as error:
            refused.append(error.field)
        else:
            text = canonical_json(wire_of(facts), "facts", 65_536)

            assert vector["fallback_facts_json"] == text

    assert refused == [
        "fallback_facts.nodeId",
        "fallback_facts.nodeId",
        "fallback_facts.attemptId",
    ]
