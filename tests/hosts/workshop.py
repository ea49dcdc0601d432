"""A scripted session host, for the tests of launches and of control."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from persistence import Claim, Store
from persistence.hosts.at_work import AtWork
from persistence.hosts.deferred_turns import Arrival, DeferredTurns
from persistence.hosts.launch_terms import Existing, Nothing, Resolved
from persistence.hosts.launches import Launches
from persistence.hosts.successor_turns import SuccessorTurns
from persistence.hosts.turn_message import fallback_message
from statemachine import Run, TurnIntent, TurnResolution
from statemachine.kinds import JsonValue

SESSION = "s1"
LEASE = timedelta(seconds=30)


class Workshop:
    """One process of a session: its workflows are scripted, its conversation is a list."""

    def __init__(self, store: Store, name: str = "host") -> None:
        self.store = store
        self.name = name
        self.definitions: dict[str, JsonValue] = {"build": {"steps": ["plan", "code"]}}
        self.progress: dict[str, Existing] = {}
        self.trouble: dict[str, Exception] = {}
        self.is_presenting = False
        self.on_deliver: Callable[[], None] = lambda: None
        self.first_steps: list[str] = []
        self.branch: list[Any] = []
        self.warnings: list[str] = []
        self.successors = SuccessorTurns(lambda: store.intents, self.warnings.append)
        self.turns = DeferredTurns(lambda: store.intents, self.arrived, holder=name)
        self.launches = Launches(
            store,
            self,
            self.successors,
            session_id=SESSION,
            runner_id=name,
            lease=LEASE,
            at_work=AtWork(),
        )

    def resolve(self, ref: str) -> Resolved:
        """Find a workflow."""
        self._fail("resolve")
        if ref not in self.definitions:
            raise LookupError(f"workflow not found: {ref}")
        source = {"root": f"/workflows/{ref}"}
        return Resolved(
            workflow=ref, source_ref=ref, source=source, definition=self.definitions[ref]
        )

    def existing(self, run: Run) -> Existing:
        """Say what exists of a run."""
        return self.progress.get(run.run_id, Nothing())

    def build(self, claim: Claim, resolved: Resolved, *, resume: bool) -> Callable[[], None]:
        """Make a run ready."""
        assert resolved.workflow == claim.run.workflow

        self._fail("build")
        how = "resumed" if resume else "began"

        def first_step() -> None:
            self._fail("first step")
            self.first_steps.append(f"{how} {claim.run_id}")

        return first_step

    def presenting(self) -> bool:
        """Tell whether a result is being presented."""
        return self.is_presenting

    def deliver(self) -> None:
        """Deliver fallbacks."""
        self._fail("deliver")
        self.on_deliver()

        def send(intent: TurnIntent) -> None:
            self.branch.append(fallback_message(intent))

        self.turns.deliver_fallbacks(SESSION, send, idle=True)

    def arrived(self, intent_id: str) -> Arrival | None:
        """Find a fallback in the conversation."""
        for message in self.branch:
            if message.details["turnIntentId"] == intent_id:
                return Arrival(TurnResolution.FALLBACK, message.message_id)
        return None

    def events(self, run_id: str) -> list[str]:
        """Return the types of the host's events of a run."""
        page = self.store.events_after(limit=1_000)
        return [e.type for e in page.events if e.key == run_id and hasattr(e, "type")]

    def _fail(self, where: str) -> None:
        if where in self.trouble:
            raise self.trouble[where]
