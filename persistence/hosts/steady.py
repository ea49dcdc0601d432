"""The clock that leases are held by: steady, never set, the same for all processes of a machine."""

from __future__ import annotations

import time

# Linux's CLOCK_MONOTONIC stands still while the machine is suspended; a lease does not.
CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_seconds() -> float:
    """Return the seconds of the steady clock."""
    return time.clock_gettime(CLOCK)
