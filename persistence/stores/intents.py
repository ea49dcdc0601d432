"""The face of turn intents: `store.intents`."""

from __future__ import annotations

from persistence.stores.face import Face, single, whole
from persistence.stores.intent_deliveries import IntentDeliveries


class IntentOperations(IntentDeliveries):
    """Every operation of turn intents, without I/O."""


class Intents(Face[IntentOperations]):
    """The obligations to give a session exactly one successor turn.

    Each call answers the record or `IntentClaim`, or a falsy `Refused` that says why not. All
    arguments are validated before anything is written (`InvalidArgument`).
    """

    ensure = single(IntentOperations.ensure)
    claim = single(IntentOperations.claim)
    claim_eligible = whole(IntentOperations.claim_eligible)
    make_eligible = single(IntentOperations.make_eligible)
    resolve = single(IntentOperations.resolve)
    release = single(IntentOperations.release)
    verify = single(IntentOperations.verify)
    get = single(IntentOperations.get)
    find_pending = single(IntentOperations.find_pending)
    list = single(IntentOperations.list)
    history = single(IntentOperations.history)
