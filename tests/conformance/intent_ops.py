"""Turn intents: what is expected of them after each step, and where we differ on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from persistence import Store
from statemachine.machines import TurnIntent, TurnStatus
from tests.conformance.answers import Answer, Difference, Row
from tests.conformance.bounds import refused_by_us
from tests.conformance.intent_calls import IntentCalls, ours
from tests.conformance.terms import Tokens, milliseconds, token_hash
from tests.conformance.traces import Step, same

OWN_FACTS = {
    "runId": "run_id",
    "cause": "cause",
    "nodeId": "node_id",
    "attemptId": "attempt_id",
    "workflowName": "workflow_ref",
}


class IntentOps(IntentCalls):
    """The kind `intents`."""

    kind = "intents"
    rests_on = ()

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._tokens = Tokens()

    def keys(self, step: Step) -> tuple[str, ...]:
        """Name the intent that a step addresses."""
        key = step.args.get("intent_id")
        return (key,) if isinstance(key, str) and key in self.rows else ()

    def difference(self, step: Step) -> Difference | None:
        """Tell which deliberate difference a step falls under."""
        if step.verdict == "invalid_argument" or not isinstance(step.now, int):
            return None
        args = step.args
        outside = refused_by_us(args)
        if outside is not None:
            return Difference(outside, "invalid_argument")
        intent = self.rows.get(args.get("intent_id", ""))
        match step.op:
            case "intent_ensure" if self._mismatch(args["fallback_facts"], args):
                return Difference("D10", "invalid_argument")
            case "intent_make_eligible" if intent and self._mismatch(
                args["fallback_facts"], ours(intent)
            ):
                return Difference("D10", "invalid_argument")
            case "intent_resolve" if intent and self._falls_back_early(step, intent):
                return Difference("D14", "no")
            case "intent_claim_eligible":
                return self._taking(step, step.now)
            case _:
                return None

    def _mismatch(self, facts: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
        return any(facts[name] != row.get(column) for name, column in OWN_FACTS.items())

    def _falls_back_early(self, step: Step, intent: TurnIntent) -> bool:
        return (
            step.args["resolution"] == "fallback"
            and intent.status is TurnStatus.PENDING
            and intent.lease_token_hash == token_hash(step.args["claim_token"])
            and intent.target_session_id == step.args["target_session_id"]
        )

    def _taking(self, step: Step, now: int) -> Difference | None:
        due = [
            (milliseconds(intent.eligible_at) or 0, intent.intent_id)
            for intent in self.rows.values()
            if intent.status is TurnStatus.ELIGIBLE
            and intent.target_session_id == step.args["target_session_id"]
            and (milliseconds(intent.eligible_at) or 0) <= now
            and (milliseconds(intent.lease_expires_at) or 0) <= now
        ]
        taken = {"ids": [key for _, key in sorted(due)][: step.args.get("limit", 20)]}
        return None if same(step.returned, taken) else Difference("D15", "yes", value=taken)

    def returned(self, step: Step, rows: Mapping[str, Row]) -> Any:  # noqa: ARG002 - the protocol's
        """Return a recorded record or list as ours must be: just so."""
        return step.returned if isinstance(step.returned, dict) else None

    def row(self, step: Step, before: Row | None, recorded: Row) -> tuple[Row, tuple[str, ...]]:  # noqa: ARG002 - likewise
        """Return a recorded row as ours must be: just so, but for the token's hash."""
        return {**recorded, "claim_token": self._tokens.hash(recorded["claim_token"])}, ()

    def settle(self, step: Step, answer: Answer) -> None:  # noqa: ARG002 - likewise
        """Keep the presented token."""
        self._tokens.present(step.args.get("claim_token"))

    def refresh(self, key: str) -> Row | None:
        """Read an intent again; return it in the recorded shape."""
        intent = self._intents.get(key)
        if intent is None:
            return None
        self.rows[key] = intent
        return ours(intent)

    def everything(self) -> Mapping[str, Row]:
        """Return all intents in the recorded shape."""
        found = self._intents.list(limit=100)
        assert len(found) < 100, "a page holds all that a trace makes"
        return {intent.intent_id: ours(intent) for intent in found}
