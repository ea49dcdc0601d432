"""What must be true of every move of a leased row, whatever the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statemachine.kinds import Row
    from statemachine.machine import Machine, Transition

FENCED = "a lease that passes on without its holder's token raises the generation"
NEVER_STOLEN = "nobody takes a lease that another holds live"
NEVER_FALLS = "the generation never falls"


def broken_law(
    machine: Machine, transition: Transition, before: Row, after: Row, now: int
) -> str | None:
    """Return the law of leases that a move breaks, or None.

    Args:
        machine: The declaration.

        transition: The move.

        before: The plain row that it left.

        after: The plain row that it made.

        now: Milliseconds since the Unix epoch.
    """
    lease = machine.lease
    if lease is None:
        return None
    grown = int(after[lease.generation.name] or 0) - int(before[lease.generation.name] or 0)
    if grown < 0:
        return NEVER_FALLS
    held, taken = before[lease.token_hash.name], after[lease.token_hash.name]
    if held == taken or machine.by_holder(transition):
        return None
    expiry = before[lease.expires_at.name]
    if held is not None and taken is not None and expiry is not None and int(expiry) > now:
        return NEVER_STOLEN
    return FENCED if grown == 0 else None
