"""One delivery of a successor turn: claimed, looked for in the conversation, sent, resolved."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attrs import frozen

from persistence.hosts.keeper import TROUBLE
from persistence.hosts.turn_message import message_id
from statemachine.outcome import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from persistence import IntentClaim
    from persistence.stores.intents import Intents
    from statemachine.machines import TurnResolution

_log = logging.getLogger(__name__)


@frozen
class Arrival:
    """A message in the conversation that carries an intent's id.

    Attributes:
        resolution: What kind of message it is.

        message_id: Its id.
    """

    resolution: TurnResolution
    message_id: str


class TurnDelivery:
    """What the paths of delivery share: who delivers, what was sent, what is to be given back.

    Args:
        arrived: Finds the message with an intent's id in the conversation so far.

        holder: Name of this host; a key.

        lease: How long a delivery may take.
    """

    def __init__(
        self, arrived: Callable[[str], Arrival | None], *, holder: str, lease: timedelta
    ) -> None:
        self.holder = holder
        self.lease = lease
        self._arrived = arrived
        self._sent: dict[str, Arrival] = {}
        self._owed: dict[str, IntentClaim] = {}

    def arrival(self, intent_id: str) -> Arrival | None:
        """Return the message that has given the turn already."""
        return self._arrived(intent_id) or self._sent.get(intent_id)

    def note_sent(self, intent_id: str, resolution: TurnResolution) -> Arrival:
        """Remember that the turn is given, until the store has it too."""
        arrival = Arrival(resolution, message_id(intent_id, resolution))
        self._sent[intent_id] = arrival
        return arrival

    @contextmanager
    def given_back(
        self, intents: Intents, claim: IntentClaim
    ) -> Iterator[Callable[[Arrival], None]]:
        """Lend the way to resolve a claim, and give the claim back unless that happened."""
        resolved = False

        def resolve(arrival: Arrival) -> None:
            nonlocal resolved
            answer = intents.resolve(
                claim, resolution=arrival.resolution, message_id=arrival.message_id
            )
            if isinstance(answer, Refused):
                # Whoever holds it now finds the message in the conversation, or we do later.
                _log.warning(
                    "the turn of %s is given, but not settled: %s", claim.intent_id, answer
                )
            else:
                resolved = True
                self._sent.pop(claim.intent_id, None)

        try:
            yield resolve
        finally:
            if not resolved:
                self.give_back(intents, claim)

    def give_back(self, intents: Intents, claim: IntentClaim) -> None:
        """Release a claim; where the store is out of reach, with the next call."""
        try:
            intents.release(claim)
        except TROUBLE as error:
            _log.warning("the claim of %s is given back later: %s", claim.intent_id, error)
            self._owed[claim.intent_id] = claim

    def give_back_owed(self, intents: Intents) -> None:
        """Release what could not be released before."""
        owed, self._owed = self._owed, {}
        for claim in owed.values():
            self.give_back(intents, claim)
