"""`sqlatch intents`: what sessions are owed, and what became of it."""

from __future__ import annotations

import pytest

from persistence import open_store
from persistence.hosts.turn_message import describe
from statemachine import TurnCause
from tests.cli.conftest import Call


@pytest.fixture
def intent_id(db: str) -> str:
    """An eligible intent in the database."""
    descriptor = describe(
        run_id="r1",
        workflow="build",
        session_id="s1",
        cause=TurnCause.FAILED,
        source_event="event",
        observed_state="failed",
        reason="it broke",
    )
    with open_store(db) as store:
        store.intents.ensure(**descriptor.given(), eligible=True)
    return descriptor.intent_id


def test_list_shows_what_is_owed(call: Call, intent_id: str) -> None:
    """Id, run, session, cause and state of each."""
    said = call("intents", "list")

    assert said.code == 0
    assert [word for word in (intent_id, "r1", "s1", "failed", "eligible") if word in said.out] == [
        intent_id,
        "r1",
        "s1",
        "failed",
        "eligible",
    ]


def test_list_as_json_and_by_what_is_asked(call: Call, intent_id: str) -> None:
    """By session, run and state; nothing private."""
    found = call("intents", "list", "--session", "s1", "--run", "r1", "--json").json
    other = call("intents", "list", "--status", "resolved", "--json").json

    assert [intent["intent_id"] for intent in found] == [intent_id]
    assert "lease_token_hash" not in found[0]
    assert other == []


def test_show_tells_facts_and_history(call: Call, intent_id: str) -> None:
    """What the fallback may say, and each step."""
    shown = call("intents", "show", intent_id, "--json").json
    printed = call("intents", "show", intent_id)

    assert shown["fallback_facts"]["reason"] == "it broke"
    assert [step["transition"] for step in shown["history"]] == ["ensure_eligible"]
    assert "it broke" in printed.out
    assert "ensure_eligible" in printed.out


@pytest.mark.usefixtures("intent_id")
def test_show_of_what_is_not_there(call: Call) -> None:
    """Exit 1, and the reason."""
    said = call("intents", "show", "nope")

    assert (said.code, said.err) == (1, "sqlatch: there is no turn intent 'nope'\n")
