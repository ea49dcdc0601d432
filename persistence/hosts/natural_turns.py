"""Natural turns: messages of the workflow itself, which wait while the session is busy."""

from __future__ import annotations

import enum
import logging
from typing import TYPE_CHECKING

from attrs import frozen

from persistence.hosts.keeper import TROUBLE
from statemachine.outcome import Reason, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from persistence.hosts.turn_delivery import TurnDelivery
    from persistence.stores.intents import Intents
    from statemachine.machines import TurnResolution

_log = logging.getLogger(__name__)


@frozen(kw_only=True)
class NaturalTurn:
    """A message that the workflow itself sends, and that may be the successor turn.

    Attributes:
        run_id, session_id: Whose turn.

        resolution: `workflowPrompt` or `presentation`.

        send: Puts the message into the conversation before it returns; is given the intent's id,
            which the message has to carry, or None.
    """

    run_id: str
    session_id: str
    resolution: TurnResolution
    send: Callable[[str | None], None]


class Delivery(enum.StrEnum):
    """What became of a natural message."""

    SENT = "sent"
    DEFERRED = "deferred"
    SUPPRESSED = "suppressed"


class NaturalTurns:
    """Sends natural messages, and keeps the newest of each intent while the session is busy.

    Args:
        delivery: How a turn is delivered.

        dropped: Told of each message that was kept and will not be sent, and why.
    """

    def __init__(self, delivery: TurnDelivery, dropped: Callable[[NaturalTurn, str], None]) -> None:
        self._delivery = delivery
        self._dropped = dropped
        # By intent id; by run and session where the store could not say which intent there is.
        self._kept: dict[str | tuple[str, str], NaturalTurn] = {}

    def send(self, intents: Intents | None, turn: NaturalTurn, *, idle: bool) -> Delivery:
        """Send a workflow's message, as the successor turn where one is owed.

        Args:
            intents: The store's intents; None: there is no store.

            turn: The message.

            idle: Whether the session can take a turn just now.

        Returns:
            Sent; deferred to a flush, as the session is busy, somebody else delivers the turn just
            now, or the store is out of reach; suppressed, as the conversation has its turn.

        Raises:
            Exception: What `send` or `arrived` raised; the message is not kept.
        """
        if intents is None:
            turn.send(None)
            return Delivery.SENT
        self._delivery.give_back_owed(intents)
        try:
            intent = intents.find_pending(turn.run_id, turn.session_id)
        except TROUBLE as error:
            _log.warning("a message of run %s waits for the store: %s", turn.run_id, error)
            self._keep((turn.run_id, turn.session_id), turn)
            return Delivery.DEFERRED
        if intent is None:
            turn.send(None)
            return Delivery.SENT
        outcome = self._deliver(intents, intent.intent_id, turn) if idle else Delivery.DEFERRED
        if outcome is Delivery.DEFERRED:
            self._keep(intent.intent_id, turn)
        return outcome

    def flush(self, intents: Intents) -> int:
        """Send what was deferred, in the order in which its intents first were; return how many.

        Raises:
            Exception: The first that a send raised, once all were tried; what failed is kept.
        """
        self._delivery.give_back_owed(intents)
        sent = 0
        failures: list[Exception] = []
        for key, turn in tuple(self._kept.items()):
            try:
                outcome = self._flush(intents, key, turn)
            except Exception as error:  # noqa: BLE001 - of the host's send; raised below
                failures.append(error)
                continue
            if outcome is not Delivery.DEFERRED:
                self._kept.pop(key, None)
            sent += outcome is Delivery.SENT
            if outcome is Delivery.SUPPRESSED:
                self._dropped(turn, "the turn it was for has been given")
        if failures:
            raise failures[0]
        return sent

    def clear(self) -> None:
        """Drop what was deferred; the intents stay as they are."""
        for turn in self._kept.values():
            self._dropped(turn, "the session ends")
        self._kept.clear()

    def _keep(self, key: str | tuple[str, str], turn: NaturalTurn) -> None:
        """Keep the newest message of an intent, in the place of the first."""
        replaced = self._kept.get(key)
        self._kept[key] = turn
        if replaced is not None:
            self._dropped(replaced, "a newer message took its place")

    def _flush(self, intents: Intents, key: str | tuple[str, str], turn: NaturalTurn) -> Delivery:
        if isinstance(key, str):
            return self._deliver(intents, key, turn)
        try:
            intent = intents.find_pending(turn.run_id, turn.session_id)
        except TROUBLE:
            return Delivery.DEFERRED
        if intent is None:
            turn.send(None)
            return Delivery.SENT
        return self._deliver(intents, intent.intent_id, turn)

    def _deliver(self, intents: Intents, intent_id: str, turn: NaturalTurn) -> Delivery:
        try:
            claim = intents.claim(
                intent_id,
                session_id=turn.session_id,
                holder=self._delivery.holder,
                lease=self._delivery.lease,
            )
        except TROUBLE as error:
            _log.warning("intent %s waits for the store: %s", intent_id, error)
            return Delivery.DEFERRED
        if isinstance(claim, Refused):
            return self._unclaimed(claim, turn)
        with self._delivery.given_back(intents, claim) as resolve:
            arrival = self._delivery.arrival(intent_id)
            if arrival is not None:
                resolve(arrival)
                return Delivery.SUPPRESSED
            if not intents.verify(claim):
                return Delivery.DEFERRED
            turn.send(intent_id)
            resolve(self._delivery.note_sent(intent_id, turn.resolution))
        return Delivery.SENT

    def _unclaimed(self, refused: Refused, turn: NaturalTurn) -> Delivery:
        if refused.reason is Reason.MISSING:
            # Nothing obliges to this turn any more, so the message is one like any other.
            turn.send(None)
            return Delivery.SENT
        return Delivery.SUPPRESSED if refused.reason is Reason.STATE else Delivery.DEFERRED
