"""Each row of run launch's transition table, told as a story: how runs end."""

from __future__ import annotations

from typing import Any

import pytest

from statemachine.kinds import Plain
from statemachine.machines.run_launch import RUN_LAUNCH
from statemachine.outcome import LostLease, Refused
from tests.machines.story import (
    ABSENT,
    BOB,
    CLEARED,
    CODES,
    ERROR,
    EXPECTED,
    FOUND,
    LEASE_COLUMNS,
    START,
    Story,
    held,
    runner,
)


@pytest.mark.parametrize("outcome", ["completed", "checkpointed", "failed", "timed_out"])
@pytest.mark.parametrize("begin", [Story.enqueued, Story.running], ids=["starting", "running"])
def test_finish_ends_it_with_an_outcome(outcome: str, begin: Any) -> None:
    """Its holder alone, also after the expiry; the input is forgotten, the result kept."""
    story = begin().after(99).then("finish", **held(1), outcome=outcome, result=[1])

    assert story.shows("status", "outcome", "result", "finished_at") == (
        "done",
        outcome,
        "[1]",
        START + 99_000,
    )
    assert story.shows(*CLEARED) == ("null", "{}")
    assert story.shows(*LEASE_COLUMNS) == ABSENT


@pytest.mark.parametrize("outcome", ["failed", "timed_out"])
def test_fail_says_why(outcome: str) -> None:
    """Code and message are kept."""
    story = Story.running().then("fail", **held(1), **ERROR, outcome=outcome)

    assert story.shows("status", "outcome", *CODES, *CLEARED) == (
        "failed",
        outcome,
        "boom",
        "it broke",
        "null",
        "{}",
    )


@pytest.mark.parametrize(
    "story",
    [Story.reserved(), Story.parked(waiting=True), Story.enqueued(), Story.running()],
    ids=["queued", "parked", "starting", "running"],
)
def test_reject_fails_what_nobody_holds(story: Story) -> None:
    """Without a holder's token, so that the generation grows."""
    before = int(story.row["lease_generation"] or 0)
    story.after(30).then("reject", **ERROR, outcome="failed")

    assert story.shows("status", "waiting", "lease_generation") == ("failed", False, before + 1)
    assert Story.running().refusal("reject", **ERROR, outcome="failed") == "free"


def test_abort_cancels_as_the_holder() -> None:
    """Also when its cancellation was requested, also after the expiry."""
    story = Story.running().then("request_cancel").after(31).then("abort", **held(1))

    assert story.shows("status", "outcome", "error_code", "lease_generation") == (
        "cancelled",
        "cancelled",
        "cancelled",
        1,
    )
    assert Story.running().refusal("abort", **held(1, BOB)) == "held"


@pytest.mark.parametrize("story", [Story.reserved(), Story.enqueued()], ids=["queued", "starting"])
def test_cancel_calls_off_what_has_not_begun(story: Story) -> None:
    """Whoever holds it, and he is fenced off."""
    before = int(story.row["lease_generation"] or 0)
    story.then("cancel")

    assert story.shows("status", "lease_generation") == ("cancelled", before + 1)
    assert Story.running().refusal("cancel") == "running"


@pytest.mark.parametrize("story", [Story.running(), Story.parked()], ids=["running", "parked"])
def test_cancel_stale_ends_what_nobody_holds(story: Story) -> None:
    """A live holder must be asked instead."""
    assert story.after(30).then("cancel_stale").shows("status") == ("cancelled",)
    assert Story.running().refusal("cancel_stale") == "free"


def test_request_cancel_asks_the_holder_once() -> None:
    """While a holder is at work; the instant is kept."""
    story = Story.running().after(1).then("request_cancel")

    assert story.shows("status", "cancel_requested_at") == ("running", START + 1_000)
    assert story.refusal("request_cancel") == "no cancellation requested"
    assert Story.running().after(30).refusal("request_cancel") == "live"
    assert Story.parked().refusal("request_cancel") == "live"
    assert Story.enqueued().refusal("request_cancel") == "starting"


