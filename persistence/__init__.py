"""sqlatch on a database: open a store, and call its typed faces."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_HOMES = {
    "persistence.checking": ("CheckReport", "check_machine"),
    "persistence.clock": ("Clock", "ManualClock", "SystemClock"),
    "persistence.store": ("Page", "Store", "open_store"),
    "persistence.stores.claims": (
        "AlreadyFinal",
        "Cancelled",
        "CancelRequested",
        "Claim",
        "Unchanged",
    ),
    "persistence.stores.intent_deliveries": ("IntentClaim",),
    "persistence.stores.notifications": ("NotificationClaim",),
    "persistence.stores.run_holding": ("Finish",),
    "persistence.stores.turn_facts": ("TurnFacts",),
    "statemachine.row_call": ("RowCall",),
}
"""Where each public name is defined: whoever imports one module need not load the others."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        for home, names in _HOMES.items():
            if name in names:
                value = globals()[name] = getattr(importlib.import_module(home), name)
                return value
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
