"""A conversation and its turns as the recorded coordinator scenarios script them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from persistence import IntentClaim, ManualClock, Store, open_store
from persistence.hosts.deferred_turns import Arrival, DeferredTurns, NaturalTurn
from persistence.hosts.turn_message import message_id
from persistence.stores.turn_facts import TurnFacts
from statemachine import TurnCause, TurnIntent, TurnResolution
from statemachine.errors import StoreUnavailable

RESOLUTION = {text.value: text for text in TurnResolution}
FOREIGN = "foreign"


class SendFailed(Exception):
    """The session did not take the message."""


class Faulty:
    """The store's intents, of which a named call fails when it is told to."""

    def __init__(self, intents: Any) -> None:
        self._intents = intents
        self.failing: list[str] = []

    def __getattr__(self, name: str) -> Any:
        operation = f"intent_{name}"
        if operation in self.failing:
            self.failing.remove(operation)
            raise StoreUnavailable(f"injected {operation} failure")
        return getattr(self._intents, name)


class Conversation:
    """Plays a scenario: one session host, its conversation, and a foreign host."""

    def __init__(
        self, store: Store, clock: ManualClock, scenario: dict[str, Any], *, prefix: str = ""
    ) -> None:
        self.prefix = prefix
        self.clock = clock
        self.start = clock.now()
        self.ids = {label: f"{prefix}{real}" for label, real in scenario["intent_ids"].items()}
        self.labels = {real: label for label, real in self.ids.items()}
        self.lease = timedelta(milliseconds=scenario["lease_ms"])
        self.real = store.intents
        self.intents: Faulty | None = Faulty(store.intents)
        self.present = self.intents
        self.branch: dict[str, Arrival] = {}
        self.branch_fails = False
        self.failing: dict[str, int] = {}
        self.sends: list[dict[str, Any]] = []
        self.dropped: list[tuple[str, str]] = []
        self.foreign: dict[str, IntentClaim] = {}
        self.messages: dict[int, str] = {}
        self.turns = DeferredTurns(
            lambda: self.intents,  # type: ignore[arg-type, return-value]  # as good as the real one
            self.arrived,
            holder="here",
            lease=self.lease,
            dropped=lambda turn, why: self.dropped.append((self.messages[id(turn)], why)),
        )
        self.kept: list[NaturalTurn] = []

    def arrived(self, intent_id: str) -> Arrival | None:
        """Find a message in the conversation so far."""
        if self.branch_fails:
            raise OSError("injected branch failure")
        return self.branch.get(intent_id)

    def play(self, step: dict[str, Any]) -> dict[str, Any]:
        """Play one step; return what was answered or raised, and what was sent."""
        self.clock.advance(timedelta(milliseconds=step.get("advance", 0)))
        self.sends = []
        outcome: dict[str, Any]
        try:
            outcome = {"returned": getattr(self, step["do"])(step)}
        except (SendFailed, StoreUnavailable, OSError) as error:
            outcome = {"threw": str(error)}
        return outcome | ({"sends": self.sends} if self.sends else {})

    # What a step does

    def ensure(self, step: dict[str, Any]) -> str:
        """Store an intent."""
        run = self.prefix + step["run_id"]
        self.real.ensure(
            intent_id=self.ids[step["intent"]],
            source_event_id=step.get("source_event_id", "event"),
            run_id=run,
            workflow="autoimplement",
            target_session_id=self.prefix + step["session"],
            cause=TurnCause.FAILED,
            fallback_facts=facts(run),
            eligible=step.get("eligible", False),
        )
        return "stored"

    def make_eligible(self, step: dict[str, Any]) -> bool:
        """Let the fallback be sent."""
        intent_id = self.ids[step["intent"]]
        row = self.real.get(intent_id)
        assert row is not None

        return bool(self.real.make_eligible(intent_id, fallback_facts=facts(row.run_id)))

    def send_natural(self, step: dict[str, Any]) -> str:
        """Send a message of the workflow."""
        turn = self.natural(step)
        return str(self.turns.send_natural(turn, idle=step["idle"]))

    def natural(self, step: dict[str, Any]) -> NaturalTurn:
        """Return the message of a step."""
        text = step["message"]
        resolution = RESOLUTION[step.get("resolution", "workflowPrompt")]

        def send(intent_id: str | None) -> None:
            label = None if intent_id is None else self.labels[intent_id]
            shown = {"kind": "natural", "message": text, "intent": label}
            self.send(shown, step, text, intent_id, resolution)

        turn = NaturalTurn(
            run_id=self.prefix + step["run_id"],
            session_id=self.prefix + step["session"],
            resolution=resolution,
            send=send,
        )
        self.messages[id(turn)] = text
        self.kept.append(turn)
        return turn

    def flush(self, step: dict[str, Any]) -> int:
        """Send what was deferred."""
        return self.turns.flush_natural(idle=step["idle"])

    def fallbacks(self, step: dict[str, Any]) -> int:
        """Send the fallbacks that are due."""

        def send(intent: TurnIntent) -> None:
            label = self.labels[intent.intent_id]
            shown = {"kind": "fallback", "intent": label}
            self.send(shown, step, label, intent.intent_id, TurnResolution.FALLBACK)

        return self.turns.deliver_fallbacks(self.prefix + step["session"], send, idle=step["idle"])

    def send(
        self,
        shown: dict[str, Any],
        step: dict[str, Any],
        name: str,
        intent_id: str | None,
        resolution: TurnResolution,
    ) -> None:
        """Put a message into the conversation, unless it was told to fail."""
        self.sends.append(shown)
        if self.failing.get(name, 0):
            self.failing[name] -= 1
            shown["threw"] = True
            raise SendFailed("send failed")
        if step.get("joins_branch") and intent_id is not None:
            self.branch[intent_id] = Arrival(resolution, message_id(intent_id, resolution))
        self.clock.advance(timedelta(milliseconds=step.get("takes_ms", 0)))
        if "steal" in step and self.labels.get(str(intent_id)) == step["steal"]:
            shown["stolen"] = True
            self.clock.advance(self.lease)
            self.foreign_claim({"intent": step["steal"], "session": step["session"]})

    def foreign_claim(self, step: dict[str, Any]) -> bool:
        """Claim by another host."""
        claim = self.real.claim(
            self.ids[step["intent"]],
            session_id=self.prefix + step["session"],
            holder=FOREIGN,
            lease=timedelta(milliseconds=step.get("lease_ms", 60_000)),
        )
        assert isinstance(claim, IntentClaim)

        self.foreign[step["intent"]] = claim
        return True

    def foreign_resolve(self, step: dict[str, Any]) -> bool:
        """Resolve by another host."""
        resolution = RESOLUTION[step["resolution"]]
        claim = self.foreign[step["intent"]]
        if resolution is TurnResolution.FALLBACK:
            # A fallback is for eligible intents alone (D14).
            self.make_eligible(step)
        answer = self.real.resolve(claim, resolution=resolution, message_id="foreign-message")
        return bool(answer)

    def branch_has(self, step: dict[str, Any]) -> str:
        """Let the conversation hold a message."""
        intent_id, resolution = self.ids[step["intent"]], RESOLUTION[step["resolution"]]
        self.branch[intent_id] = Arrival(resolution, message_id(intent_id, resolution))
        return "set"

    def store_null(self, step: dict[str, Any]) -> str:
        """Take the store away, or give it back."""
        self.intents = None if step["on"] else self.present
        return "set"

    def fail_send(self, step: dict[str, Any]) -> str:
        """Let sends of a message fail."""
        self.failing[step["message"]] = step.get("times", 1)
        return "set"

    def fail_fallback_send(self, step: dict[str, Any]) -> str:
        """Let sends of a fallback fail."""
        self.failing[step["intent"]] = step.get("times", 1)
        return "set"

    def fail_next(self, step: dict[str, Any]) -> str:
        """Let the next call of a kind fail."""
        assert self.present is not None

        self.present.failing.append(step["op"])
        return "set"

    def branch_throws(self, step: dict[str, Any]) -> str:
        """Let the look at the conversation fail."""
        self.branch_fails = step["on"]
        return "set"

    def clear_deferred(self, _step: dict[str, Any]) -> str:
        """Drop what was deferred."""
        self.turns.clear()
        return "done"

    def delete_row(self, _step: dict[str, Any]) -> bool:
        """Lose the intents: the store is another, empty one from now on."""
        self.intents = Faulty(open_store(":memory:", clock=self.clock).intents)
        return True

    def final(self, label: str) -> dict[str, Any]:
        """Return what became of an intent, as the scenarios tell it."""
        row = self.real.get(self.ids[label])
        assert row is not None

        def since(at: Any) -> int | None:
            return None if at is None else (at - self.start) // timedelta(milliseconds=1)

        named = {
            message_id(row.intent_id, resolution): resolution.value for resolution in TurnResolution
        }
        told = row.resolution_message_id
        return {
            "intent": label,
            "run_id": row.run_id.removeprefix(self.prefix),
            "target_session_id": row.target_session_id.removeprefix(self.prefix),
            "cause": row.cause.value,
            "requested_at": since(row.requested_at),
            "eligible_at": since(row.eligible_at),
            "resolved_at": since(row.resolved_at),
            "resolution": None if row.resolution is None else row.resolution.value,
            "resolution_message": None if told is None else named.get(told, told),
            "claim": row.lease_holder,
        }


def facts(run_id: str) -> TurnFacts:
    """Return facts of a failed run."""
    return TurnFacts(
        workflow_name="autoimplement",
        run_id=run_id,
        observed_state="failed",
        cause=TurnCause.FAILED,
        node_id=None,
        attempt_id=None,
        reason=None,
        handoff=False,
    )
