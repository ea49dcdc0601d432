"""Which event owes the session a turn: the policy table, row by row, and the sentences under it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from persistence import Claim, ManualClock, Store, TurnFacts, open_store
from persistence.hosts.deferred_turns import Arrival, DeferredTurns, Delivery, NaturalTurn
from persistence.hosts.endings import Endings
from persistence.hosts.successor_turns import SuccessorTurns
from persistence.hosts.turn_events import End, Quiet, WorkflowTurn
from persistence.hosts.turn_message import fallback_message
from persistence.stores.turn_facts import facts_of
from statemachine import Actor, TurnCause, TurnIntent, TurnResolution, TurnStatus
from statemachine.errors import StoreUnavailable
from tests.hosts.conversation import Faulty

SESSION = "s1"
MINUTE = timedelta(minutes=1)


class Host:
    """A session's host, as far as its turns go."""

    def __init__(self, store: Store, name: str = "host") -> None:
        self.store = store
        self.intents = Faulty(store.intents)
        self.warnings: list[str] = []
        self.successors = SuccessorTurns(lambda: self.intents, self.warnings.append)  # type: ignore[arg-type, return-value]  # as good as the real one
        self.endings = Endings(store, self.successors)
        self.branch: dict[str, Arrival] = {}
        self.messages: list[str] = []
        self.turns = DeferredTurns(lambda: store.intents, self.branch.get, holder=name)

    def start(self, run_id: str = "run", *, child: bool = False) -> tuple[Claim, WorkflowTurn]:
        """Start a run of the session."""
        claim = self.store.runs.enqueue(
            run_id=run_id,
            workflow="autoimplement",
            source_ref="builtin:autoimplement",
            runner_id="host",
            lease=MINUTE,
            origin_session_id=SESSION,
        )
        assert isinstance(claim, Claim)

        self.store.runs.mark_running(claim)
        turn = WorkflowTurn(
            run_id=run_id, workflow="autoimplement", session_id=SESSION, child=child
        )
        return claim, turn

    def take_over(self, run_id: str = "run") -> Claim:
        """Claim a run whose lease ran out."""
        claim = self.store.runs.claim(run_id, runner_id="other", lease=MINUTE)
        assert isinstance(claim, Claim)

        return claim

    def prompt(self, run_id: str = "run", *, idle: bool = True) -> Delivery:
        """Send a workflow's prompt."""
        return self._natural(run_id, TurnResolution.WORKFLOW_PROMPT, idle=idle)

    def present(self, run_id: str = "run") -> Delivery:
        """Present a result."""
        return self._natural(run_id, TurnResolution.PRESENTATION, idle=True)

    def _natural(self, run_id: str, resolution: TurnResolution, *, idle: bool) -> Delivery:
        def send(intent_id: str | None) -> None:
            self.messages.append(f"{resolution.value} {'marked' if intent_id else 'plain'}")

        turn = NaturalTurn(run_id=run_id, session_id=SESSION, resolution=resolution, send=send)
        return self.turns.send_natural(turn, idle=idle)

    def fall_back(self) -> list[str]:
        """Deliver what is eligible; return the texts."""
        sent: list[str] = []
        self.turns.deliver_fallbacks(
            SESSION, lambda intent: sent.append(fallback_message(intent).text), idle=True
        )
        return sent

    def only(self) -> TurnIntent:
        """Return the one intent that there is."""
        (intent,) = self.store.intents.list()
        return intent

    def told(self) -> TurnFacts:
        """Return the facts of the one intent."""
        return facts_of(self.only().fallback_facts)


@pytest.fixture
def host(clock: ManualClock) -> Any:
    """A host on an empty store in memory."""
    with open_store(":memory:", clock=clock) as store:
        yield Host(store)


# The rows of the table


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


# The sentences under the table


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


# Trouble


