"""What each row of run launch's transition table says beside its gist, told as stories."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from statemachine.kinds import EPOCH
from tests.machines.story import (
    BOB,
    CODES,
    ERROR,
    EXPECTED,
    FOUND,
    LEASE,
    START,
    Story,
    held,
    runner,
)

CONTROL: dict[str, Any] = {"token": BOB, "holder": "op", "lease": LEASE}
HANDED = {name: value for name, value in runner(BOB, "bob").items() if name != "token"}
DETAILS = (*CODES, "status_detail", "started_at")


def never_began() -> Story:
    """A launch that was parked before anybody began it, for its source had changed."""
    story = Story.reserved().then("claim_for_control", **CONTROL)
    return story.then(
        "park_source_changed", **held(1, BOB), error_message="changed", status_detail="how"
    )


def controlled(*, waiting: bool = False) -> Story:
    """A parked run under a control lease, generation 2."""
    return Story.parked(waiting=waiting).then("claim_for_control", **CONTROL)


@pytest.mark.parametrize("begin", [Story.reserved, Story.enqueued], ids=["reserve", "enqueue"])
def test_a_creation_keeps_what_it_was_given(begin: Any) -> None:
    """Session, pin, parent and the most attempts."""
    story = begin(
        execution_mode="interactive",
        origin_session_id="s1",
        affinity_runner_id="ann",
        affinity_until=EPOCH + timedelta(milliseconds=START),
        parent_run_id="r0",
        max_attempts=3,
    )

    assert story.shows(
        "execution_mode",
        "origin_session_id",
        "affinity_runner_id",
        "affinity_until",
        "parent_run_id",
        "max_attempts",
    ) == ("interactive", "s1", "ann", START, "r0", 3)


def test_the_first_claim_begins_it() -> None:
    """From then on the run counts as started."""
    assert Story.reserved().after(3).then("claim", **runner()).shows("started_at") == (
        START + 3_000,
    )


def test_control_is_refused_while_another_lives() -> None:
    """Also while the other only controls."""
    assert controlled().refusal("claim_for_control", **CONTROL) == "free"
    assert Story.parked().then("claim_for_control", **CONTROL).after(30).then(
        "claim_for_control", **CONTROL
    ).shows("lease_generation") == (3,)


def test_wake_leaves_what_is_to_be_cancelled() -> None:
    """Somebody asked for its end; it does not begin again."""
    story = controlled(waiting=True).then("request_cancel").then("release_control", **held(2, BOB))

    assert story.refusal("wake") == "no cancellation requested"


def test_park_source_changed_ends_waiting_and_is_available_at_once() -> None:
    """Whoever restores the source can have it claimed."""
    story = controlled(waiting=True).after(4)
    story.then("park_source_changed", **held(2, BOB), error_message="changed", status_detail=None)

    assert story.shows("waiting", "available_at") == (False, START + 4_000)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("park_source_changed", {"error_message": "m", "status_detail": None}),
        ("park_effect_ambiguous", {"error_message": "m"}),
    ],
)
def test_nothing_is_parked_that_is_to_be_cancelled(name: str, given: dict[str, Any]) -> None:
    """The holder ends it instead."""
    story = Story.running().then("request_cancel")

    assert story.refusal(name, **held(1), **given) == "no cancellation requested"


def test_park_effect_ambiguous_needs_a_live_lease() -> None:
    """At the instant of the expiry others may have begun."""
    story = Story.running().after(29.999)

    assert (
        Story.running().after(30).refusal("park_effect_ambiguous", **held(1), error_message="maybe")
        == "live"
    )
    assert story.then("park_effect_ambiguous", **held(1), error_message="maybe").shows(
        "status"
    ) == ("parked",)


def test_rebind_begins_afresh() -> None:
    """Its first start, and nothing of the last error."""
    story = never_began()

    assert story.shows(*DETAILS) == ("workflowSourceChanged", "changed", "how", None)
    story.after(2).then("rebind", **runner(BOB, "bob"), **FOUND, **EXPECTED)
    assert story.shows(*DETAILS) == (None, None, None, START + 2_000)


def test_rebind_held_begins_afresh() -> None:
    """Its first start, and nothing of the last error."""
    story = never_began().then("claim_for_control", **CONTROL).after(2)
    story.then("rebind_held", **held(2, BOB), **HANDED, **FOUND, **EXPECTED)

    assert story.shows(*DETAILS) == (None, None, None, START + 2_000)


def test_rebind_takes_only_what_is_free_and_goes_on() -> None:
    """Not from a live holder, and not what is to be cancelled."""
    given = {**runner(BOB, "bob"), **FOUND, **EXPECTED}

    assert Story.enqueued().refusal("rebind", **given) == "free"
    assert controlled().then("request_cancel").after(30).refusal("rebind", **given) == (
        "no cancellation requested"
    )


def test_rebind_held_needs_a_live_lease_on_what_goes_on() -> None:
    """What begins work needs the lease held and live."""
    given = {**held(2, BOB), **HANDED, **FOUND, **EXPECTED}

    assert controlled().after(30).refusal("rebind_held", **given) == "live"
    assert controlled().then("request_cancel").refusal("rebind_held", **given) == (
        "no cancellation requested"
    )


def test_rebind_held_extends_and_never_shortens() -> None:
    """A clock that moved back takes nothing away."""
    given = {**held(2, BOB), **HANDED, **FOUND, **EXPECTED}
    times = ("lease_heartbeat_at", "lease_expires_at")

    assert controlled().after(1).then("rebind_held", **given).shows(*times) == (
        START + 1_000,
        START + 31_000,
    )
    assert controlled().after(-5).then("rebind_held", **given).shows(*times) == (
        START,
        START + 30_000,
    )


def test_requeue_leaves_what_is_to_be_cancelled() -> None:
    """As the table says, though no call leads to such a row."""
    story = Story.enqueued().after(30)
    story.row = {**story.row, "cancel_requested_at": START}

    assert story.refusal("requeue") == "no cancellation requested"


def test_reap_leaves_what_is_to_be_cancelled() -> None:
    """It ends as cancelled, not as failed."""
    story = Story.running(max_attempts=1).then("request_cancel").after(30)

    assert story.refusal("reap", error_message="lost it") == "no cancellation requested"


def test_a_failed_run_keeps_its_result() -> None:
    """Whether its holder failed it or nobody held it."""
    failed = {**ERROR, "outcome": "failed", "result": [1]}

    assert Story.running().then("fail", **held(1), **failed).shows("result") == ("[1]",)
    assert Story.parked().then("reject", **failed).shows("result") == ("[1]",)


@pytest.mark.parametrize(
    ("story", "name", "generation"),
    [
        (Story.reserved(), "cancel", 1),
        (Story.running().after(30), "cancel_stale", 2),
        (Story.running().then("request_cancel").after(30), "reap_cancelled", 2),
    ],
    ids=["cancel", "cancel_stale", "reap_cancelled"],
)
def test_what_is_called_off_says_so(story: Story, name: str, generation: int) -> None:
    """By its code, and with a generation that fences the last holder off."""
    story.then(name)

    assert story.shows("outcome", "error_code", "lease_generation") == (
        "cancelled",
        "cancelled",
        generation,
    )
