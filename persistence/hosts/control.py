"""Control of a session's runs: status, cancel, pause, resume; each answers a person."""

from __future__ import annotations

import enum
import logging
from typing import TYPE_CHECKING, Any, Protocol

from attrs import field, frozen

from persistence.hosts.keeper import TROUBLE
from persistence.hosts.preparation import note
from persistence.hosts.turn_events import Quiet, WorkflowTurn
from persistence.stores.claims import AlreadyFinal, Cancelled, CancelRequested
from statemachine.machines import RunStatus, TurnCause
from statemachine.outcome import Actor, Reason, Refused

if TYPE_CHECKING:
    from persistence import Store
    from persistence.hosts.successor_turns import SuccessorTurns
    from statemachine.machines import Run

_log = logging.getLogger(__name__)


class Level(enum.StrEnum):
    """How an answer is shown."""

    INFO = "info"
    WARNING = "warning"


class Origin(enum.StrEnum):
    """Who cancels: the agent's own turn goes on, a user wants quiet."""

    USER = "user"
    AGENT = "agent"


@frozen(kw_only=True)
class Answer:
    """What a control call answers.

    Attributes:
        message: One line.

        details: The same, to be read by programs.

        level: How it is shown.
    """

    message: str
    details: dict[str, Any] = field(factory=dict)
    level: Level = Level.INFO


class ActiveRun(Protocol):
    """A run that is at work in this process."""

    @property
    def turn(self) -> WorkflowTurn:
        """Whose turn it is."""
        ...

    @property
    def step(self) -> tuple[str | None, str | None]:
        """The node and the attempt that are at work; None between steps."""
        ...

    def cancel(self) -> None:
        """Abort the active turn and end the run as cancelled."""
        ...

    def hold(self) -> None:
        """Begin no further step."""
        ...

    def go_on(self) -> None:
        """Begin steps again."""
        ...


