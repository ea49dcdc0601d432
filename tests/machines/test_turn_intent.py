"""Each row of the turn intent's transition table, told as a story."""

from __future__ import annotations

from typing import Any

import pytest

from statemachine import TURN_INTENT
from tests.machines.told import BOB, START, Told, held, holder

GIVEN: dict[str, Any] = {
    "intent_id": "i1",
    "source_event_id": "event-1",
    "run_id": "r1",
    "workflow": "build",
    "target_session_id": "s1",
    "cause": "failed",
    "fallback_facts": {"reason": "first"},
}
MINE = {"session_id": "s1"}
OURS = {"session_id": "s2"}
MESSAGE = {"message_id": "m1"}


def pending() -> Told:
    """An intent that is not eligible yet."""
    return Told.born(TURN_INTENT, "ensure", GIVEN)


def eligible() -> Told:
    """An intent that was eligible at once."""
    return Told.born(TURN_INTENT, "ensure_eligible", GIVEN)


BOTH = pytest.mark.parametrize("born", [pending, eligible])


def test_ensure_is_pending() -> None:
    """Requested now, eligible at no instant, leased by nobody."""
    assert pending().shows("status", "requested_at", "eligible_at", "lease_holder") == (
        "pending",
        START,
        None,
        None,
    )


def test_ensure_eligible_is_eligible_at_once() -> None:
    """Since the very instant of its request."""
    assert eligible().shows("status", "requested_at", "eligible_at") == ("eligible", START, START)


@BOTH
def test_claim_takes_what_nobody_delivers(born: Any) -> None:
    """Pending or eligible, it stays so, and the generation grows."""
    story = born()
    state = story.shows("status")
    story.then("claim", **holder(), **MINE)

    assert story.shows("status") == state
    assert story.shows("lease_holder", "lease_generation", "lease_expires_at") == (
        "ann",
        1,
        START + 30_000,
    )


@BOTH
def test_claim_is_for_the_target_session(born: Any) -> None:
    """No other session delivers it."""
    assert born().refused("claim", **holder(), **OURS) == "target session"


@BOTH
def test_claim_waits_for_the_lease(born: Any) -> None:
    """At the very instant of its expiry it is free."""
    story = born().then("claim", **holder(), **MINE)
    before = story.after(29.999).refused("claim", **holder(BOB, "bob"), **MINE)
    story.after(0.001).then("claim", **holder(BOB, "bob"), **MINE)

    assert before == "free"
    assert story.shows("lease_holder", "lease_generation") == ("bob", 2)


def test_claim_eligible_takes_what_is_due() -> None:
    """Not what is pending; not what another delivers; not for another session."""
    story = eligible()
    other = story.refused("claim_eligible", **holder(), **OURS)
    story.then("claim_eligible", **holder(), **MINE)

    assert pending().refused("claim_eligible", **holder(), **MINE) == "state"
    assert other == "target session"
    assert story.refused("claim_eligible", **holder(BOB, "bob"), **MINE) == "free"


def test_a_clock_that_stepped_back_makes_nothing_due() -> None:
    """Eligible in the future is not due."""
    assert eligible().after(-1).refused("claim_eligible", **holder(), **MINE) == "due"


def test_make_eligible_renews_the_facts_and_keeps_the_instant() -> None:
    """Eligible since the first time, with the newest facts."""
    story = pending().after(1).then("make_eligible", fallback_facts={"reason": "second"})
    story.after(1).then("make_eligible", fallback_facts={"reason": "third"})

    assert story.shows("status", "eligible_at", "fallback_facts") == (
        "eligible",
        START + 1_000,
        '{"reason":"third"}',
    )


def test_make_eligible_leaves_a_delivery_alone() -> None:
    """Whoever delivers it just now goes on."""
    story = pending().then("claim", **holder(), **MINE)
    story.then("make_eligible", fallback_facts={"reason": "second"})

    assert story.shows("lease_holder", "lease_generation") == ("ann", 1)


@BOTH
@pytest.mark.parametrize("resolution", ["workflowPrompt", "presentation"])
def test_resolve_by_what_the_workflow_sends(born: Any, resolution: str) -> None:
    """Eligible or not: when, how and by which message; the lease is gone."""
    story = born().then("claim", **holder(), **MINE)
    story.after(1).then("resolve", resolution=resolution, **MESSAGE, **held(), **MINE)

    assert story.shows("status", "resolution", "resolution_message_id", "resolved_at") == (
        "resolved",
        resolution,
        "m1",
        START + 1_000,
    )
    assert story.shows("lease_holder", "lease_expires_at") == (None, None)


def test_a_fallback_only_when_eligible() -> None:
    """Else something natural may still come."""
    early = pending().then("claim", **holder(), **MINE)
    due = eligible().then("claim", **holder(), **MINE)
    call = {"resolution": "fallback", **MESSAGE, **held(), **MINE}

    assert early.refused("resolve", **call) == "a fallback only when eligible"
    assert due.then("resolve", **call).shows("resolution") == ("fallback",)


@BOTH
@pytest.mark.parametrize("name", ["resolve", "release"])
def test_an_expired_lease_does_not_throw_the_holder_out(born: Any, name: str) -> None:
    """Until somebody has taken it, what was done can be settled."""
    more = {"resolution": "presentation", **MESSAGE} if name == "resolve" else {}
    story = born().then("claim", **holder(), **MINE).after(86_400)
    story.then(name, **more, **held(), **MINE)

    assert story.shows("lease_holder") == (None,)


@BOTH
@pytest.mark.parametrize("name", ["resolve", "release"])
def test_who_lost_the_lease_changes_nothing(born: Any, name: str) -> None:
    """Another's token, another generation, another session."""
    more = {"resolution": "presentation", **MESSAGE} if name == "resolve" else {}
    story = born().then("claim", **holder(), **MINE).after(30)
    story.then("claim", **holder(BOB, "bob"), **MINE)

    assert story.refused(name, **more, **held(), **MINE) == "held"
    assert story.refused(name, **more, **held(1, BOB), **MINE) == "held"
    assert story.refused(name, **more, **held(2, BOB), **OURS) == "target session"


@BOTH
def test_release_gives_it_back(born: Any) -> None:
    """To whoever comes next; the generation stays."""
    story = born().then("claim", **holder(), **MINE)
    story.then("release", **held(), **MINE)
    story.then("claim", **holder(BOB, "bob"), **MINE)

    assert story.shows("lease_holder", "lease_generation") == ("bob", 2)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("claim", {**holder(), **MINE}),
        ("claim_eligible", {**holder(), **MINE}),
        ("make_eligible", {"fallback_facts": {}}),
        ("resolve", {"resolution": "fallback", **MESSAGE, **held(), **MINE}),
        ("release", {**held(), **MINE}),
    ],
)
def test_resolved_is_final(name: str, values: dict[str, Any]) -> None:
    """Nothing moves a resolved intent."""
    story = eligible().then("claim", **holder(), **MINE)
    story.then("resolve", resolution="fallback", **MESSAGE, **held(), **MINE)

    assert story.refused(name, **values) == "state"
