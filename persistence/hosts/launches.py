"""The launch coordinator: a session's runs, from the reservation to the first step."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from persistence.hosts.at_work import THIS_PROCESS, AtWork
from persistence.hosts.endings import Endings
from persistence.hosts.launch_terms import (
    Activation,
    Begun,
    Closed,
    HasEnded,
    LaidAside,
    LaunchFailed,
    LaunchHost,
    NotHere,
    Nothing,
    Prepared,
    Started,
    Waits,
)
from persistence.hosts.preparation import Preparation, note
from persistence.hosts.safe_error import SafeCode, SafeError, safe_error
from persistence.hosts.turn_events import End, WorkflowTurn, told
from statemachine.machines import HolderKind, Run
from statemachine.outcome import Refused

if TYPE_CHECKING:
    from persistence import Claim, Store
    from persistence.hosts.successor_turns import SuccessorTurns
    from statemachine.kinds import JsonValue

LEASE = timedelta(seconds=30)
CHANGED = "Workflow source changed after the launch was queued"


class Launches:
    """Prepares, activates and recovers the runs of one session, from one thread.

    Args:
        store: The store.

        host: What the session's host can do.

        successors: Which turns failed launches owe.

        session_id, runner_id: Who; keys.

        lease: How long a claim lasts.

        at_work: Which runs this process works on.
    """

    def __init__(
        self,
        store: Store,
        host: LaunchHost,
        successors: SuccessorTurns,
        *,
        session_id: str,
        runner_id: str,
        lease: timedelta = LEASE,
        at_work: AtWork = THIS_PROCESS,
    ) -> None:
        self._store = store
        self._host = host
        self._successors = successors
        self._endings = Endings(store, successors)
        self._preparation = Preparation(store, host, session_id=session_id, runner_id=runner_id)
        self._session_id = session_id
        self._runner_id = runner_id
        self._lease = lease
        self._at_work = at_work

    def prepare(
        self,
        ref: str,
        *,
        input: JsonValue = None,  # noqa: A002 - the field's name
        launch_options: JsonValue = None,
        parent_run_id: str | None = None,
        run_id: str | None = None,
    ) -> Prepared:
        """Reserve a run before the caller's turn ends; see `Preparation.prepare`."""
        return self._preparation.prepare(
            ref,
            input=input,
            launch_options=launch_options,
            parent_run_id=parent_run_id,
            run_id=run_id,
        )

    # Activate

    def activate(self, run_id: str) -> Activation:
        """Start a reserved run, at a safe idle moment; repeated, it starts nothing twice.

        Raises:
            StoreBusy, StoreUnavailable, StoreCorrupt, CommitUnknown: Nothing was started; once the
                claim has run out, `recover` takes the run up.
        """
        if not self._at_work.enter(run_id):
            return NotHere()
        started = False
        try:
            outcome = self._activate(run_id)
            started = isinstance(outcome, Started)
        finally:
            if not started:
                self._at_work.leave(run_id)
        return outcome

    def left(self, run_id: str) -> None:
        """Say that nothing of a started run is at work here any more."""
        self._at_work.leave(run_id)

    def recover(self) -> Activation | None:
        """Take up this session's reservation, at session start and at each settle.

        Returns:
            What became of it; None where there is none that is free and not paused.
        """
        run = self._store.runs.find_reservation(self._session_id)
        if run is None or run.paused:
            return None
        live = run.lease_expires_at is not None and run.lease_expires_at > self._store.clock.now()
        return None if live else self.activate(run.run_id)

    def _activate(self, run_id: str) -> Activation:
        claim = self._store.runs.claim(
            run_id,
            runner_id=self._runner_id,
            lease=self._lease,
            holder_kind=HolderKind.SESSION,
        )
        if isinstance(claim, Refused):
            return NotHere(claim)
        existing = self._host.existing(claim.run)
        match existing:
            case Nothing():
                return self._start(claim, resume=False)
            case Begun():
                return self._start(claim, resume=True)
            case Waits():
                parked = self._endings.end(
                    claim, self._turn(claim.run), End.WAITING, presented=True
                )
                return NotHere(parked) if isinstance(parked, Refused) else LaidAside(parked)
            case HasEnded():
                return self._close(claim, existing)
            case _:
                assert_never(existing)

    def _start(self, claim: Claim, *, resume: bool) -> Activation:
        try:
            resolved = self._host.resolve(claim.run.source_ref)
            changed = (
                resolved.source != claim.run.source
                or resolved.digest != claim.run.definition_digest
            )
        except Exception as error:  # noqa: BLE001 - whatever a host raises fails the launch
            return self._not_startable(claim, safe_error(error), resume=resume)
        if changed:
            source_changed = SafeError(SafeCode.SOURCE_CHANGED, CHANGED)
            return self._not_startable(claim, source_changed, resume=resume)
        try:
            first_step = self._host.build(claim, resolved, resume=resume)
        except Exception as error:  # noqa: BLE001 - likewise
            return self._fail(claim, safe_error(error))
        running = self._store.runs.mark_running(claim)
        if isinstance(running, Refused):
            return NotHere(running)
        note(self._store, claim.run_id, "started", {})
        try:
            first_step()
        except Exception as error:  # noqa: BLE001 - likewise
            return self._fail_begun(claim, safe_error(error))
        return Started(claim)

    def _not_startable(self, claim: Claim, error: SafeError, *, resume: bool) -> Activation:
        """Fail what never ran; lay aside what did, until its source is as it was."""
        if not resume:
            return self._fail(claim, error)
        parked = self._store.runs.park_source_changed(claim, error_message=error.message)
        if isinstance(parked, Refused):
            return NotHere(parked)
        note(self._store, claim.run_id, "source_changed", {"error": told(error.message)})
        return LaidAside(parked)

    # Failure

    def _fail(self, claim: Claim, error: SafeError) -> Activation:
        """Fail durably, then tell: the reservation is free before the message goes out."""
        turn = self._turn(claim.run)
        call = f"launch_failed/{claim.run_id}/{claim.generation}"

        def failed() -> Run | Refused:
            return self._store.runs.fail(
                claim, error_code=error.code.value, error_message=error.message, call=call
            )

        def owe() -> None:
            payload = {"errorCode": error.code.value, "error": told(error.message)}
            self._store.runs.append_event(
                claim.run_id, type="launch_failed", payload=payload, call=f"{call}/event"
            )
            self._successors.launch_failed(turn, error)

        return self._told(self._endings.with_turn(turn, failed, owe), error)

    def _fail_begun(self, claim: Claim, error: SafeError) -> Activation:
        """Fail a run that was reported as started, before its first prompt."""
        run = self._endings.end(claim, self._turn(claim.run), End.FAILED, reason=error.message)
        return self._told(run, error)

    def _told(self, run: Run | Refused, error: SafeError) -> Activation:
        if isinstance(run, Refused):
            return NotHere(run)
        self._host.deliver()
        return LaunchFailed(run, error)

    def _close(self, claim: Claim, ended: HasEnded) -> Activation:
        """Give the record the end that the run came to before."""
        run = self._endings.end(
            claim,
            self._turn(claim.run),
            End(ended.end),
            reason=ended.reason,
            result=ended.result,
        )
        if isinstance(run, Refused):
            return NotHere(run)
        self._host.deliver()
        return Closed(run)

    def _turn(self, run: Run) -> WorkflowTurn:
        session = run.origin_session_id or self._session_id
        return WorkflowTurn(run_id=run.run_id, workflow=run.workflow, session_id=session)
