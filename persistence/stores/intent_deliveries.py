"""Delivering the turns that intents oblige to: who may, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

from persistence.stores.claims import mint
from persistence.stores.deliveries import DEFAULT_LIMIT, MAX_BATCH, delivering, is_live, take_batch
from persistence.stores.face import limit_of
from persistence.stores.intent_records import IntentRecords
from statemachine.errors import InvalidArgument
from statemachine.machines import HolderKind, TurnIntent, TurnResolution
from statemachine.outcome import Actor, Refused

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime, timedelta

    from persistence.operation import Operation


@frozen
class IntentClaim:
    """A turn intent with the lease that lets its holder deliver the turn.

    Attributes:
        intent: The record when the lease was taken.

        token: The clear token, 32 bytes; only in memory, never in `repr`.
    """

    intent: TurnIntent
    token: bytes = field(repr=False)

    @property
    def intent_id(self) -> str:
        """The intent's id."""
        return self.intent.intent_id

    @property
    def generation(self) -> int:
        """The fencing generation that the claim was given."""
        return self.intent.lease_generation

    @property
    def expires_at(self) -> datetime:
        """From this instant on, others may take it."""
        assert self.intent.lease_expires_at is not None, "a claim is made of a leased record"
        return self.intent.lease_expires_at


class IntentDeliveries(IntentRecords):
    """What the holder of a delivery does."""

    def claim(
        self,
        intent_id: str,
        *,
        session_id: str,
        holder: str,
        lease: timedelta,
        holder_kind: HolderKind | str = HolderKind.SESSION,
        token: bytes | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[IntentClaim | Refused]:
        """Take the delivery of an unresolved intent that nobody delivers just now.

        Args:
            intent_id: Which.

            session_id: The session that gets the turn.

            holder: Who delivers it; a key.

            lease: How long the lease lasts, 1 ms to 100 years.

            holder_kind: `session` or `host`.

            token: 32 bytes; minted when None.

            call: The call's id; repeated with the same token it answers the same claim.

            actor: Who calls; None: the holder.
        """
        token = mint(token)
        values = {**delivering(holder, lease, holder_kind, token), "session_id": session_id}
        itself = Actor(str(holder_kind), str(holder))
        moved = self.program.moved
        return self.call(
            "claim",
            intent_id,
            values,
            lambda cells: IntentClaim(moved(cells), token),
            call=call,
            actor=actor,
            otherwise=itself,
        )

    def claim_eligible(
        self,
        session_id: str,
        *,
        holder: str,
        lease: timedelta,
        limit: int = DEFAULT_LIMIT,
        exclude: Collection[str] = (),
        holder_kind: HolderKind | str = HolderKind.SESSION,
        token: bytes | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[list[IntentClaim]]:
        """Take the delivery of up to `limit` (1 to 100) eligible intents, in one transaction.

        Args:
            session_id, holder, lease, holder_kind, actor: As for `claim`.

            limit: Most intents.

            exclude: At most 1,000 intent ids that are passed over.

            token: One for all of them; minted when None.

            call: The call's id; repeated with the same token, it takes nothing more.

        Returns:
            What this call took, by (eligible_at, intent_id).
        """
        token = mint(token)
        values = {**delivering(holder, lease, holder_kind, token), "session_id": session_id}
        params = self.admitted(self.program.machine.transition("claim_eligible").admission, values)
        rows = yield from take_batch(
            self.program,
            "claim_eligible",
            params,
            engine=self.engine,
            actor=Actor(str(holder_kind), str(holder)) if actor is None else actor,
            call=call,
            limit=limit_of(limit, MAX_BATCH),
            exclude=self.excluded(exclude),
        )
        rows.sort(key=lambda row: (row["eligible_at"], row["intent_id"]))
        return [IntentClaim(self.record(row), token) for row in rows]

    def resolve(
        self,
        claim: IntentClaim,
        *,
        resolution: TurnResolution | str,
        message_id: str,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[TurnIntent | Refused]:
        """Say which message became the successor turn.

        Args:
            claim: Held; its lease may have expired, as long as nobody has taken it.

            resolution: `fallback` only for an eligible intent.

            message_id: The message; a key.

            call: The call's id.

            actor: Who calls; None: the holder.
        """
        values = {"resolution": resolution, "message_id": message_id}
        return self._held("resolve", claim, values, call, actor)

    def release(
        self, claim: IntentClaim, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[TurnIntent | Refused]:
        """Give the delivery back."""
        return self._held("release", claim, {}, call, actor)

    def verify(self, claim: IntentClaim) -> Operation[bool]:
        """Tell whether the intent is unresolved, and held and live by this claim."""
        held = intent_claim(claim)
        shown = _presented(held)
        return (yield from is_live(self.program, "release", held.intent_id, shown))

    def _held(
        self,
        name: str,
        claim: IntentClaim,
        values: Mapping[str, object],
        call: str | None,
        actor: Actor | None,
    ) -> Operation[TurnIntent | Refused]:
        held = intent_claim(claim)
        shown = {**values, **_presented(held)}
        return self.call(name, held.intent_id, shown, self.program.moved, call=call, actor=actor)


def intent_claim(claim: object) -> IntentClaim:
    """Return a claim of a turn intent.

    Raises:
        InvalidArgument: It is none.
    """
    if not isinstance(claim, IntentClaim):
        raise InvalidArgument("claim", "an IntentClaim, as a claiming call answered it")
    return claim


def _presented(claim: IntentClaim) -> Mapping[str, object]:
    session = claim.intent.target_session_id
    return {"token": claim.token, "generation": claim.generation, "session_id": session}
