"""The recorded intent operations as calls of `store.intents`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from persistence import Store
from persistence.stores.intent_deliveries import IntentClaim
from statemachine.kinds import EPOCH, canonical_json
from statemachine.machines import TurnCause, TurnIntent, TurnStatus
from statemachine.outcome import Refused
from tests.conformance.answers import Answer, of, refused
from tests.conformance.terms import lease, milliseconds, token

Args = Mapping[str, Any]

DELIVERER = "deliverer"
NO_INTENT = TurnIntent(
    intent_id="none",
    source_event_id="none",
    run_id="none",
    workflow="none",
    target_session_id="none",
    cause=TurnCause.FAILED,
    status=TurnStatus.PENDING,
    fallback_facts={},
    requested_at=EPOCH,
    revision=1,
    last_transition="ensure",
    last_actor_kind="test",
    last_actor="none",
    last_call="none",
    updated_at=EPOCH,
)


def ours(intent: TurnIntent) -> dict[str, Any]:
    """Return an intent in the recorded shape, its token as the hash."""
    return {
        "intent_id": intent.intent_id,
        "source_event_id": intent.source_event_id,
        "run_id": intent.run_id,
        "workflow_ref": intent.workflow,
        "target_session_id": intent.target_session_id,
        "cause": str(intent.cause),
        "node_id": intent.node_id,
        "attempt_id": intent.attempt_id,
        "fallback_facts_json": canonical_json(intent.fallback_facts, "facts", 65_536),
        "requested_at": milliseconds(intent.requested_at),
        "eligible_at": milliseconds(intent.eligible_at),
        "resolved_at": milliseconds(intent.resolved_at),
        "resolution": None if intent.resolution is None else str(intent.resolution),
        "resolution_message_id": intent.resolution_message_id,
        "claim_token": intent.lease_token_hash,
        "claim_expires_at": milliseconds(intent.lease_expires_at),
    }


def as_record(intent: TurnIntent) -> dict[str, Any]:
    """Return an intent as the recorded calls answer it: facts parsed, without the token."""
    row = ours(intent)
    del row["fallback_facts_json"], row["claim_token"]
    return {**row, "fallback_facts": intent.fallback_facts}


class IntentCalls:
    """Makes the calls, and remembers the claims that they answered.

    Attributes:
        rows: Our intents, as they were last read.
    """

    def __init__(self, store: Store) -> None:
        self._intents = store.intents
        self._claims: dict[tuple[str, str], IntentClaim] = {}
        self.rows: dict[str, TurnIntent] = {}
        self.ops: Mapping[str, Callable[[Args], Answer]] = {
            "intent_ensure": self._ensure,
            "intent_get": self._get,
            "intent_find_pending": self._find,
            "intent_claim": self._claim,
            "intent_claim_eligible": self._claim_eligible,
            "intent_make_eligible": self._make_eligible,
            "intent_resolve": self._resolve,
            "intent_release": lambda args: of(self._intents.release(self._held(args))),
            "intent_list": self._list,
        }

    def _ensure(self, args: Args) -> Answer:
        optional = ("node_id", "attempt_id", "eligible")
        intent = self._intents.ensure(
            intent_id=args["intent_id"],
            source_event_id=args["source_event_id"],
            run_id=args["run_id"],
            workflow=args["workflow_ref"],
            target_session_id=args["target_session_id"],
            cause=args["cause"],
            fallback_facts=args["fallback_facts"],
            **{name: args[name] for name in optional if name in args},
        )
        return Answer("yes", as_record(intent))

    def _get(self, args: Args) -> Answer:
        intent = self._intents.get(args["intent_id"])
        return of(intent, intent and as_record(intent))

    def _find(self, args: Args) -> Answer:
        intent = self._intents.find_pending(args["run_id"], args["target_session_id"])
        return of(intent, intent and as_record(intent))

    def _claim(self, args: Args) -> Answer:
        claim = self._intents.claim(
            args["intent_id"],
            session_id=args["target_session_id"],
            holder=DELIVERER,
            lease=lease(args["lease_ms"]),
            token=token(args["claim_token"]),
        )
        if isinstance(claim, Refused):
            return refused(claim)
        return self._took(args, claim)

    def _claim_eligible(self, args: Args) -> Answer:
        claims = self._intents.claim_eligible(
            args["target_session_id"],
            holder=DELIVERER,
            lease=lease(args["lease_ms"]),
            token=token(args["claim_token"]),
            **({"limit": args["limit"]} if "limit" in args else {}),
        )
        for claim in claims:
            self._took(args, claim)
        ids = [claim.intent_id for claim in claims]
        return Answer("yes", {"ids": ids}, tuple(ids))

    def _make_eligible(self, args: Args) -> Answer:
        facts = args["fallback_facts"]
        return of(self._intents.make_eligible(args["intent_id"], fallback_facts=facts))

    def _resolve(self, args: Args) -> Answer:
        return of(
            self._intents.resolve(
                self._held(args), resolution=args["resolution"], message_id=args["message_id"]
            )
        )

    def _list(self, args: Args) -> Answer:
        named = {"target_session_id": "session_id", "run_id": "run_id", "limit": "limit"}
        found = self._intents.list(
            **{ours: args[name] for name, ours in named.items() if name in args}
        )
        return Answer("yes", {"ids": [intent.intent_id for intent in found]})

    def _took(self, args: Args, claim: IntentClaim) -> Answer:
        self._claims[claim.intent_id, args["claim_token"]] = claim
        return Answer("yes", as_record(claim.intent))

    def _held(self, args: Args) -> IntentClaim:
        """Return the claim last given for the token, else one of the row's present generation."""
        key, text = args["intent_id"], args.get("claim_token")
        claim = self._claims.get((key, str(text)))
        row = self.rows.get(key, NO_INTENT) if claim is None else claim.intent
        shown = evolve(row, intent_id=key, target_session_id=args["target_session_id"])
        return IntentClaim(shown, token(text))
