"""The facts of a turn intent: exact names, bounds, and the row's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from persistence import ManualClock, Store, TurnFacts, open_store
from persistence.stores.turn_facts import facts_of, wire_of
from statemachine import TurnCause
from statemachine.errors import InvalidArgument
from tests.stores.owed import facts, owe


@pytest.fixture
def memory(clock: ManualClock) -> Iterator[Store]:
    """An empty store in memory."""
    with open_store(":memory:", clock=clock) as store:
        yield store


WRONG: dict[str, dict[str, Any]] = {
    "unknown": {"extra": 1},
    "schema": {"schema": "v2"},
    "workflowName": {"workflowName": ""},
    "runId": {"runId": 7},
    "observedState": {"observedState": "a\nb"},
    "cause": {"cause": "unheard of"},
    "nodeId": {"nodeId": 3},
    "attemptId": {"attemptId": "x" * 513},
    "reason": {"reason": "x" * 8_193},
    "handoff": {"handoff": 1},
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_facts_are_named(memory: Store, name: str) -> None:
    """A wrong type, a broken bound, an unknown field."""
    with pytest.raises(InvalidArgument) as error:
        owe(memory, fallback_facts=facts(**WRONG[name]))

    assert name in str(error.value)
    assert memory.intents.list() == []


@pytest.mark.parametrize("name", list(facts()))
def test_missing_facts_are_named(memory: Store, name: str) -> None:
    """Each field is needed, also where it may be null."""
    document = facts()
    del document[name]

    with pytest.raises(InvalidArgument) as error:
        owe(memory, fallback_facts=document)

    assert error.value.field == f"fallback_facts.{name}"


@pytest.mark.parametrize(
    "other",
    [
        {"runId": "r2"},
        {"cause": "timedOut"},
        {"nodeId": "plan"},
        {"attemptId": "a1"},
        {"workflowName": "other"},
    ],
    ids=str,
)
def test_facts_are_the_rows_own(memory: Store, other: dict[str, Any]) -> None:
    """When it is created, and when it becomes eligible."""
    (name,) = other
    with pytest.raises(InvalidArgument, match=name):
        owe(memory, fallback_facts=facts(**other))
    before = owe(memory)

    with pytest.raises(InvalidArgument, match=name):
        memory.intents.make_eligible("i1", fallback_facts=facts(**other))

    assert memory.intents.get("i1") == before


def test_facts_as_a_class_and_on_the_wire() -> None:
    """The class has Python's names, the wire its own, and neither loses anything."""
    told = TurnFacts(
        workflow_name="build",
        run_id="r1",
        observed_state="failed",
        cause=TurnCause.FAILED,
        node_id=None,
        attempt_id=None,
        reason=None,
        handoff=False,
    )

    assert wire_of(told) == facts(reason=None)
    assert facts_of(wire_of(told)) == told
    assert facts_of(facts(reason="")).reason == ""


@pytest.mark.parametrize("wrong", [None, [], "text", 3])
def test_facts_are_an_object(wrong: Any) -> None:
    """Anything else is refused."""
    with pytest.raises(InvalidArgument, match="an object of turn facts"):
        facts_of(wrong)
