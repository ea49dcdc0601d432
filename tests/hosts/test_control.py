"""Control: status, cancel, pause and resume answer a person, and record what they did."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from persistence import Claim, ManualClock, Store, open_store
from persistence.hosts.control import Control, Level, Origin
from persistence.hosts.endings import Endings
from persistence.hosts.turn_events import End, WorkflowTurn
from statemachine import RunStatus, TurnCause, TurnStatus
from tests.hosts.workshop import LEASE, SESSION, Workshop


class AtHand:
    """A run at work in this process."""

    def __init__(self, run_id: str) -> None:
        self.turn = WorkflowTurn(run_id=run_id, workflow="build", session_id=SESSION)
        self.step: tuple[str | None, str | None] = ("plan", "a1")
        self.done: list[str] = []

    def cancel(self) -> None:
        """Abort."""
        self.done.append("cancel")

    def hold(self) -> None:
        """Hold."""
        self.done.append("hold")

    def go_on(self) -> None:
        """Go on."""
        self.done.append("go on")


@pytest.fixture
def memory(clock: ManualClock) -> Iterator[Store]:
    """An empty store in memory."""
    with open_store(":memory:", clock=clock) as store:
        yield store


@pytest.fixture
def host(memory: Store) -> Workshop:
    """A session's host on it."""
    return Workshop(memory)


@pytest.fixture
def control(host: Workshop) -> Control:
    """Its control."""
    return Control(host.store, host.successors, session_id=SESSION)


def test_status_of_nothing(control: Control) -> None:
    """No run, no reservation."""
    answer = control.status()

    assert (answer.message, answer.level) == ("No workflow run is active.", Level.WARNING)


def test_status_of_a_queued_launch(host: Workshop, control: Control) -> None:
    """The session's reservation is what is asked about."""
    host.launches.prepare("build", run_id="r1")

    answer = control.status()

    assert answer.message == "Workflow build is queued (run r1)."
    assert (answer.details["queued"], answer.level) == (True, Level.INFO)


def test_status_of_a_failed_launch_tells_the_safe_error(host: Workshop, control: Control) -> None:
    """Code and message, and a warning."""
    host.trouble["build"] = RuntimeError("token=hunter2 is invalid")
    host.launches.prepare("build", run_id="r1")
    host.launches.activate("r1")

    answer = control.status("r1")

    assert answer.level is Level.WARNING
    assert answer.details["errorCode"] == "workflow_invalid"
    assert answer.details["error"] == "token=[redacted] is invalid"


@pytest.mark.parametrize("origin", list(Origin))
def test_cancelling_a_queued_launch(host: Workshop, control: Control, origin: Origin) -> None:
    """It is cancelled; the caller's own turn goes on, so that none is owed."""
    host.launches.prepare("build", run_id="r1")

    answer = control.cancel(origin=origin)

    assert answer.message == "Workflow build is cancelled (run r1)."
    assert host.events("r1") == ["queued", "cancelled"]
    assert host.store.intents.list() == []


def test_the_agent_cancels_the_active_run(host: Workshop, control: Control) -> None:
    """The intent is there before the abort."""
    host.launches.prepare("build", run_id="r1")
    host.launches.activate("r1")
    control.active = at_hand = AtHand("r1")

    answer = control.cancel(origin=Origin.AGENT)
    (intent,) = host.store.intents.list()

    assert answer.message == "Cancelling workflow build…"
    assert (intent.cause, intent.status) == (TurnCause.AGENT_CANCELLED, TurnStatus.PENDING)
    assert (intent.node_id, intent.attempt_id) == ("plan", "a1")
    assert at_hand.done == ["cancel"]


def test_the_user_cancels_the_active_run(host: Workshop, control: Control) -> None:
    """No intent, and none when the run has ended."""
    host.launches.prepare("build", run_id="r1")
    started = host.launches.activate("r1")
    control.active = at_hand = AtHand("r1")

    control.cancel(origin=Origin.USER)
    claim = getattr(started, "claim", None)
    assert isinstance(claim, Claim)
    Endings(host.store, host.successors).end(claim, at_hand.turn, End.CANCELLED)

    assert at_hand.done == ["cancel"]
    assert host.store.intents.list() == []


def test_cancelling_a_run_that_another_host_runs(host: Workshop, control: Control) -> None:
    """It is asked to stop."""
    host.launches.prepare("build", run_id="r1")
    Workshop(host.store, "other").launches.activate("r1")

    answer = control.cancel("r1", origin=Origin.USER)

    assert "is asked to stop" in answer.message
    assert host.events("r1") == ["queued", "started", "cancel_requested"]


def test_a_cancel_that_lost_the_race_says_that_the_state_changed(
    host: Workshop, control: Control
) -> None:
    """The run ended first."""
    host.launches.prepare("build", run_id="r1")
    host.store.runs.reject("r1", error_code="x", error_message="y")

    answer = control.cancel("r1", origin=Origin.USER)

    assert "its state changed" in answer.message
    assert (answer.level, answer.details["runId"]) == (Level.WARNING, "r1")


def test_another_sessions_run_is_not_cancelled(host: Workshop) -> None:
    """A session cancels its own."""
    host.launches.prepare("build", run_id="r1")
    control = Control(host.store, host.successors, session_id="s2")

    answer = control.cancel("r1", origin=Origin.USER)

    assert answer.level is Level.WARNING
    assert getattr(host.store.runs.get("r1"), "status", None) is RunStatus.QUEUED


def test_pause_and_resume(host: Workshop, control: Control) -> None:
    """Steps are held and go on; a paused run owes nothing until it is resumed."""
    host.launches.prepare("build", run_id="r1")
    host.launches.activate("r1")
    control.active = at_hand = AtHand("r1")

    paused, again = control.pause(), control.pause()
    quiet = host.successors.before_abort(at_hand.turn, TurnCause.TIMED_OUT)
    resumed, unpaused = control.resume(), control.resume()
    owed = host.successors.before_abort(at_hand.turn, TurnCause.TIMED_OUT)

    assert [answer.message for answer in (paused, again, resumed, unpaused)] == [
        "Workflow build is paused (run r1).",
        "Workflow build is already paused (run r1).",
        "Workflow build is resumed (run r1).",
        "Workflow build is not paused (run r1).",
    ]
    assert (quiet, owed is None) == (None, False)
    assert at_hand.done == ["hold", "go on"]
    assert host.events("r1") == ["queued", "started", "paused", "resumed"]


def test_control_of_what_is_not_there(control: Control) -> None:
    """Each call says so."""
    answers = [
        control.status("nope"),
        control.cancel("nope", origin=Origin.AGENT),
        control.pause("nope"),
        control.resume("nope"),
    ]

    assert {answer.message for answer in answers} == {"There is no run nope."}


def test_pausing_what_has_ended(host: Workshop, control: Control) -> None:
    """The state changed."""
    host.launches.prepare("build", run_id="r1")
    claim = host.store.runs.claim("r1", runner_id="x", lease=LEASE)
    assert isinstance(claim, Claim)
    host.store.runs.finish(claim)

    answer = control.pause("r1")

    assert "its state changed" in answer.message
