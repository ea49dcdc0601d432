"""Fallback turns: a factual message for each eligible intent that nothing natural resolved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemachine.machines import TurnResolution

if TYPE_CHECKING:
    from collections.abc import Callable

    from persistence import IntentClaim
    from persistence.hosts.turn_delivery import TurnDelivery
    from persistence.stores.intents import Intents
    from statemachine.machines import TurnIntent

BATCH = 20
PATIENCE = 2
"""After so many failed sends in a row, an intent is tried behind the others."""

MAX_FAILING = 1_000


class FallbackTurns:
    """Delivers fallbacks in batches.

    Args:
        delivery: How a turn is delivered.
    """

    def __init__(self, delivery: TurnDelivery) -> None:
        self._delivery = delivery
        self._failures: dict[str, int] = {}

    def deliver(self, intents: Intents, session_id: str, send: Callable[[TurnIntent], None]) -> int:
        """Send the fallback of each eligible intent, the oldest first, at most 20; return how many.

        Args:
            intents: The store's intents.

            session_id: The session.

            send: Puts `fallback_message` of the intent into the conversation before it returns.

        Raises:
            Exception: What `send` or `arrived` raised, or the store; that intent and all that were
                not yet tried are given back. One that fails again and again is tried last.
        """
        self._delivery.give_back_owed(intents)
        failing = [key for key, times in self._failures.items() if times >= PATIENCE]
        claims = self._eligible(intents, session_id, BATCH, exclude=failing)
        sent = self._fall_back(intents, claims, send)
        if failing and len(claims) < BATCH:
            claims = self._eligible(intents, session_id, BATCH - len(claims))
            claims.sort(key=lambda claim: self._failures.get(claim.intent_id, 0))
            sent += self._fall_back(intents, claims, send)
        return sent

    def _eligible(
        self, intents: Intents, session_id: str, limit: int, *, exclude: list[str] | None = None
    ) -> list[IntentClaim]:
        return intents.claim_eligible(
            session_id,
            holder=self._delivery.holder,
            lease=self._delivery.lease,
            limit=limit,
            exclude=exclude or (),
        )

    def _fall_back(
        self, intents: Intents, claims: list[IntentClaim], send: Callable[[TurnIntent], None]
    ) -> int:
        sent = 0
        untried = list(claims)
        try:
            while untried:
                claim = untried.pop(0)
                self._count_failure(claim.intent_id)
                with self._delivery.given_back(intents, claim) as resolve:
                    arrival = self._delivery.arrival(claim.intent_id)
                    if arrival is not None:
                        resolve(arrival)
                    elif intents.verify(claim):
                        send(claim.intent)
                        sent += 1
                        resolve(self._delivery.note_sent(claim.intent_id, TurnResolution.FALLBACK))
                del self._failures[claim.intent_id]
        finally:
            for claim in untried:
                self._delivery.give_back(intents, claim)
        return sent

    def _count_failure(self, intent_id: str) -> None:
        """Count this try as failed until it has succeeded."""
        times = self._failures.pop(intent_id, 0)
        self._failures[intent_id] = times + 1
        if len(self._failures) > MAX_FAILING:
            del self._failures[next(iter(self._failures))]