@pytest.mark.parametrize("begin", [Story.enqueued, Story.running], ids=["starting", "running"])
def test_reap_fails_what_was_lost_too_often(begin: Any) -> None:
    """Its lease ran out and its attempts are used up."""
    story = begin(max_attempts=1).after(30).then("reap", error_message="lost it")

    assert story.shows("status", "outcome", *CODES, "lease_generation") == (
        "failed",
        "failed",
        "lost",
        "lost it",
        2,
    )
    assert begin(max_attempts=2).after(30).refusal("reap", error_message="x") == "attempts used up"
    assert begin().after(30).refusal("reap", error_message="x") == "attempts used up"
    assert begin(max_attempts=1).refusal("reap", error_message="x") == "free"


def test_reap_cancelled_ends_what_nobody_ended() -> None:
    """A cancellation was requested, and the holder is gone."""
    story = Story.running().then("request_cancel")

    assert story.refusal("reap_cancelled") == "free"
    assert story.after(30).refusal("reap", error_message="x") == "attempts used up"
    assert story.then("reap_cancelled").shows("status", "lease_generation") == ("cancelled", 2)
    assert Story.running().after(30).refusal("reap_cancelled") == "cancellation requested"


@pytest.mark.parametrize(
    "story",
    [Story.reserved(), Story.parked(), Story.enqueued(), Story.running()],
    ids=["queued", "parked", "starting", "running"],
)
def test_pause_and_resume_flag_an_open_run(story: Story) -> None:
    """Neither twice; the state stays."""
    state = story.shows("status")

    assert story.refusal("resume") == "paused"
    assert story.then("pause").shows("status", "paused") == (*state, True)
    assert story.refusal("pause") == "not paused"
    assert story.then("resume").shows("status", "paused") == (*state, False)


def test_adopt_gives_a_run_to_a_session_once() -> None:
    """Only where there is none."""
    story = Story.reserved().then("adopt", session_id="s1")

    assert story.shows("origin_session_id", "execution_mode") == ("s1", "interactive")
    assert story.refusal("adopt", session_id="s2") == "no session"


FINALS: dict[str, Story] = {
    "done": Story.running().then("finish", **held(1), outcome="completed"),
    "failed": Story.running().then("fail", **held(1), **ERROR, outcome="failed"),
    "cancelled": Story.reserved().then("cancel"),
}


@pytest.mark.parametrize("state", FINALS)
@pytest.mark.parametrize("name", [transition.name for transition in RUN_LAUNCH.transitions])
def test_a_final_run_never_moves_again(state: str, name: str) -> None:
    """Final states have no way out, and nothing writes there."""
    story = FINALS[state]
    possible: dict[str, Any] = {
        **runner(),
        **held(1),
        **ERROR,
        **FOUND,
        **EXPECTED,
        "waiting": False,
        "outcome": "failed",
        "session_id": "s",
    }
    wanted = {param.name for param in RUN_LAUNCH.transition(name).params}
    given = {key: value for key, value in possible.items() if key in wanted}

    assert story.refusal(name, **given) == state


def test_a_late_holder_is_told_that_its_lease_is_lost() -> None:
    """Naming the state, the new holder and both generations."""
    story = Story.running().after(30).then("claim", **runner(BOB, "bob"))
    late = story.call("finish", **held(1), outcome="completed")

    assert isinstance(late, Refused)
    assert late.lost == LostLease(1, 2, "bob")
    assert str(late) == (
        "finish refused: the lease of 'r1' is lost; it is starting, held by bob in generation 2"
        " (presented: 1)"
    )


def test_a_late_holder_learns_of_the_loss_from_an_ended_run_too() -> None:
    """The state refuses, and the generation tells that somebody else ended it."""
    story = Story.enqueued(max_attempts=1).after(30).then("reap", error_message="lost it")
    late = story.call("finish", **held(1), outcome="completed")
    own = FINALS["done"].call("finish", **held(1), outcome="completed")

    assert isinstance(late, Refused)
    assert isinstance(own, Refused)
    assert (late.state, late.lost) == ("failed", LostLease(1, 2, None))
    assert (own.state, own.lost) == ("done", None)


def test_an_expired_holder_closes_as_long_as_nobody_took_over() -> None:
    """Work that was done is not done twice."""
    late: tuple[Plain, ...] = (
        Story.running().after(1000).then("finish", **held(1), outcome="completed").shows("status")
    )

    assert late == ("done",)
