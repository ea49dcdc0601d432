"""Ending a session's run: the end and the turn that it owes are stored in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from persistence.hosts.keeper import TROUBLE
from persistence.hosts.safe_error import SafeError, safe_text
from persistence.hosts.turn_events import MAX_STEPS, End, Quiet, WorkflowTurn, wanted_by_user
from statemachine.machines import RunOutcome
from statemachine.outcome import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from persistence import Claim, Store
    from persistence.hosts.successor_turns import SuccessorTurns
    from statemachine.kinds import JsonValue
    from statemachine.machines import Run

RESULTS = {End.FAILED: RunOutcome.FAILED, End.TIMED_OUT: RunOutcome.TIMED_OUT}


class Endings:
    """Ends runs of one session host.

    Args:
        store: The store.

        successors: Which turns they owe.
    """

    def __init__(self, store: Store, successors: SuccessorTurns) -> None:
        self._store = store
        self._successors = successors

    def end(
        self,
        claim: Claim,
        turn: WorkflowTurn,
        end: End,
        *,
        reason: str | None = None,
        result: JsonValue = None,
        presented: bool = False,
    ) -> Run | Refused:
        """End a held run, or park it where it waits, and let its session have the next turn.

        Args:
            claim: The run.

            turn: Whose turn it was.

            end: What it came to.

            reason: Why it failed or timed out; secrets are redacted.

            result: What came of it; JSON.

            presented: Whether the result of a completed or waiting run will be presented.

        Returns:
            The record, or why it was not this host's to end; then nothing was changed.

        Raises:
            StoreBusy, StoreUnavailable, StoreCorrupt, CommitUnknown: It has not ended; repeat.
        """
        if end is End.CANCELLED and self._user_wanted(claim.run_id):
            self._successors.quiet(turn.run_id, Quiet.CANCELLED)
        call = f"{end.value}/{claim.run_id}/{claim.generation}"
        safe = safe_text(reason or "", nothing_said=f"The workflow ended with state {end.value}")

        def ended() -> Run | Refused:
            return self._ended(claim, end, safe, result=result, call=call)

        def owe() -> None:
            told = None if reason is None else safe.message
            self._successors.owe(turn, end, reason=told, presented=presented)

        return self.with_turn(turn, ended, owe)

    def with_turn(
        self, turn: WorkflowTurn, ended: Callable[[], Run | Refused], owe: Callable[[], None]
    ) -> Run | Refused:
        """Store an end and what it owes together; where that fails, the end alone.

        Args:
            turn: Whose turn it was.

            ended: Ends the run; is repeated with the same call id.

            owe: Stores the obligation; raises where the store is out of reach.

        Raises:
            StoreBusy, StoreUnavailable, StoreCorrupt, CommitUnknown: The end is not stored.
        """
        try:
            with self._store.transaction():
                run = ended()
                if not isinstance(run, Refused):
                    owe()
        except TROUBLE:
            # An obligation that cannot be stored must not keep the run from ending.
            run = ended()
            if not isinstance(run, Refused):
                self._owe_late(turn, owe)
        if not isinstance(run, Refused):
            self._successors.over(turn.run_id)
        return run

    def _user_wanted(self, run_id: str) -> bool:
        """Tell whether a user asked for the cancellation, perhaps through another host."""
        return wanted_by_user(self._store.runs.history(run_id, limit=MAX_STEPS))

    def _owe_late(self, turn: WorkflowTurn, owe: Callable[[], None]) -> None:
        try:
            owe()
        except TROUBLE as error:
            self._successors.lost(turn, error)

    def _ended(
        self, claim: Claim, end: End, safe: SafeError, *, result: JsonValue, call: str
    ) -> Run | Refused:
        runs = self._store.runs
        match end:
            case End.COMPLETED:
                return runs.finish(claim, result=result, call=call)
            case End.WAITING:
                return runs.park(claim, waiting=True, call=call)
            case End.CANCELLED:
                return runs.abort(claim, call=call)
            case End.FAILED | End.TIMED_OUT:
                return runs.fail(
                    claim,
                    error_code=safe.code.value,
                    error_message=safe.message,
                    outcome=RESULTS[end],
                    result=result,
                    call=call,
                )
