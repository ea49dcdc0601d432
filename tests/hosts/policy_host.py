"""A session's host, as far as its turns go."""

from __future__ import annotations

from datetime import timedelta

from persistence import Claim, Store, TurnFacts
from persistence.hosts.deferred_turns import Arrival, DeferredTurns, Delivery, NaturalTurn
from persistence.hosts.endings import Endings
from persistence.hosts.successor_turns import SuccessorTurns
from persistence.hosts.turn_events import WorkflowTurn
from persistence.hosts.turn_message import fallback_message
from persistence.stores.turn_facts import facts_of
from statemachine import TurnIntent, TurnResolution
from tests.hosts.conversation import Faulty

SESSION = "s1"
MINUTE = timedelta(minutes=1)


class Host:
    """A session's host, as far as its turns go."""

    def __init__(self, store: Store, name: str = "host") -> None:
        self.store = store
        self.intents = Faulty(store.intents)
        self.warnings: list[str] = []
        self.successors = SuccessorTurns(lambda: self.intents, self.warnings.append)  # type: ignore[arg-type, return-value]  # as good as the real one
        self.endings = Endings(store, self.successors)
        self.branch: dict[str, Arrival] = {}
        self.messages: list[str] = []
        self.turns = DeferredTurns(lambda: store.intents, self.branch.get, holder=name)

    def start(self, run_id: str = "run", *, child: bool = False) -> tuple[Claim, WorkflowTurn]:
        """Start a run of the session."""
        claim = self.store.runs.enqueue(
            run_id=run_id,
            workflow="autoimplement",
            source_ref="builtin:autoimplement",
            runner_id="host",
            lease=MINUTE,
            origin_session_id=SESSION,
        )
        assert isinstance(claim, Claim)

        self.store.runs.mark_running(claim)
        turn = WorkflowTurn(
            run_id=run_id, workflow="autoimplement", session_id=SESSION, child=child
        )
        return claim, turn

    def take_over(self, run_id: str = "run") -> Claim:
        """Claim a run whose lease ran out."""
        claim = self.store.runs.claim(run_id, runner_id="other", lease=MINUTE)
        assert isinstance(claim, Claim)

        return claim

    def prompt(self, run_id: str = "run", *, idle: bool = True) -> Delivery:
        """Send a workflow's prompt."""
        return self._natural(run_id, TurnResolution.WORKFLOW_PROMPT, idle=idle)

    def present(self, run_id: str = "run") -> Delivery:
        """Present a result."""
        return self._natural(run_id, TurnResolution.PRESENTATION, idle=True)

    def _natural(self, run_id: str, resolution: TurnResolution, *, idle: bool) -> Delivery:
        def send(intent_id: str | None) -> None:
            self.messages.append(f"{resolution.value} {'marked' if intent_id else 'plain'}")

        turn = NaturalTurn(run_id=run_id, session_id=SESSION, resolution=resolution, send=send)
        return self.turns.send_natural(turn, idle=idle)

    def fall_back(self) -> list[str]:
        """Deliver what is eligible; return the texts."""
        sent: list[str] = []
        self.turns.deliver_fallbacks(
            SESSION, lambda intent: sent.append(fallback_message(intent).text), idle=True
        )
        return sent

    def only(self) -> TurnIntent:
        """Return the one intent that there is."""
        (intent,) = self.store.intents.list()
        return intent

    def told(self) -> TurnFacts:
        """Return the facts of the one intent."""
        return facts_of(self.only().fallback_facts)
