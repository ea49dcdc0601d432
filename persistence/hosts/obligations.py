"""Storing obligations: the unresolved intent of a run and session is reused, whatever its cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from persistence.hosts.turn_message import TurnDescriptor
from persistence.stores.turn_facts import facts_of
from statemachine.errors import StoreUnavailable, UniquenessConflict
from statemachine.machines import TurnCause, TurnIntent, TurnStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from persistence.stores.intents import Intents

TERMINAL_STATES = ("failed", "timed_out", "cancelled")
_LOOKED_AT = 100


class Obligations:
    """The intents of a session host's runs.

    Args:
        intents: The store's intents; None while there is no store, which is as if it were out of
            reach.
    """

    def __init__(self, intents: Callable[[], Intents | None]) -> None:
        self._intents = intents

    def keep(self, descriptor: TurnDescriptor) -> TurnDescriptor:
        """Store an obligation, not eligible yet; return the one that stands for it.

        Raises:
            StoreBusy, StoreUnavailable, StoreCorrupt, CommitUnknown: It is not known to be stored.
        """
        return self.pending(descriptor.run_id, descriptor.target_session_id) or described(
            self._ensured(descriptor, eligible=False)
        )

    def owe(self, descriptor: TurnDescriptor) -> None:
        """Store an obligation, if it is new, and make it eligible, unless it is resolved.

        Raises:
            StoreBusy, StoreUnavailable, StoreCorrupt, CommitUnknown: It is not known to be stored.
        """
        stored = self._ensured(descriptor, eligible=True)
        if stored.status is TurnStatus.RESOLVED:
            return
        own = described(stored)
        observed = descriptor.fallback_facts
        facts = evolve(
            own.fallback_facts,
            observed_state=observed.observed_state,
            reason=observed.reason,
            handoff=observed.handoff,
        )
        if stored.status is TurnStatus.PENDING or facts != own.fallback_facts:
            self._store().make_eligible(stored.intent_id, fallback_facts=facts)

    def pending(self, run_id: str, session_id: str) -> TurnDescriptor | None:
        """Return the unresolved obligation of a run and session."""
        found = self._store().find_pending(run_id, session_id)
        return None if found is None else described(found)

    def waiting(self, session_id: str) -> list[TurnDescriptor]:
        """Return a session's newest obligations that are pending."""
        found = self._store().list(
            session_id=session_id, statuses=(TurnStatus.PENDING,), limit=_LOOKED_AT
        )
        return [described(intent) for intent in found]

    def settled(self, run_id: str, session_id: str) -> bool:
        """Tell whether the run's failure has led to a turn before, perhaps by another host."""
        intents = self._store().list(session_id=session_id, run_id=run_id, limit=_LOOKED_AT)
        return any(
            intent.eligible_at is not None
            and (
                intent.cause is TurnCause.LAUNCH_FAILED
                or facts_of(intent.fallback_facts).observed_state in TERMINAL_STATES
            )
            for intent in intents
        )

    def _ensured(self, descriptor: TurnDescriptor, *, eligible: bool) -> TurnIntent:
        """Return the stored intent: this one, or the unresolved one that stands in its way."""
        try:
            return self._store().ensure(**descriptor.given(), eligible=eligible)
        except UniquenessConflict as conflict:
            if isinstance(conflict.blocker, TurnIntent):
                return conflict.blocker
            # It was resolved between the refusal and the look at it.
            return self._store().ensure(**descriptor.given(), eligible=eligible)

    def _store(self) -> Intents:
        intents = self._intents()
        if intents is None:
            raise StoreUnavailable("there is no store")
        return intents


def described(intent: TurnIntent) -> TurnDescriptor:
    """Return the descriptor of a stored intent."""
    return TurnDescriptor(
        intent_id=intent.intent_id,
        source_event_id=intent.source_event_id,
        run_id=intent.run_id,
        workflow=intent.workflow,
        target_session_id=intent.target_session_id,
        cause=intent.cause,
        node_id=intent.node_id,
        attempt_id=intent.attempt_id,
        fallback_facts=facts_of(intent.fallback_facts),
    )
