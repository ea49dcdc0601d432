"""Each row of the notification's transition table, told as a story."""

from __future__ import annotations

from typing import Any

import pytest

from statemachine import NOTIFICATION
from statemachine.errors import InvalidArgument
from tests.machines.told import BOB, START, Told, held, holder

GIVEN: dict[str, Any] = {
    "notification_id": "n1",
    "run_id": "r1",
    "node_id": "plan",
    "attempt_id": "a1",
    "notification_index": 1,
    "target_session_id": "s1",
    "kind": "progress",
    "content": "  half done\n",
}
MINE = {"session_id": "s1"}
OURS = {"session_id": "s2"}


def enqueued(**given: Any) -> Told:
    """A notification in the outbox."""
    return Told.born(NOTIFICATION, "enqueue", {**GIVEN, **given})


def test_enqueue_is_pending_and_trimmed() -> None:
    """Nobody delivers it yet."""
    assert enqueued().shows("status", "content", "created_at", "lease_holder") == (
        "pending",
        "half done",
        START,
        None,
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content", " \n\t "),
        ("content", "x" * 65_537),
        ("content", "a\x00b"),
        ("content", "a\ud800b"),
        ("content", 7),
        ("notification_index", 0),
        ("kind", "launch_failure"),
        ("run_id", "../x"),
    ],
)
def test_enqueue_refuses_what_is_out_of_bounds(field: str, value: Any) -> None:
    """Nothing is cut and nothing is replaced: what is delivered is what was given."""
    with pytest.raises(InvalidArgument, match=field):
        enqueued(**{field: value})


def test_content_of_the_greatest_length() -> None:
    """65,536 characters once trimmed, of whatever width."""
    story = enqueued(content=f" {'日' * 65_536} ")

    assert len(str(story.row["content"])) == 65_536


def test_claim_is_for_the_target_session_and_one_at_a_time() -> None:
    """Until the lease has run out."""
    story = enqueued()
    elsewhere = story.refused("claim", **holder(), **OURS)
    story.then("claim", **holder(), **MINE)
    taken = story.after(29.999).refused("claim", **holder(BOB, "bob"), **MINE)
    story.after(0.001).then("claim", **holder(BOB, "bob"), **MINE)

    assert (elsewhere, taken) == ("target session", "free")
    assert story.shows("status", "lease_holder", "lease_generation") == ("pending", "bob", 2)


def test_mark_delivered_needs_the_claim() -> None:
    """Also after the lease has run out, as long as nobody else has it."""
    story = enqueued().then("claim", **holder(), **MINE).after(86_400)
    wrong = [
        story.refused("mark_delivered", **held(2), **MINE),
        story.refused("mark_delivered", **held(1, BOB), **MINE),
        story.refused("mark_delivered", **held(), **OURS),
    ]
    story.then("mark_delivered", **held(), **MINE)

    assert wrong == ["held", "held", "target session"]
    assert story.shows("status", "delivered_at", "lease_holder") == ("delivered", story.now, None)


@pytest.mark.parametrize("name", ["claim", "mark_delivered"])
def test_delivered_is_final(name: str) -> None:
    """Nothing is delivered twice."""
    story = enqueued().then("claim", **holder(), **MINE)
    story.then("mark_delivered", **held(), **MINE)
    values = {**(holder() if name == "claim" else held()), **MINE}

    assert story.refused(name, **values) == "state"
