"""sqlatch on a database: open a store, and call its typed faces."""

from __future__ import annotations

from persistence.checking import CheckReport, check_machine
from persistence.clock import Clock, ManualClock, SystemClock
from persistence.store import Page, Store, open_store
from persistence.stores.claims import AlreadyFinal, Cancelled, CancelRequested, Claim, Unchanged
from persistence.stores.intent_deliveries import IntentClaim
from persistence.stores.notifications import NotificationClaim
from persistence.stores.run_holding import Finish
from persistence.stores.turn_facts import TurnFacts
from statemachine.row_call import RowCall

__all__ = [
    "AlreadyFinal",
    "CancelRequested",
    "Cancelled",
    "CheckReport",
    "Claim",
    "Clock",
    "Finish",
    "IntentClaim",
    "ManualClock",
    "NotificationClaim",
    "Page",
    "RowCall",
    "Store",
    "SystemClock",
    "TurnFacts",
    "Unchanged",
    "check_machine",
    "open_store",
]
