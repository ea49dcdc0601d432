"""Moving runs: what their holders do, and what anybody may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from persistence.execute import ATTEMPTS, take_next
from persistence.refusal import read
from persistence.stores.claims import (
    AlreadyFinal,
    Cancelled,
    CancelRequested,
    Claim,
    claim_of,
    presented,
)
from persistence.stores.face import Operations, limit_of
from statemachine.machines import RunOutcome
from statemachine.outcome import Actor, Reason, Refused
from statemachine.simulate import admit_params

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from persistence.operation import Operation
    from statemachine.kinds import JsonValue
    from statemachine.machines import Run

LOST_MESSAGE = "the runner was lost: the lease ran out and no attempt is left"


class RunMoves(Operations):
    """What becomes of a run once it exists."""

    # By the holder

    def mark_running(
        self, claim: Claim, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Say that the first step is about to run; needs the lease live."""
        return (yield from self._held("mark_running", claim, {}, call, actor))

    def renew(
        self, claim: Claim, *, lease: timedelta, actor: Actor | None = None
    ) -> Operation[Claim | Refused]:
        """Extend the lease; the expiry never moves back. The record tells of a cancellation.

        Args:
            claim: Held and live.

            lease: How long it lasts from now, 1 ms to 100 years.

            actor: Who calls; None: the store's.
        """
        held = claim_of(claim)
        values = {**presented(held), "lease": lease}
        row = yield from self.call("renew", held.run_id, values, call=None, actor=actor)
        return row if isinstance(row, Refused) else evolve(held, run=self.program.record(row))

    def release_control(
        self, claim: Claim, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Give a control lease back."""
        return (yield from self._held("release_control", claim, {}, call, actor))

    def park(
        self,
        claim: Claim,
        *,
        waiting: bool = False,
        available_at: datetime | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Run | Refused]:
        """Lay the run aside, until it is woken (waiting) or until `available_at` (None: now)."""
        values = {"waiting": waiting, "available_at": available_at}
        return (yield from self._held("park", claim, values, call, actor))

    def park_source_changed(
        self,
        claim: Claim,
        *,
        error_message: str,
        status_detail: str | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Run | Refused]:
        """Lay the run aside because its source is no longer what it was."""
        values = {"error_message": error_message, "status_detail": status_detail}
        return (yield from self._held("park_source_changed", claim, values, call, actor))

    def park_effect_ambiguous(
        self,
        claim: Claim,
        *,
        error_message: str,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Run | Refused]:
        """Lay the run aside because nobody knows whether an effect happened."""
        values = {"error_message": error_message}
        return (yield from self._held("park_effect_ambiguous", claim, values, call, actor))

    def finish(
        self,
        claim: Claim,
        *,
        outcome: RunOutcome | str = RunOutcome.COMPLETED,
        result: JsonValue = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Run | Refused]:
        """End the run as done: `completed`, `checkpointed`, `failed` or `timed_out`.

        Args:
            claim: Held; its lease may have expired, as long as nobody has taken it.

            outcome: How it ended.

            result: JSON of at most 1,048,576 bytes; kept.

            call: The call's id; minted when None.

            actor: Who calls; None: the store's.
        """
        values = {"outcome": outcome, "result": result}
        return (yield from self._held("finish", claim, values, call, actor))

    def fail(
        self,
        claim: Claim,
        *,
        error_code: str,
        error_message: str,
        outcome: RunOutcome | str = RunOutcome.FAILED,
        result: JsonValue = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Run | Refused]:
        """End the run as failed.

        Args:
            claim: Held; its lease may have expired, as long as nobody has taken it.

            error_code: A key; `neverStarted`: nothing of the run exists.

            error_message: 1 to 2,048 bytes once trimmed.

            outcome: `failed` or `timed_out`.

            result: JSON of at most 1,048,576 bytes; kept.

            call: The call's id; minted when None.

            actor: Who calls; None: the store's.
        """
        values = _failing(error_code, error_message, outcome, result)
        return (yield from self._held("fail", claim, values, call, actor))

    def abort(
        self, claim: Claim, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """End the run as cancelled, as its holder."""
        return (yield from self._held("abort", claim, {}, call, actor))

    # By anybody

    def wake(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Let a waiting run be taken again."""
        return (yield from self._free("wake", run_id, {}, call, actor))

    def requeue(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Put a launch back whose lease ran out before anything ran."""
        return (yield from self._free("requeue", run_id, {}, call, actor))

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
        values = _failing(error_code, error_message, outcome, result)
        return (yield from self._free("reject", run_id, values, call, actor))

    def pause(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Keep `claim_next` from taking the run."""
        return (yield from self._free("pause", run_id, {}, call, actor))

    def resume(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """End a pause."""
        return (yield from self._free("resume", run_id, {}, call, actor))

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
        return (yield from self._free("adopt", run_id, values, call, actor))

    def request_cancel(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Ask the live holder of a run to end it."""
        return (yield from self._free("request_cancel", run_id, {}, call, actor))

    def cancel_stale(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Cancel a run that has begun and that nobody holds."""
        return (yield from self._free("cancel_stale", run_id, {}, call, actor))

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
        return (yield from self._free("reap", run_id, values, call, actor))

    def reap_cancelled(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Cancel a run whose holder was asked to and is gone."""
        return (yield from self._free("reap_cancelled", run_id, {}, call, actor))

    def cancel(
        self, run_id: str, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Cancelled | CancelRequested | AlreadyFinal | Refused]:
        """Cancel a run, with one of three honest answers.

        Returns:
            `Cancelled`; `CancelRequested`: a holder is at work and will end it (also when it was
            asked before); `AlreadyFinal`; or `Refused` (missing, or raced).
        """
        live = False
        for _ in range(ATTEMPTS):
            for name in ("cancel", "cancel_stale", "request_cancel"):
                one = None if call is None else f"{call}/{name}"
                outcome = yield from self._free(name, run_id, {}, one, actor)
                if not isinstance(outcome, Refused):
                    asked = name == "request_cancel"
                    return CancelRequested(outcome) if asked else Cancelled(outcome)
                live = outcome.guard == "no cancellation requested"
            row, _now = yield from read(self.program, str(run_id))
            if row is None:
                return Refused(transition="cancel", reason=Reason.MISSING, key=str(run_id))
            if row["status"] in self.program.machine.final:
                return AlreadyFinal(self.program.record(row))
            if live:
                return CancelRequested(self.program.record(row))
        return Refused(transition="cancel", reason=Reason.RACED, key=str(run_id))

    def reap_due(self, limit: int = 100, *, actor: Actor | None = None) -> Operation[list[Run]]:
        """End up to `limit` (1 to 1,000) runs that `reap` or `reap_cancelled` would take."""
        ended: list[Run] = []
        most = limit_of(limit)
        scope = "" if self.engine.project is not None else "_anywhere"
        for name in ("reap_due", "reap_cancelled_due"):
            transition = self.program.machine.selection(name).transition
            declared = self.program.machine.transition(transition).params
            values = {"error_message": LOST_MESSAGE} if declared else {}
            params = {**admit_params(declared, values), "project": self.engine.project}
            while len(ended) < most:
                caller = self.engine.caller(None, actor)
                row = yield from take_next(self.program, f"{name}{scope}", params, caller)
                if isinstance(row, Refused):
                    break
                ended.append(self.program.record(row))
        return ended

    def _held(
        self,
        name: str,
        claim: Claim,
        values: Mapping[str, object],
        call: str | None,
        actor: Actor | None,
    ) -> Operation[Run | Refused]:
        run_id = claim_of(claim).run_id
        return (yield from self._free(name, run_id, {**values, **presented(claim)}, call, actor))

    def _free(
        self,
        name: str,
        run_id: str,
        values: Mapping[str, object],
        call: str | None,
        actor: Actor | None,
    ) -> Operation[Run | Refused]:
        row = yield from self.call(name, run_id, values, call=call, actor=actor)
        if isinstance(row, Refused):
            return row
        run: Run = self.program.record(row)
        return run


def _failing(
    error_code: str, error_message: str, outcome: RunOutcome | str, result: JsonValue
) -> Mapping[str, object]:
    return {
        "error_code": error_code,
        "error_message": error_message,
        "outcome": outcome,
        "result": result,
    }
