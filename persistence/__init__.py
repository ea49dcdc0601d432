"""sqlatch on a database: open a store, and call its typed faces."""

from __future__ import annotations

from persistence.clock import Clock, ManualClock, SystemClock
from persistence.store import Page, Store, open_store
from persistence.stores.claims import AlreadyFinal, Cancelled, CancelRequested, Claim, Unchanged

__all__ = [
    "AlreadyFinal",
    "CancelRequested",
    "Cancelled",
    "Claim",
    "Clock",
    "ManualClock",
    "Page",
    "Store",
    "SystemClock",
    "Unchanged",
    "open_store",
]