class Control:
    """Answers what a user or the agent asks of a session's runs.

    Args:
        store: The store.

        successors: Which turns a cancellation owes.

        session_id: The session; a key.
    """

    def __init__(self, store: Store, successors: SuccessorTurns, *, session_id: str) -> None:
        self._store = store
        self._successors = successors
        self._session_id = session_id
        self.active: ActiveRun | None = None

    def status(self, run_id: str | None = None) -> Answer:
        """Tell how a run stands; None: the one at work, else the session's reservation."""
        run = self._run(run_id)
        if run is None:
            return _unknown("status", run_id)
        details: dict[str, Any] = {
            "active": run.status in (RunStatus.STARTING, RunStatus.RUNNING),
            "queued": run.status is RunStatus.QUEUED,
            "status": run.status.value,
            "paused": run.paused,
        }
        if run.error_code is not None:
            details |= {"errorCode": run.error_code, "error": run.error_message}
        ended_badly = run.status in (RunStatus.FAILED, RunStatus.CANCELLED)
        return _answer(
            "status",
            run,
            f"is {run.status.value}{', paused' if run.paused else ''}",
            level=Level.WARNING if ended_badly else Level.INFO,
            **details,
        )

    def cancel(self, run_id: str | None = None, *, origin: Origin) -> Answer:
        """Cancel a run; the agent's own turn is followed by another, a user's wish by quiet.

        Args:
            run_id: None: the one at work, else the session's reservation.

            origin: Who asks.
        """
        active = self._active(run_id)
        if active is not None:
            return self._cancel_active(active, origin)
        run = self._run(run_id)
        if run is None:
            return _unknown("cancel", run_id)
        if run.origin_session_id not in (None, self._session_id):
            return _answer("cancel", run, "belongs to another session", level=Level.WARNING)
        outcome = self._store.runs.cancel(run.run_id, actor=Actor(origin.value, self._session_id))
        match outcome:
            case Cancelled():
                note(self._store, run.run_id, "cancelled", {"origin": origin.value})
                return _answer("cancel", outcome.run, "is cancelled")
            case CancelRequested():
                note(self._store, run.run_id, "cancel_requested", {"origin": origin.value})
                return _answer("cancel", outcome.run, "is asked to stop by the host that runs it")
            case AlreadyFinal():
                return _changed("cancel", outcome.run)
            case _:
                return _changed("cancel", run)

    def pause(self, run_id: str | None = None) -> Answer:
        """Let no further step begin; no automatic turn follows until the run is resumed."""
        return self._hold("pause", run_id)

    def resume(self, run_id: str | None = None) -> Answer:
        """Let steps begin again."""
        return self._hold("resume", run_id)

    def _hold(self, action: str, run_id: str | None) -> Answer:
        active = self._active(run_id)
        run = self._run(run_id)
        if run is None:
            return _unknown(action, run_id)
        pausing = action == "pause"
        actor = Actor(Origin.USER.value, self._session_id)
        change = self._store.runs.pause if pausing else self._store.runs.resume
        outcome = change(run.run_id, actor=actor)
        done = "paused" if pausing else "resumed"
        if isinstance(outcome, Refused):
            if outcome.reason is not Reason.GUARD:
                return _changed(action, run)
            already = "already paused" if pausing else "not paused"
            return _answer(action, run, f"is {already}", level=Level.WARNING)
        if pausing:
            self._successors.quiet(run.run_id, Quiet.PAUSED)
        else:
            self._successors.resumed(run.run_id)
        if active is not None:
            (active.hold if pausing else active.go_on)()
        note(self._store, run.run_id, done, {})
        return _answer(action, outcome, f"is {done}")

    def _cancel_active(self, active: ActiveRun, origin: Origin) -> Answer:
        turn = active.turn
        if origin is Origin.USER:
            self._successors.quiet(turn.run_id, Quiet.CANCELLED)
        else:
            node_id, attempt_id = active.step
            self._successors.before_abort(
                turn, TurnCause.AGENT_CANCELLED, node_id=node_id, attempt_id=attempt_id
            )
        self._request(turn.run_id, origin)
        active.cancel()
        note(self._store, turn.run_id, "cancel_requested", {"origin": origin.value})
        return Answer(
            message=f"Cancelling workflow {turn.workflow}…",
            details={"action": "cancel", "workflow": turn.workflow, "runId": turn.run_id},
        )

    def _request(self, run_id: str, origin: Origin) -> None:
        """Store who wants the end, so that a crash before it changes nothing."""
        actor = Actor(origin.value, self._session_id)
        try:
            self._store.runs.cancel(run_id, actor=actor)
        except TROUBLE as error:
            # A store failure never stops a cancellation.
            _log.warning("the cancellation of %s is not stored: %s", run_id, error)

    def _active(self, run_id: str | None) -> ActiveRun | None:
        active = self.active
        if active is None or run_id not in (None, active.turn.run_id):
            return None
        return active

    def _run(self, run_id: str | None) -> Run | None:
        if run_id is None and self.active is not None:
            run_id = self.active.turn.run_id
        if run_id is None:
            return self._store.runs.find_reservation(self._session_id)
        return self._store.runs.get(run_id)


def _answer(
    action: str, run: Run, what: str, *, level: Level = Level.INFO, **details: object
) -> Answer:
    return Answer(
        message=f"Workflow {run.workflow} {what} (run {run.run_id}).",
        details={"action": action, "workflow": run.workflow, "runId": run.run_id, **details},
        level=level,
    )


def _changed(action: str, run: Run) -> Answer:
    return Answer(
        message=(
            f"Workflow {run.workflow} could not be changed because its state changed"
            f" (run {run.run_id}, {run.status.value})."
        ),
        details={"action": action, "workflow": run.workflow, "runId": run.run_id},
        level=Level.WARNING,
    )


def _unknown(action: str, run_id: str | None) -> Answer:
    what = "No workflow run is active." if run_id is None else f"There is no run {run_id}."
    return Answer(message=what, details={"action": action}, level=Level.WARNING)
