"""Each row of run launch's transition table, told as a story: how runs begin and wait."""

from __future__ import annotations

import pytest

from tests.machines.story import (
    ABSENT,
    ANN,
    BOB,
    CODES,
    EXPECTED,
    FOUND,
    LEASE_COLUMNS,
    START,
    Story,
    held,
    runner,
)


def test_reserve_queues_without_a_lease() -> None:
    """It costs no attempt and is available at once."""
    story = Story.reserved()

    assert story.shows("status", "attempts", "lease_generation", "started_at") == (
        "queued",
        0,
        0,
        None,
    )
    assert story.shows(*LEASE_COLUMNS) == ABSENT
    assert story.shows("available_at", "created_at", "updated_at") == (START, START, START)


def test_enqueue_is_born_with_a_lease() -> None:
    """Generation 1, the first attempt, started."""
    story = Story.enqueued()

    assert story.shows("status", "attempts", "lease_generation", "started_at") == (
        "starting",
        1,
        1,
        START,
    )
    assert story.shows("lease_holder", "lease_expires_at") == ("ann", START + 30_000)


@pytest.mark.parametrize(
    "story",
    [Story.reserved(), Story.parked(waiting=True), Story.enqueued(), Story.running()],
    ids=["queued", "parked", "starting", "running"],
)
def test_claim_takes_what_nobody_holds(story: Story) -> None:
    """From any open state once the lease is free; the generation and the attempts grow."""
    generation, attempts = story.shows("lease_generation", "attempts")
    story.after(30).then("claim", **runner(BOB, "bob", "session"))

    assert story.shows("status", "waiting", "lease_holder", "lease_holder_kind") == (
        "starting",
        False,
        "bob",
        "session",
    )
    assert story.shows("lease_generation", "attempts") == (
        int(generation or 0) + 1,
        int(attempts or 0) + 1,
    )


def test_claim_clears_the_last_error_and_keeps_the_first_start() -> None:
    """A fresh attempt of the same run."""
    story = Story.running().then(
        "park_source_changed", **held(1), error_message="changed", status_detail="why"
    )
    story.after(5).then("claim", **runner(BOB, "bob"))

    assert story.shows("error_code", "error_message", "status_detail") == (None, None, None)
    assert story.shows("started_at", "attempts") == (START, 1)


def test_claim_is_refused_while_another_lives() -> None:
    """The expiry instant itself counts as expired."""
    story = Story.enqueued().after(29.999)

    assert story.refusal("claim", **runner(BOB, "bob")) == "free"
    assert story.after(0.001).then("claim", **runner(BOB, "bob")).shows("lease_holder") == ("bob",)


def test_claim_is_refused_when_the_attempts_are_used_up() -> None:
    """No maximum, or below it."""
    story = Story.enqueued(max_attempts=1).after(31)

    assert story.refusal("claim", **runner(BOB)) == "attempts left"
    assert Story.enqueued(max_attempts=2).after(31).then("claim", **runner(BOB)).shows(
        "attempts"
    ) == (2,)


def test_claim_is_refused_once_a_cancellation_is_requested() -> None:
    """It is to end, not to begin again."""
    story = Story.running().then("request_cancel").after(31)

    assert story.refusal("claim", **runner(BOB)) == "no cancellation requested"


def test_claim_for_control_holds_without_starting() -> None:
    """The state stays, no attempt is counted; nobody else takes it meanwhile."""
    story = Story.reserved().then(
        "claim_for_control", token=ANN, holder="op", lease=runner()["lease"]
    )

    assert story.shows("status", "attempts", "lease_holder_kind", "lease_generation") == (
        "queued",
        0,
        "control",
        1,
    )
    assert story.refusal("claim", **runner(BOB)) == "free"
    assert (
        Story.enqueued().refusal(
            "claim_for_control", token=ANN, holder="op", lease=runner()["lease"]
        )
        == "starting"
    )


def test_release_control_gives_it_back() -> None:
    """Only with token and generation; also after it expired."""
    story = Story.parked().then(
        "claim_for_control", token=BOB, holder="op", lease=runner()["lease"]
    )

    assert story.refusal("release_control", **held(2)) == "held"
    assert story.refusal("release_control", **held(1, BOB)) == "held"
    assert story.after(40).then("release_control", **held(2, BOB)).shows(*LEASE_COLUMNS) == ABSENT


def test_mark_running_needs_a_live_lease() -> None:
    """What begins work needs the lease held and live."""
    story = Story.enqueued().after(29.999)

    assert story.refusal("mark_running", **held(1, BOB)) == "held"
    assert Story.enqueued().after(30).refusal("mark_running", **held(1)) == "live"
    assert story.then("mark_running", **held(1)).shows("status") == ("running",)
    assert story.refusal("mark_running", **held(1)) == "running"


