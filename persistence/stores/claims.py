"""What a claim and a cancellation answer."""

from __future__ import annotations

import functools
import hashlib
import os
from typing import TYPE_CHECKING, TypeAlias

from attrs import field, frozen

from statemachine.errors import InvalidArgument
from statemachine.kinds import TOKEN_BYTES, Integer, Text, Token, admit
from statemachine.machines import RUN_LAUNCH

if TYPE_CHECKING:
    from datetime import datetime

    from statemachine.kinds import Row
    from statemachine.machines import Run

_RUN_ID = RUN_LAUNCH.fields["run_id"].kind

Proof: TypeAlias = "tuple[str, Row]"
"""The run's id, and token and generation in plain form."""


@frozen
class Claim:
    """A run with the lease that holds it; what every call of a holder presents.

    Attributes:
        run: The record when the lease was taken or last renewed.

        token: The clear token, 32 bytes; only in memory, never in `repr`.
    """

    run: Run
    token: bytes = field(repr=False)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run.run_id

    @property
    def generation(self) -> int:
        """The fencing generation that the claim was given."""
        return self.run.lease_generation

    @property
    def expires_at(self) -> datetime:
        """When the lease runs out, unless it is renewed."""
        assert self.run.lease_expires_at is not None
        return self.run.lease_expires_at

    @functools.cached_property
    def proof(self) -> Proof:
        """What a holder's call presents.

        Raises:
            InvalidArgument: It was made by hand, of what is none.
        """
        if not isinstance(self.run, RUN_LAUNCH.record):
            raise InvalidArgument("claim", "a Claim of a Run")
        run_id = str(admit(_RUN_ID, self.run_id, "run_id"))
        token = admit(Token(), self.token, "token")
        generation = admit(Integer(), self.generation, "generation")
        return run_id, {"token": token, "generation": generation}


def proven(run: Run, token: bytes, proof: Proof) -> Claim:
    """Return a claim with what proves it, where that is known already."""
    claim: Claim = _new(Claim)
    _set_run(claim, run)
    _set_token(claim, token)
    # No argument of the constructor: of a changed copy it would prove what was changed.
    _set_proof(claim, proof)
    return claim


# As the constructor does it, which is written for any frozen class and takes twice as long.
_new = object.__new__
_set_run, _set_token, _set_proof = (
    getattr(Claim, name).__set__ for name in ("run", "token", "proof")
)


@frozen
class Cancelled:
    """The run is cancelled, by this call."""

    run: Run


@frozen
class CancelRequested:
    """A holder is at work and will end the run; it was asked to, now or before."""

    run: Run


@frozen
class AlreadyFinal:
    """The run had ended before; nothing was changed."""

    run: Run

    def __str__(self) -> str:
        return f"{self.run.run_id} is already {self.run.status}"


@frozen
class Unchanged:
    """The parked run's source is the given one already; nothing was written."""

    run: Run


def mint(token: bytes | None) -> bytes:
    """Return a token: the given one, else 32 random bytes."""
    return os.urandom(TOKEN_BYTES) if token is None else token


def derived(seed: bytes, number: int) -> bytes:
    """Return the token of one claim of a batch."""
    return hashlib.sha256(seed + number.to_bytes(4, "big")).digest()


def part_of(call: str, part: object) -> str:
    """Return the id of one step of a call that makes several; a key, as the call's own id is.

    Raises:
        InvalidArgument: The call's id is no key.
    """
    whole = str(admit(Text(), call, "call"))
    longest = f"{whole}/{part}"
    kind = Text()
    if len(longest) <= kind.max_chars and len(longest.encode()) <= kind.max_bytes:
        return longest
    return f"{hashlib.sha256(whole.encode()).hexdigest()}/{part}"


def claim_of(claim: object) -> Claim:
    """Return a claim: it, or that of a lease which keeps it.

    Raises:
        InvalidArgument: Neither.
    """
    if type(claim) is Claim:
        return claim
    inner = claim if isinstance(claim, Claim) else getattr(claim, "claim", claim)
    if not isinstance(inner, Claim):
        raise InvalidArgument("claim", "a Claim, as a claiming call answered it")
    return inner
