"""Which event owes the session a turn: the policy table, row by row."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from persistence import ManualClock, open_store
from persistence.hosts.deferred_turns import Delivery
from persistence.hosts.turn_events import End, Quiet
from statemachine import TurnCause, TurnResolution, TurnStatus
from tests.hosts.policy_host import MINUTE, SESSION, Host


@pytest.fixture
def host(clock: ManualClock) -> Any:
    """A host on an empty store in memory."""
    with open_store(":memory:", clock=clock) as store:
        yield Host(store)


def test_agent_cancels_during_an_active_turn(host: Host) -> None:
    """The intent is there before the abort, and eligible once the run is durably cancelled."""
    claim, turn = host.start()

    host.successors.before_abort(turn, TurnCause.AGENT_CANCELLED, node_id="plan", attempt_id="a1")
    before = host.only()
    host.endings.end(claim, turn, End.CANCELLED)

    assert (before.cause, before.status) == (TurnCause.AGENT_CANCELLED, TurnStatus.PENDING)
    assert host.only().status is TurnStatus.ELIGIBLE
    assert host.fall_back() == [
        (
            "Workflow autoimplement ended with state cancelled (run run). Source: node plan,"
            " attempt a1. Inspect the durable workflow state before you explain the outcome or take"
            " any authorized corrective action."
        )
    ]


def test_agent_step_times_out_and_the_run_ends(host: Host) -> None:
    """The intent is there before the abort, and eligible once the run is durably timed out."""
    claim, turn = host.start()

    host.successors.before_abort(turn, TurnCause.TIMED_OUT, node_id="plan", reason="timed out")
    pending = host.fall_back()
    host.endings.end(claim, turn, End.TIMED_OUT, reason="the step timed out")

    assert pending == []
    assert (host.only().cause, host.only().status) == (TurnCause.TIMED_OUT, TurnStatus.ELIGIBLE)
    assert host.told().observed_state == "timed_out"
    assert len(host.fall_back()) == 1


def test_recovery_prompt_resolves_a_timeout_naturally(host: Host) -> None:
    """A prompt that comes before the end is the successor turn; no fallback follows."""
    claim, turn = host.start()

    host.successors.before_abort(turn, TurnCause.TIMED_OUT, node_id="plan")
    sent = host.prompt()
    host.successors.turn_began(turn.run_id)
    host.endings.end(claim, turn, End.COMPLETED, presented=True)

    assert sent is Delivery.SENT
    assert host.only().resolution is TurnResolution.WORKFLOW_PROMPT
    assert host.fall_back() == []


def test_active_turn_ends_in_terminal_failure(host: Host) -> None:
    """With no abort before, the intent is created after the durable failure, and eligible."""
    claim, turn = host.start()

    host.endings.end(claim, turn, End.FAILED, reason="boom")

    assert (host.only().cause, host.only().status) == (TurnCause.FAILED, TurnStatus.ELIGIBLE)
    assert host.only().node_id == "$terminal"
    assert len(host.fall_back()) == 1


def test_terminal_failure_reuses_the_abort_before(host: Host) -> None:
    """One interruption has one intent, with the abort's source event and the end's facts."""
    claim, turn = host.start()
    intent_id = host.successors.before_abort(turn, TurnCause.TIMED_OUT, node_id="plan")

    host.endings.end(claim, turn, End.FAILED, reason="boom")

    assert host.only().intent_id == intent_id
    assert (host.told().observed_state, host.told().cause) == ("failed", TurnCause.TIMED_OUT)
    assert host.told().reason == "boom"


def test_crash_after_started_was_reported(host: Host, clock: ManualClock) -> None:
    """Whoever finds the run failed owes its session a turn at once."""
    _, turn = host.start()
    clock.advance(MINUTE)
    other = Host(host.store, "other")

    other.endings.end(other.take_over(), turn, End.FAILED, reason="crashed before the first prompt")

    assert host.only().status is TurnStatus.ELIGIBLE
    assert len(other.fall_back()) == 1


def test_controller_interrupts_an_active_turn(host: Host) -> None:
    """The intent is there before the abort; the durable end decides about it."""
    claim, turn = host.start(child=True)

    host.successors.before_abort(turn, TurnCause.CONTROLLER_INTERRUPTED, node_id="plan")
    before = host.only()
    host.endings.end(claim, turn, End.CANCELLED)

    assert before.status is TurnStatus.PENDING
    assert host.only().status is TurnStatus.ELIGIBLE


def test_claim_lost_never_becomes_eligible_by_time(host: Host, clock: ManualClock) -> None:
    """The old holder leaves the decision to the new one, however long that takes."""
    claim, turn = host.start()
    clock.advance(MINUTE)
    host.take_over()

    host.successors.before_abort(turn, TurnCause.CLAIM_LOST, node_id="plan")
    refused = host.endings.end(claim, turn, End.CANCELLED)
    host.successors.ended(turn, End.CANCELLED)
    clock.advance(timedelta(days=365))

    assert not refused
    assert host.told().handoff
    assert (host.only().status, host.fall_back()) == (TurnStatus.PENDING, [])


def test_claim_lost_is_resolved_by_the_new_holders_prompt(host: Host, clock: ManualClock) -> None:
    """The prompt of whoever goes on with the run is the successor turn."""
    _, turn = host.start()
    clock.advance(MINUTE)
    host.successors.before_abort(turn, TurnCause.CLAIM_LOST, node_id="plan")
    other = Host(host.store, "other")
    other.take_over()

    sent = other.prompt()

    assert sent is Delivery.SENT
    assert other.messages == ["workflowPrompt marked"]
    assert host.only().resolution is TurnResolution.WORKFLOW_PROMPT


@pytest.mark.parametrize("end", [End.FAILED, End.TIMED_OUT, End.CANCELLED, End.COMPLETED])
def test_claim_lost_becomes_eligible_by_the_new_holders_end(
    host: Host, clock: ManualClock, end: End
) -> None:
    """Its terminal state makes the intent eligible, as the facts say; also without presentation."""
    _, turn = host.start()
    clock.advance(MINUTE)
    host.successors.before_abort(turn, TurnCause.CLAIM_LOST, node_id="plan")
    other = Host(host.store, "other")

    other.endings.end(other.take_over(), turn, end, reason="boom")

    assert host.only().status is TurnStatus.ELIGIBLE
    assert (host.told().observed_state, host.told().handoff) == (end.value, False)


def test_a_worker_ends_what_was_handed_over(host: Host, clock: ManualClock) -> None:
    """A worker knows of no intents; the session finds its run ended at the next poll."""
    _, turn = host.start()
    clock.advance(MINUTE)
    host.successors.before_abort(turn, TurnCause.CLAIM_LOST, node_id="plan")
    host.store.runs.fail(host.take_over(), error_code="x", error_message="token=hunter2 broke")

    made = host.successors.reconcile(host.store.runs, SESSION)

    assert (made, host.only().status) == (1, TurnStatus.ELIGIBLE)
    assert host.told().reason == "token=[redacted] broke"


@pytest.mark.parametrize("end", [End.COMPLETED, End.WAITING])
def test_presentation_resolves_an_existing_intent(host: Host, end: End) -> None:
    """A run that completes or waits and presents its result owes nothing new."""
    claim, turn = host.start()
    host.successors.before_abort(turn, TurnCause.TIMED_OUT)

    host.endings.end(claim, turn, end, presented=True)
    sent = host.present()

    assert sent is Delivery.SENT
    assert host.only().resolution is TurnResolution.PRESENTATION


@pytest.mark.parametrize("end", [End.COMPLETED, End.WAITING])
def test_completed_or_waiting_makes_no_intent(host: Host, end: End) -> None:
    """Without an intent before, there is none after."""
    claim, turn = host.start()

    host.endings.end(claim, turn, end, presented=True)
    host.present()

    assert host.store.intents.list() == []
    assert host.messages == ["presentation plain"]


QUIET = {
    "the user cancels": Quiet.CANCELLED,
    "the user pauses": Quiet.PAUSED,
    "the user presses Escape": Quiet.ESCAPED,
    "the session shuts down": Quiet.SHUT_DOWN,
}


@pytest.mark.parametrize("why", QUIET.values(), ids=QUIET)
def test_quiet(host: Host, why: Quiet) -> None:
    """No intent, and no automatic turn, neither before the abort nor at the end."""
    claim, turn = host.start()

    host.successors.quiet(turn.run_id, why)
    aborted = host.successors.before_abort(turn, TurnCause.AGENT_CANCELLED)
    host.endings.end(claim, turn, End.CANCELLED)

    assert aborted is None
    assert host.store.intents.list() == []
    assert host.fall_back() == []
