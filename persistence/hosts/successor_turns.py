"""Which event owes a session a turn: abort provenance, and what becomes of it at the end.

An obligation is stored before a turn is aborted, and becomes eligible for a fallback once the run's
end is durable. What a user does (cancel, pause, Escape, shutdown) owes nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, assert_never

from attrs import frozen

from persistence.hosts.keeper import TROUBLE
from persistence.hosts.obligations import Obligations
from persistence.hosts.safe_error import redacted
from persistence.hosts.turn_events import (
    END_OF,
    MAX_STEPS,
    End,
    Quiet,
    WorkflowTurn,
    aborted,
    failed_launch,
    observed,
    terminal,
    told,
    wanted_by_user,
)
from statemachine.machines import TurnCause

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from persistence.hosts.safe_error import SafeError
    from persistence.hosts.turn_message import TurnDescriptor
    from persistence.stores.intents import Intents
    from persistence.stores.runs import Runs

MAX_KEPT = 1_000
"""How many aborted runs a host remembers until they end."""

_log = logging.getLogger(__name__)


@frozen
class Provenance:
    """Why a run's turn was aborted here.

    Attributes:
        cause: Why here; an obligation that is reused may have another.

        descriptor: The obligation.

        trouble: What kept it from being stored; None: it is stored.
    """

    cause: TurnCause
    descriptor: TurnDescriptor
    trouble: str | None = None


class SuccessorTurns:
    """Keeps the obligations of one session host, from one thread.

    Args:
        intents: The store's intents; None while there is no store.

        warn: Told, in one line, when no successor turn is guaranteed.
    """

    def __init__(self, intents: Callable[[], Intents | None], warn: Callable[[str], None]) -> None:
        self._obligations = Obligations(intents)
        self._warn = warn
        self._aborted: dict[str, Provenance] = {}
        self._quiet: dict[str, Quiet] = {}

    # Before an abort

    def before_abort(
        self,
        turn: WorkflowTurn,
        cause: TurnCause,
        *,
        node_id: str | None = None,
        attempt_id: str | None = None,
        reason: str | None = None,
    ) -> str | None:
        """Oblige the session to a turn, before its active one is aborted.

        Never raises for a store out of reach: the obligation is kept, and stored when the run ends.
        How long that may take to be noticed is the store's `busy_timeout`.

        Args:
            turn: The active turn.

            cause: `agentCancelled`, `timedOut`, `controllerInterrupted` or `claimLost`.

            node_id, attempt_id: Which step was at work.

            reason: Why, in a line; secrets are redacted.

        Returns:
            The intent's id; None where a user wanted quiet. One interruption has one id.
        """
        if turn.run_id in self._quiet:
            return None
        known = self._aborted.get(turn.run_id)
        if known is not None:
            return known.descriptor.intent_id
        descriptor = aborted(turn, cause, node_id=node_id, attempt_id=attempt_id, reason=reason)
        try:
            provenance = Provenance(cause, self._obligations.keep(descriptor))
        except TROUBLE as error:
            _log.warning("the successor turn of %s is not stored yet: %s", turn.run_id, error)
            provenance = Provenance(cause, descriptor, str(error))
        self._remember(turn.run_id, provenance)
        return provenance.descriptor.intent_id

    def turn_began(self, run_id: str) -> None:
        """Say that a turn of the run is active again: its earlier interruption is over."""
        self._aborted.pop(run_id, None)

    # Quiet

    def quiet(self, run_id: str, why: Quiet) -> None:
        """Say that a user or the host stopped the run on purpose."""
        self._quiet[run_id] = why

    def resumed(self, run_id: str) -> None:
        """Say that a paused or held run goes on; a cancelled one stays quiet."""
        if self._quiet.get(run_id) in (Quiet.PAUSED, Quiet.ESCAPED):
            del self._quiet[run_id]

    # After a durable end

    def ended(
        self, turn: WorkflowTurn, end: End, *, reason: str | None = None, presented: bool = False
    ) -> None:
        """Let the session have its turn, once the end is durable.

        Never raises for a store out of reach; the host is warned then. To leave no instant between
        the durable end and the obligation, call `owe` within the same transaction before.

        Args:
            turn: Whose.

            end: What it came to.

            reason: Why, in a line; secrets are redacted.

            presented: Whether a completed or waiting run presents its result: that is the turn.
        """
        try:
            self.owe(turn, end, reason=reason, presented=presented)
        except TROUBLE as error:
            self.lost(turn, error)

    def owe(
        self, turn: WorkflowTurn, end: End, *, reason: str | None = None, presented: bool = False
    ) -> None:
        """Do what `ended` does, but raise where the store is out of reach.

        Raises:
            StoreBusy, StoreUnavailable, StoreCorrupt, CommitUnknown: Nothing is obliged.
        """
        provenance = self._aborted.get(turn.run_id)
        if turn.run_id in self._quiet:
            return
        if provenance is not None and provenance.cause is TurnCause.CLAIM_LOST:
            # Never by time alone: the new holder's prompt or its end settles it.
            if provenance.trouble is not None:
                self._obligations.keep(provenance.descriptor)
            return
        match end:
            case End.COMPLETED | End.WAITING:
                if not presented:
                    self._owe_interrupted(turn, provenance, end, reason)
            case End.FAILED | End.TIMED_OUT | End.CANCELLED:
                self._owe_terminal(turn, provenance, end, reason)
            case _:
                assert_never(end)

    def reconcile(self, runs: Runs, session_id: str, *, busy: Collection[str] = ()) -> int:
        """Settle what others left: pending intents of runs that have ended meanwhile.

        A detached worker, an operator or a reaper ends runs without a word to the session. Called
        at session start and at each poll.

        Args:
            runs: The store's runs.

            session_id: Whose intents.

            busy: Runs whose end is this host's own affair, as they are at work or presented here.

        Returns:
            How many intents became eligible.

        Raises:
            StoreBusy, StoreUnavailable, StoreCorrupt, CommitUnknown: The next poll repeats it.
        """
        made = 0
        for descriptor in self._obligations.waiting(session_id):
            run = runs.get(descriptor.run_id)
            if run is None or run.outcome is None or run.run_id in (*busy, *self._quiet):
                continue
            if wanted_by_user(runs.history(run.run_id, limit=MAX_STEPS)):
                continue
            end = END_OF[run.outcome]
            self._obligations.owe(observed(descriptor, end, told(run.error_message)))
            made += 1
        return made

    def over(self, run_id: str) -> None:
        """Forget a run that has ended."""
        self._aborted.pop(run_id, None)
        self._quiet.pop(run_id, None)

    def launch_failed(self, turn: WorkflowTurn, error: SafeError) -> None:
        """Oblige to an eligible turn at once, after the launch has failed durably.

        Raises:
            StoreBusy, StoreUnavailable, StoreCorrupt, CommitUnknown: Nothing is obliged.
        """
        descriptor = failed_launch(turn, error.message)
        self._obligations.owe(descriptor)

    def lost(self, turn: WorkflowTurn, error: BaseException) -> None:
        """Tell the host that no successor turn is guaranteed."""
        self._warn(
            f"Workflow {turn.workflow} ended (run {turn.run_id}), but no successor turn is"
            f" guaranteed: {redacted(str(error))}"
        )

    def _owe_interrupted(
        self, turn: WorkflowTurn, provenance: Provenance | None, end: End, reason: str | None
    ) -> None:
        """Make an interrupted turn's intent eligible, as nothing else would resolve it."""
        why = told(reason) or "No result presentation was available"
        pending = self._obligations.pending(turn.run_id, turn.session_id)
        descriptor = pending or (None if provenance is None else provenance.descriptor)
        if descriptor is not None:
            self._obligations.owe(observed(descriptor, end, why))

    def _owe_terminal(
        self, turn: WorkflowTurn, provenance: Provenance | None, end: End, reason: str | None
    ) -> None:
        pending = self._obligations.pending(turn.run_id, turn.session_id)
        handed_over = pending is not None and pending.cause is TurnCause.CLAIM_LOST
        if turn.child and provenance is None and not handed_over:
            return
        descriptor = pending or (None if provenance is None else provenance.descriptor)
        if descriptor is None:
            if end is End.CANCELLED or self._obligations.settled(turn.run_id, turn.session_id):
                return
            descriptor = terminal(turn, end)
        self._obligations.owe(observed(descriptor, end, told(reason)))

    def _remember(self, run_id: str, provenance: Provenance) -> None:
        self._aborted[run_id] = provenance
        if len(self._aborted) > MAX_KEPT:
            oldest = next(iter(self._aborted))
            dropped = self._aborted.pop(oldest)
            if dropped.trouble is not None:
                self._warn(f"Too many aborted runs: no successor turn is guaranteed for {oldest}")