def test_renew_extends_quietly_and_never_shortens() -> None:
    """Neither revision nor expiry move back; the row tells of a requested cancellation."""
    story = Story.running().then("request_cancel")
    before = story.shows("revision", "updated_at", "last_transition")
    story.after(10).then("renew", **held(1), lease=runner()["lease"])

    assert story.shows("lease_heartbeat_at", "lease_expires_at") == (START + 10_000, START + 40_000)
    assert story.shows("revision", "updated_at", "last_transition") == before
    assert story.shows("cancel_requested_at") == (START,)
    story.after(-8).then("renew", **held(1), lease=runner()["lease"])
    assert story.shows("lease_heartbeat_at", "lease_expires_at") == (START + 10_000, START + 40_000)
    assert story.after(100).refusal("renew", **held(1), lease=runner()["lease"]) == "live"


def test_park_lets_go_and_counts_afresh() -> None:
    """Waiting as given, available as given or at once; the expired holder still may."""
    story = Story.running().after(100).then("park", **held(1), waiting=True)

    assert story.shows("status", "waiting", "attempts", "available_at") == (
        "parked",
        True,
        0,
        START + 100_000,
    )
    assert story.shows(*LEASE_COLUMNS) == ABSENT
    assert story.shows("lease_generation") == (1,)
    assert Story.running().then("request_cancel").refusal("park", **held(1), waiting=False) == (
        "no cancellation requested"
    )


def test_wake_ends_waiting() -> None:
    """Only what waits, and what nobody holds."""
    story = Story.parked(waiting=True).after(5).then("wake")

    assert story.shows("status", "waiting", "available_at") == ("parked", False, START + 5_000)
    assert story.refusal("wake") == "waiting"
    controlled = Story.parked(waiting=True).then(
        "claim_for_control", token=BOB, holder="op", lease=runner()["lease"]
    )
    assert controlled.refusal("wake") == "free"


@pytest.mark.parametrize("story", [Story.enqueued(), Story.running()], ids=["starting", "running"])
def test_park_source_changed_says_so(story: Story) -> None:
    """It keeps a code that claim_next passes over; it is not waiting."""
    story.then("park_source_changed", **held(1), error_message=" other \n", status_detail=None)

    assert story.shows("status", "waiting", "attempts", *CODES) == (
        "parked",
        False,
        0,
        "workflowSourceChanged",
        "other",
    )
    assert story.shows(*LEASE_COLUMNS) == ABSENT
    assert (
        Story.running().after(30).refusal("park_source_changed", **held(1), error_message="late")
        == "live"
    )


def test_park_effect_ambiguous_waits_for_somebody() -> None:
    """It may have happened or not: a person or an observer must look."""
    story = Story.running().then("park_effect_ambiguous", **held(1), error_message="maybe")

    assert story.shows("status", "waiting", "attempts", *CODES) == (
        "parked",
        True,
        0,
        "effectAmbiguous",
        "maybe",
    )


def test_rebind_takes_a_parked_run_to_another_source() -> None:
    """Only from the source that the caller saw."""
    story = Story.parked(waiting=True)

    assert story.refusal("rebind", **runner(BOB), **FOUND, expected_source_ref="file:x") == (
        "source as expected"
    )
    story.then("rebind", **runner(BOB, "bob"), **FOUND, **EXPECTED)
    assert story.shows("status", "waiting", "workflow", "source_ref", "source") == (
        "starting",
        False,
        "w2",
        "file:w2",
        "{}",
    )
    assert story.shows("attempts", "lease_generation", "lease_holder") == (1, 2, "bob")


def test_rebind_held_keeps_generation_and_attempts() -> None:
    """The controller that holds it hands it to the runner."""
    story = Story.parked().then(
        "claim_for_control", token=BOB, holder="op", lease=runner()["lease"]
    )
    handed = {name: value for name, value in runner(BOB, "bob").items() if name != "token"}
    story.after(1).then("rebind_held", **held(2, BOB), **handed, **FOUND, **EXPECTED)

    assert story.shows("status", "attempts", "lease_generation") == ("starting", 0, 2)
    assert story.shows("lease_holder", "lease_holder_kind", "lease_expires_at") == (
        "bob",
        "host",
        START + 31_000,
    )


def test_requeue_returns_a_launch_that_never_began() -> None:
    """Its lease ran out; the old holder is fenced off."""
    story = Story.enqueued().after(30).then("requeue")

    assert story.shows("status", "lease_generation", "attempts") == ("queued", 2, 1)
    assert story.shows(*LEASE_COLUMNS) == ABSENT
    assert Story.enqueued().refusal("requeue") == "free"
    assert Story.enqueued(max_attempts=1).after(30).refusal("requeue") == "attempts left"
