"""What anybody may do with a run, and what the reaper does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from persistence.execute import ATTEMPTS, take_next
from persistence.refusal import read, recall
from persistence.stores.claims import AlreadyFinal, Cancelled, CancelRequested, part_of
from persistence.stores.face import limit_of
from persistence.stores.run_steps import RunSteps, failing
from statemachine.machines import RunOutcome
from statemachine.outcome import Actor, Reason, Refused

if TYPE_CHECKING:
    from persistence.operation import Operation
    from statemachine.kinds import JsonValue
    from statemachine.machines import Run

_CANCELLING = ("cancel", "cancel_stale", "request_cancel")

LOST_MESSAGE = "the runner was lost: the lease ran out and no attempt is left"


class RunMoves(RunSteps):
    """Calls that need no claim."""

    def wake(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Let a waiting run be taken again."""
        return self.step("wake", run_id, {}, call, actor)

    def requeue(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Put a launch back whose lease ran out before anything ran."""
        return self.step("requeue", run_id, {}, call, actor)

    def reject(
        self,
        run_id: str,
        *,
        error_code: str,
        error_message: str,
        outcome: RunOutcome | str = RunOutcome.FAILED,
        result: JsonValue = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Run | Refused]:
        """End a run that nobody holds as failed; arguments as for `fail`."""
        values = failing(error_code, error_message, outcome, result)
        return self.step("reject", run_id, values, call, actor)

    def pause(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Keep `claim_next` from taking the run."""
        return self.step("pause", run_id, {}, call, actor)

    def resume(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """End a pause."""
        return self.step("resume", run_id, {}, call, actor)

    def adopt(
        self,
        run_id: str,
        *,
        session_id: str,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Run | Refused]:
        """Give a run without a session to one; it becomes interactive."""
        values = {"session_id": session_id}
        return self.step("adopt", run_id, values, call, actor)

    def request_cancel(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Ask the live holder of a run to end it."""
        return self.step("request_cancel", run_id, {}, call, actor)

    def cancel_stale(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Cancel a run that has begun and that nobody holds."""
        return self.step("cancel_stale", run_id, {}, call, actor)

    def reap(
        self,
        run_id: str,
        *,
        error_message: str = LOST_MESSAGE,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Run | Refused]:
        """Fail a run whose lease ran out and whose attempts are used up."""
        values = {"error_message": error_message}
        return self.step("reap", run_id, values, call, actor)

    def reap_cancelled(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Cancel a run whose holder was asked to and is gone."""
        return self.step("reap_cancelled", run_id, {}, call, actor)

    def cancel(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Cancelled | CancelRequested | AlreadyFinal | Refused]:
        """Cancel a run, with one of three honest answers.

        Returns:
            `Cancelled`; `CancelRequested`: a holder is at work and will end it (also when it was
            asked before); `AlreadyFinal`; or `Refused` (missing, or raced).
        """
        live, key = False, self.key(run_id)
        ids = {name: None if call is None else part_of(call, name) for name in _CANCELLING}
        for name, one in ids.items():
            if one is not None:
                asked = self.engine.call_of({}, key, one, actor)
                before = yield from recall(self.program, name, asked)
                if before is not None and not isinstance(before, Refused):
                    return _called_off(name, self.program.record(before))
        for _ in range(ATTEMPTS):
            for name, one in ids.items():
                outcome = yield from self.step(name, key, {}, one, actor)
                if not isinstance(outcome, Refused):
                    return _called_off(name, outcome)
                live = outcome.guard == "no cancellation requested"
            row, _now = yield from read(self.program, key)
            if row is None:
                return Refused(transition="cancel", reason=Reason.MISSING, key=key)
            if row["status"] in self.program.machine.final:
                return AlreadyFinal(self.program.record(row))
            if live:
                return CancelRequested(self.program.record(row))
        return Refused(transition="cancel", reason=Reason.RACED, key=key)

    def reap_due(self, limit: int = 100, *, actor: Actor | None = None) -> Operation[list[Run]]:
        """End up to `limit` (1 to 1,000) runs that `reap` or `reap_cancelled` would take."""
        ended: list[Run] = []
        most = limit_of(limit)
        scope = "" if self.engine.project is not None else "_anywhere"
        for name in ("reap_due", "reap_cancelled_due"):
            transition = self.program.machine.selection(name).transition
            admission = self.program.machine.transition(transition).admission
            values = {"error_message": LOST_MESSAGE} if admission.params else {}
            params = {**admission(values), "project": self.engine.project}
            while len(ended) < most:
                ending = self.engine.call_of(params, "", None, actor)
                run = yield from take_next(
                    self.program, f"{name}{scope}", ending, self.program.moved
                )
                if isinstance(run, Refused):
                    break
                ended.append(run)
        return ended


def _called_off(name: str, run: Run) -> Cancelled | CancelRequested:
    return CancelRequested(run) if name == "request_cancel" else Cancelled(run)