def test_a_store_failure_does_not_delay_the_abort(host: Host) -> None:
    """It is retried at the end, with the same ids."""
    claim, turn = host.start()
    host.intents.failing = ["intent_find_pending"]

    intent_id = host.successors.before_abort(turn, TurnCause.AGENT_CANCELLED, node_id="plan")
    before = host.store.intents.list()
    host.endings.end(claim, turn, End.CANCELLED)

    assert before == []
    assert (host.only().intent_id, host.only().status) == (intent_id, TurnStatus.ELIGIBLE)
    assert host.warnings == []


def test_a_store_failure_at_the_end_too_is_reported(host: Host) -> None:
    """The run ends all the same, and the host is told that no successor turn is guaranteed."""
    claim, turn = host.start()
    host.intents.failing = ["intent_find_pending"] * 3

    host.successors.before_abort(turn, TurnCause.AGENT_CANCELLED)
    ended = host.endings.end(claim, turn, End.CANCELLED)

    assert ended
    assert host.store.intents.list() == []
    assert host.warnings == [
        (
            "Workflow autoimplement ended (run run), but no successor turn is guaranteed: injected"
            " intent_find_pending failure"
        )
    ]


def test_a_lost_claim_that_could_not_be_stored_is_stored_at_the_end(
    host: Host, clock: ManualClock
) -> None:
    """Pending, for the new holder to settle."""
    claim, turn = host.start()
    clock.advance(MINUTE)
    host.take_over()
    host.intents.failing = ["intent_find_pending"]

    host.successors.before_abort(turn, TurnCause.CLAIM_LOST)
    assert not host.endings.end(claim, turn, End.CANCELLED)
    host.successors.ended(turn, End.CANCELLED)

    assert host.only().status is TurnStatus.PENDING


def test_without_a_store_nothing_is_raised() -> None:
    """An abort goes on without one, and the end warns."""
    warnings: list[str] = []
    successors = SuccessorTurns(lambda: None, warnings.append)
    turn = WorkflowTurn(run_id="run", workflow="w", session_id=SESSION)

    successors.before_abort(turn, TurnCause.TIMED_OUT)
    successors.ended(turn, End.TIMED_OUT)

    assert warnings == [
        "Workflow w ended (run run), but no successor turn is guaranteed: there is no store"
    ]


def test_the_reason_is_redacted(host: Host) -> None:
    """No secret survives in row, message or log."""
    claim, turn = host.start()

    host.successors.before_abort(turn, TurnCause.TIMED_OUT, reason="api_key: hunter2\nfailed")
    host.endings.end(claim, turn, End.FAILED, reason="Bearer hunter2 was refused")

    rows = f"{attributes(host.only())} {attributes(host.store.runs.get('run'))}"
    assert "hunter2" not in rows
    assert "hunter2" not in host.fall_back()[0]


def test_what_a_user_called_off_stays_quiet_for_other_hosts_too(
    host: Host, clock: ManualClock
) -> None:
    """The run's history tells who called it off, also after a crash of the host."""
    _, turn = host.start()
    host.successors.before_abort(turn, TurnCause.CLAIM_LOST)
    host.store.runs.cancel("run", actor=Actor("user", SESSION))
    clock.advance(MINUTE)
    host.store.runs.reap_due()

    made = Host(host.store, "other").successors.reconcile(host.store.runs, SESSION)

    assert (made, host.only().status) == (0, TurnStatus.PENDING)


def attributes(record: object) -> str:
    """Return all that a record holds."""
    return str({name: getattr(record, name) for name in record.__class__.__annotations__})


def test_a_forgotten_abort_is_told(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be stored is kept within bounds; what is dropped is reported."""
    monkeypatch.setattr("persistence.hosts.successor_turns.MAX_KEPT", 1)
    unreachable: Callable[[], Any] = raising
    successors = SuccessorTurns(unreachable, host.warnings.append)

    for run_id in ("one", "two"):
        turn = WorkflowTurn(run_id=run_id, workflow="w", session_id=SESSION)
        successors.before_abort(turn, TurnCause.TIMED_OUT)

    assert host.warnings == ["Too many aborted runs: no successor turn is guaranteed for one"]


def raising() -> Any:
    """Be out of reach."""
    raise StoreUnavailable("gone")
