"""What the turn intent's creations keep beside what every intent has."""

from __future__ import annotations

import pytest

from statemachine import TURN_INTENT
from tests.machines.told import Told

GIVEN = {
    "intent_id": "i1",
    "source_event_id": "event-1",
    "run_id": "r1",
    "workflow": "build",
    "target_session_id": "s1",
    "cause": "failed",
    "fallback_facts": {},
}


@pytest.mark.parametrize("creation", ["ensure", "ensure_eligible"])
def test_an_intent_keeps_the_node_and_attempt_that_it_came_from(creation: str) -> None:
    """Given or not."""
    names = ("node_id", "attempt_id")
    given = {**GIVEN, "node_id": "plan", "attempt_id": "a1"}

    assert Told.born(TURN_INTENT, creation, given).shows(*names) == ("plan", "a1")
    assert Told.born(TURN_INTENT, creation, GIVEN).shows(*names) == (None, None)
