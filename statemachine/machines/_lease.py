"""The lease: a temporary exclusive hold with a fencing generation, as a reusable fragment."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated

import attrs

from statemachine.kinds import Choice, Duration, Integer, Text, Token
from statemachine.machine import Invariant, LeaseColumns
from statemachine.vocabulary import (
    NOW,
    Add,
    And,
    AtMost,
    Clear,
    Deadline,
    Equal,
    Greatest,
    Guard,
    IsNull,
    Less,
    NotNull,
    Or,
    Param,
    Put,
    Set,
    iff,
)


class HolderKind(enum.StrEnum):
    """What holds a lease."""

    SESSION = "session"
    HOST = "host"
    CONTROL = "control"


@attrs.frozen(kw_only=True)
class Leased:
    """The lease's columns, to be part of a record.

    Attributes:
        lease_holder: Name of the holder; None when the lease is absent.

        lease_holder_kind: What the holder is.

        lease_token_hash: SHA-256 of the holder's token, in hexadecimal.

        lease_generation: Fencing generation; grows at each acquisition, never falls.

        lease_acquired_at: When the lease was taken.

        lease_heartbeat_at: When it was last taken or renewed.

        lease_expires_at: From this instant on, others may take it.
    """

    lease_holder: str | None = None
    lease_holder_kind: HolderKind | None = None
    lease_token_hash: Annotated[str, Text(pattern="[0-9a-f]{64}")] | None = attrs.field(
        default=None, repr=False
    )
    lease_generation: Annotated[int, Integer()] = 0
    lease_acquired_at: datetime | None = None
    lease_heartbeat_at: datetime | None = None
    lease_expires_at: datetime | None = None


_lease = attrs.fields(Leased)

HOLDER = Param("holder", Text())
HOLDER_KIND = Param("holder_kind", Choice(HolderKind))
TOKEN = Param("token", Token())
GENERATION = Param("generation", Integer())
LEASE = Param("lease", Duration())

COLUMNS = LeaseColumns(
    _lease.lease_holder,
    _lease.lease_holder_kind,
    _lease.lease_token_hash,
    _lease.lease_generation,
    _lease.lease_acquired_at,
    _lease.lease_heartbeat_at,
    _lease.lease_expires_at,
)

LEASED = NotNull(_lease.lease_holder)
LIVE_NOW = Less(NOW, _lease.lease_expires_at)

FREE = (Guard("free", Or(IsNull(_lease.lease_expires_at), AtMost(_lease.lease_expires_at, NOW))),)
LIVE = (Guard("live", LIVE_NOW),)
HELD = (
    Guard(
        "held",
        And(
            Equal(_lease.lease_token_hash, TOKEN),
            Equal(_lease.lease_generation, GENERATION),
        ),
    ),
)
HELD_LIVE = HELD + LIVE

FENCE = (Add(_lease.lease_generation, 1),)
EXTEND = (
    Greatest(_lease.lease_heartbeat_at, NOW),
    Greatest(_lease.lease_expires_at, Deadline(LEASE)),
)
_HOLD = (
    Set(_lease.lease_holder, HOLDER),
    Set(_lease.lease_token_hash, TOKEN),
    Set(_lease.lease_acquired_at, NOW),
    Set(_lease.lease_heartbeat_at, NOW),
    Set(_lease.lease_expires_at, Deadline(LEASE)),
)
TAKE = (*_HOLD, Set(_lease.lease_holder_kind, HOLDER_KIND), *FENCE)
TAKE_AT_BIRTH = (
    *_HOLD,
    Set(_lease.lease_holder_kind, HOLDER_KIND),
    Put(_lease.lease_generation, 1),
)
TAKE_FOR_CONTROL = (*_HOLD, Put(_lease.lease_holder_kind, HolderKind.CONTROL), *FENCE)
HAND_ON = (
    Set(_lease.lease_holder, HOLDER),
    Set(_lease.lease_holder_kind, HOLDER_KIND),
    *EXTEND,
)
DROP = (
    Clear(_lease.lease_holder),
    Clear(_lease.lease_holder_kind),
    Clear(_lease.lease_token_hash),
    Clear(_lease.lease_acquired_at),
    Clear(_lease.lease_heartbeat_at),
    Clear(_lease.lease_expires_at),
)
DROP_AND_FENCE = DROP + FENCE

INVARIANTS = (
    Invariant(
        "the lease is whole or absent",
        And(
            iff(LEASED, NotNull(_lease.lease_holder_kind)),
            iff(LEASED, NotNull(_lease.lease_token_hash)),
            iff(LEASED, NotNull(_lease.lease_acquired_at)),
            iff(LEASED, NotNull(_lease.lease_heartbeat_at)),
            iff(LEASED, NotNull(_lease.lease_expires_at)),
        ),
    ),
    Invariant(
        "the lease expires after it was taken",
        Or(
            IsNull(_lease.lease_expires_at),
            Less(_lease.lease_acquired_at, _lease.lease_expires_at),
        ),
    ),
)
