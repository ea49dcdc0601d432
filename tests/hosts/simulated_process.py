"""One process of a simulated session: a host like any other, on faces that may crash it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from persistence import Claim
from persistence.hosts.at_work import AtWork
from persistence.hosts.control import Control, Origin
from persistence.hosts.deferred_turns import Arrival, DeferredTurns, NaturalTurn
from persistence.hosts.endings import Endings
from persistence.hosts.launch_terms import Begun, Existing, HasEnded, Resolved, Started
from persistence.hosts.launches import Launches
from persistence.hosts.successor_turns import SuccessorTurns
from persistence.hosts.turn_events import End, Quiet, WorkflowTurn
from persistence.hosts.turn_message import message_id
from statemachine import Run, TurnCause, TurnIntent, TurnResolution
from tests.hosts.simulation import LEASE, RESOLVES, Kind, Message, WiredStore, World


class Process:
    """One process of the session."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.claim: Claim | None = None
        self.handled = False
        store: Any = WiredStore(world, self)
        self.store = store
        self.successors = SuccessorTurns(lambda: store.intents, lambda _: None)
        self.endings = Endings(store, self.successors)
        self.turns = DeferredTurns(lambda: store.intents, self.arrived, holder=name, lease=LEASE)
        self.control = Control(store, self.successors, session_id=world.session_id)
        self.launches = Launches(
            store,
            self,
            self.successors,
            session_id=world.session_id,
            runner_id=name,
            lease=LEASE,
            at_work=AtWork(),
        )
        self.turn = WorkflowTurn(
            run_id=world.run_id,
            workflow="work",
            session_id=world.session_id,
            child=world.kind is Kind.INTERRUPTED,
        )
        self.step = ("plan", "attempt-1")

    # What a launch asks of the host

    def resolve(self, ref: str) -> Resolved:
        """Find the workflow."""
        return Resolved(workflow=ref, source_ref=ref, source={"ref": ref}, definition={})

    def existing(self, _run: Run) -> Existing:
        """Say what exists of the run."""
        return self.world.bundle

    def build(self, claim: Claim, _resolved: Resolved, *, resume: bool) -> Callable[[], None]:
        """Make the run ready; its first step is a prompt."""
        if self.world.kind is Kind.LAUNCH_FAILED:
            raise ValueError("must be something else")

        def first_step() -> None:
            self.world.bundle = Begun()
            self.claim = claim
            self.successors.turn_began(self.world.run_id)
            self.prompt(idle=resume or self.world.chance.random() < 0.7)

        return first_step

    def presenting(self) -> bool:
        """Nothing is being presented."""
        return False

    def deliver(self) -> None:
        """Deliver what is due."""
        self.turns.deliver_fallbacks(self.world.session_id, self.send_fallback, idle=self.idle())

    def idle(self) -> bool:
        """Tell whether the session takes a turn just now."""
        return self.world.calm or self.world.chance.random() < 0.7

    # The conversation

    def arrived(self, intent_id: str) -> Arrival | None:
        """Find a message in the conversation."""
        self.world.point(self)
        for message in () if self.world.forgetful else self.world.conversation:
            if message.intent_id == intent_id:
                resolution = RESOLVES[message.what]
                return Arrival(resolution, message_id(intent_id, resolution))
        return None

    def say(self, message: Message, *, turn: bool = False) -> None:
        """Put a message into the conversation; with it, the run's own turn may begin."""
        self.world.point(self, brief=True)
        self.world.conversation.append(message)
        if turn and isinstance(self.world.bundle, Begun):
            self.world.conversation.append(Message("turn"))
        self.world.point(self)

    def send_fallback(self, intent: TurnIntent) -> None:
        """Send a fallback."""
        self.say(Message("fallback", intent.intent_id))

    def prompt(self, *, idle: bool, turn: bool = True) -> None:
        """Send a prompt of the workflow."""

        def send(intent_id: str | None) -> None:
            self.say(Message("prompt", intent_id), turn=turn)

        self._natural(TurnResolution.WORKFLOW_PROMPT, send, idle=idle)

    def present(self) -> None:
        """Present the result."""

        def send(intent_id: str | None) -> None:
            self.say(Message("presentation", intent_id))

        self._natural(TurnResolution.PRESENTATION, send, idle=self.idle())

    def _natural(
        self, resolution: TurnResolution, send: Callable[[str | None], None], *, idle: bool
    ) -> None:
        turn = NaturalTurn(
            run_id=self.world.run_id,
            session_id=self.world.session_id,
            resolution=resolution,
            send=send,
        )
        self.turns.send_natural(turn, idle=idle)

    # What happens

    def live(self) -> None:
        """Launch the run, and meet its fate."""
        self.launches.prepare("work", run_id=self.world.run_id)
        started = self.launches.activate(self.world.run_id)
        if isinstance(started, Started):
            self.fate()
        self.poll()

    def fate(self) -> None:
        """Let happen what the history is about."""
        self.handled = True
        self.control.active = self
        match self.world.kind:
            case Kind.FAILED:
                self.end(End.FAILED)
            case Kind.TIMED_OUT:
                self.abort(TurnCause.TIMED_OUT)
                self.end(End.TIMED_OUT)
            case Kind.RECOVERED:
                self.abort(TurnCause.TIMED_OUT)
                self.prompt(idle=self.idle())
                self.turns.flush_natural(idle=self.idle())
                self.successors.turn_began(self.world.run_id)
                self.end(self.world.chance.choice([End.COMPLETED, End.FAILED]))
            case Kind.AGENT_CANCELLED:
                self.control.cancel(origin=Origin.AGENT)
            case Kind.INTERRUPTED:
                self.abort(TurnCause.CONTROLLER_INTERRUPTED)
                self.end(End.CANCELLED)
            case Kind.CLAIM_LOST:
                self.world.clock.advance(LEASE)
                self.world.act(self.world.spawn())
                self.lose()
            case Kind.UNPRESENTED:
                self.abort(TurnCause.TIMED_OUT)
                self.end(End.COMPLETED, presented=False)
            case Kind.USER_CANCELLED:
                self.control.cancel(origin=Origin.USER)
            case Kind.PAUSED:
                self.control.pause()
            case Kind.ESCAPED:
                self.successors.quiet(self.world.run_id, Quiet.ESCAPED)
                self.control.pause()
            case Kind.SHUT_DOWN:
                self.successors.quiet(self.world.run_id, Quiet.SHUT_DOWN)
                self.turns.clear()
                assert self.claim is not None
                self.store.runs.park(self.claim, waiting=True)
                self.leave()
            case Kind.LAUNCH_FAILED:
                raise AssertionError("a launch that failed has not started")

    def abort(self, cause: TurnCause) -> None:
        """Store the obligation, then abort the active turn."""
        self.successors.before_abort(self.turn, cause, node_id="plan", reason="it had to be")

    def end(self, end: End, *, presented: bool = True) -> None:
        """End the run: in what exists of it first, then in the store."""
        if self.claim is None:
            return
        if not self.store.runs.verify(self.claim):
            self.lose()
            return
        self.world.bundle = HasEnded(end.value, "it ended")
        self.world.point(self)
        ended = self.endings.end(self.claim, self.turn, end, reason="it ended", presented=presented)
        self.leave()
        if ended and end is End.COMPLETED and presented:
            self.present()

    def lose(self) -> None:
        """Stop the active turn of a run that is somebody else's by now, and write nothing more."""
        self.abort(TurnCause.CLAIM_LOST)
        self.leave()

    def leave(self) -> None:
        """Have nothing of the run at work here any more."""
        self.claim = None
        self.control.active = None
        self.successors.over(self.world.run_id)
        self.launches.left(self.world.run_id)

    def cancel(self) -> None:
        """Abort, as control asks for it."""
        self.end(End.CANCELLED)

    def hold(self) -> None:
        """Begin no further step."""

    def go_on(self) -> None:
        """Begin steps again."""

    def poll(self) -> None:
        """Look after the session, as each process does at start, at each settle and each poll."""
        world = self.world
        if world.calm:
            self.store.runs.reap_due()
        busy = [world.run_id] if self.claim is not None else []
        if self.claim is not None and not self.store.runs.verify(self.claim):
            self.lose()
        elif self.claim is not None and (world.calm or self.handled):
            self.finish()
        self.launches.recover()
        if self.claim is not None and world.calm:
            self.finish()
        self.successors.reconcile(self.store.runs, world.session_id, busy=busy)
        self.turns.flush_natural(idle=self.idle())
        self.deliver()

    def finish(self) -> None:
        """Bring a run that was taken over to its end, unless a user wants quiet."""
        run = self.store.runs.get(self.world.run_id)
        if run is not None and run.cancel_requested_at is not None:
            self.end(End.CANCELLED)
        if self.world.quiet(run):
            return
        self.end(self.world.chance.choice([End.COMPLETED, End.FAILED]))
