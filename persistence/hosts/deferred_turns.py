"""The deferred-turn coordinator: each obliged turn is delivered once, by the path that is first."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from persistence.hosts.fallback_turns import FallbackTurns
from persistence.hosts.natural_turns import Delivery, NaturalTurn, NaturalTurns
from persistence.hosts.turn_delivery import Arrival, TurnDelivery

if TYPE_CHECKING:
    from collections.abc import Callable

    from persistence.stores.intents import Intents
    from statemachine.machines import TurnIntent

__all__ = ["Arrival", "DeferredTurns", "Delivery", "NaturalTurn"]

LEASE = timedelta(seconds=30)


def _untold(_turn: NaturalTurn, _why: str) -> None:
    """Nobody is told of messages that are not sent."""


class DeferredTurns:
    """Delivers the natural messages and the fallbacks of one session host, from one thread.

    A send has to take much less time than the lease. What was sent is remembered until the store
    has it, so that a store failure leads to no second message.

    Args:
        intents: The store's intents; None while there is no store.

        arrived: Finds the message with an intent's id in the conversation so far.

        holder: Name of this host; a key.

        lease: How long a delivery may take.

        dropped: Told of each natural message that was kept and will not be sent, and why.
    """

    def __init__(
        self,
        intents: Callable[[], Intents | None],
        arrived: Callable[[str], Arrival | None],
        *,
        holder: str,
        lease: timedelta = LEASE,
        dropped: Callable[[NaturalTurn, str], None] = _untold,
    ) -> None:
        self._intents = intents
        delivery = TurnDelivery(arrived, holder=holder, lease=lease)
        self._natural = NaturalTurns(delivery, dropped)
        self._fallback = FallbackTurns(delivery)

    def send_natural(self, turn: NaturalTurn, *, idle: bool) -> Delivery:
        """Send a workflow's message, as the successor turn where one is owed; see `NaturalTurns`.

        Args:
            turn: The message.

            idle: Whether the session can take a turn just now.
        """
        return self._natural.send(self._intents(), turn, idle=idle)

    def flush_natural(self, *, idle: bool) -> int:
        """Send what was deferred, when the session is idle; return how many were sent."""
        intents = self._intents() if idle else None
        return 0 if intents is None else self._natural.flush(intents)

    def deliver_fallbacks(
        self, session_id: str, send: Callable[[TurnIntent], None], *, idle: bool
    ) -> int:
        """Send the fallbacks that are due, when the session is idle; return how many were sent.

        Args:
            session_id: The session.

            send: Puts `fallback_message` of the intent into the conversation before it returns.

            idle: Whether the session can take a turn just now.
        """
        intents = self._intents() if idle else None
        return 0 if intents is None else self._fallback.deliver(intents, session_id, send)

    def clear(self) -> None:
        """Drop what was deferred; the intents stay as they are."""
        self._natural.clear()
