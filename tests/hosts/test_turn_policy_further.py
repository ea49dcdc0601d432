"""Which event owes the session a turn: the sentences under the policy table."""

from __future__ import annotations

from typing import Any

import pytest

from persistence import ManualClock, open_store
from persistence.hosts.turn_events import End, Quiet
from statemachine import TurnCause, TurnResolution, TurnStatus
from tests.hosts.policy_host import MINUTE, Host


@pytest.fixture
def host(clock: ManualClock) -> Any:
    """A host on an empty store in memory."""
    with open_store(":memory:", clock=clock) as store:
        yield Host(store)


@pytest.mark.parametrize("end", [End.COMPLETED, End.WAITING])
def test_an_absent_presentation_makes_a_pending_intent_eligible(host: Host, end: End) -> None:
    """Else it would wait for ever."""
    claim, turn = host.start()
    host.successors.before_abort(turn, TurnCause.TIMED_OUT)

    host.endings.end(claim, turn, end, presented=False)

    assert host.only().status is TurnStatus.ELIGIBLE
    assert host.told().reason == "No result presentation was available"


def test_a_failed_presentation_makes_a_pending_intent_eligible(host: Host) -> None:
    """Also when it failed after the end was stored, with the reason."""
    claim, turn = host.start()
    host.successors.before_abort(turn, TurnCause.TIMED_OUT)
    host.endings.end(claim, turn, End.COMPLETED, presented=True)
    between = host.only().status

    host.successors.ended(turn, End.COMPLETED, reason="the presentation timed out")

    assert (between, host.only().status) == (TurnStatus.PENDING, TurnStatus.ELIGIBLE)
    assert host.told().reason == "the presentation timed out"


def test_an_unresolved_intent_is_reused_whatever_its_cause(host: Host, clock: ManualClock) -> None:
    """A second interruption of the run finds the first one's intent."""
    _, turn = host.start()
    first = host.successors.before_abort(turn, TurnCause.CLAIM_LOST, node_id="plan")
    clock.advance(MINUTE)
    other = Host(host.store, "other")
    claim = other.take_over()

    second = other.successors.before_abort(turn, TurnCause.TIMED_OUT, node_id="code")
    other.endings.end(claim, turn, End.TIMED_OUT, reason="too slow")

    assert first == second == host.only().intent_id
    assert (host.only().cause, host.only().status) == (TurnCause.CLAIM_LOST, TurnStatus.ELIGIBLE)


def test_a_child_run_owes_nothing(host: Host) -> None:
    """A controller that started it hears of its failure; no session turn is owed."""
    claim, turn = host.start(child=True)

    host.endings.end(claim, turn, End.FAILED, reason="boom")

    assert host.store.intents.list() == []


def test_a_child_run_whose_claim_was_handed_over_owes_a_turn(
    host: Host, clock: ManualClock
) -> None:
    """The session's active turn was taken away, whoever ends the run."""
    _, turn = host.start(child=True)
    clock.advance(MINUTE)
    host.successors.before_abort(turn, TurnCause.CLAIM_LOST)
    other = Host(host.store, "other")

    other.endings.end(other.take_over(), turn, End.FAILED, reason="boom")

    assert host.only().status is TurnStatus.ELIGIBLE


@pytest.mark.parametrize("why", [Quiet.PAUSED, Quiet.ESCAPED])
def test_suppression_by_pause_or_hold_ends_with_resume(host: Host, why: Quiet) -> None:
    """After the resume an interruption owes a turn as before."""
    claim, turn = host.start()
    host.successors.quiet(turn.run_id, why)
    host.successors.resumed(turn.run_id)

    host.endings.end(claim, turn, End.FAILED, reason="boom")

    assert host.only().status is TurnStatus.ELIGIBLE


def test_a_cancelled_run_stays_quiet_after_a_resume(host: Host) -> None:
    """Resuming does not undo that a user called the run off."""
    claim, turn = host.start()
    host.successors.quiet(turn.run_id, Quiet.CANCELLED)
    host.successors.resumed(turn.run_id)

    host.endings.end(claim, turn, End.CANCELLED)

    assert host.store.intents.list() == []


def test_a_flush_that_sent_something_counts_it(host: Host) -> None:
    """So that the host does not also run its own settle handler: one prompt, not two."""
    _, turn = host.start()
    host.successors.before_abort(turn, TurnCause.TIMED_OUT)
    host.prompt(idle=False)

    assert host.turns.flush_natural(idle=True) == 1
    assert host.messages == ["workflowPrompt marked"]


def test_no_second_intent_for_one_interruption(host: Host) -> None:
    """A prompt that was waiting resolves the abort's intent; the end that follows adds nothing."""
    claim, turn = host.start()
    host.prompt(idle=False)
    host.successors.before_abort(turn, TurnCause.AGENT_CANCELLED)
    host.prompt()

    host.endings.end(claim, turn, End.CANCELLED)

    assert host.only().resolution is TurnResolution.WORKFLOW_PROMPT
    assert host.fall_back() == []


def test_a_later_failure_of_a_new_turn_owes_another(host: Host) -> None:
    """The recovery prompt began a new turn, so its failure is a new event."""
    claim, turn = host.start()
    host.successors.before_abort(turn, TurnCause.TIMED_OUT)
    host.prompt()
    host.successors.turn_began(turn.run_id)

    host.endings.end(claim, turn, End.FAILED, reason="boom")

    assert len(host.store.intents.list()) == 2
    assert len(host.fall_back()) == 1


def test_an_end_that_is_handled_twice_owes_one_turn(host: Host) -> None:
    """Another host that finds the same end, after the turn was given, adds nothing."""
    claim, turn = host.start()
    host.successors.before_abort(turn, TurnCause.TIMED_OUT)
    host.endings.end(claim, turn, End.FAILED, reason="boom")
    given = host.fall_back()

    Host(host.store, "other").successors.ended(turn, End.FAILED, reason="boom")

    assert len(given) == 1
    assert host.only().status is TurnStatus.RESOLVED
