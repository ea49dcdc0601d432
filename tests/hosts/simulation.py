"""A simulated session: processes that crash, lose leases and compete, on a virtual clock.

Each call to the store, each look at the conversation and each send is a point at which the process
may crash (before or after it), time may pass, or another process of the session may act. All of it
follows from the seed.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from typing import Any

from attrs import define, field, frozen

from persistence import Claim, ManualClock, Store
from persistence.hosts.at_work import AtWork
from persistence.hosts.control import Control, Origin
from persistence.hosts.deferred_turns import Arrival, DeferredTurns, NaturalTurn
from persistence.hosts.endings import Endings
from persistence.hosts.launch_terms import Begun, Existing, HasEnded, Nothing, Resolved, Started
from persistence.hosts.launches import Launches
from persistence.hosts.successor_turns import SuccessorTurns
from persistence.hosts.turn_events import End, Quiet, WorkflowTurn
from persistence.hosts.turn_message import message_id
from statemachine import Run, TurnCause, TurnIntent, TurnResolution

LEASE = timedelta(seconds=30)
POINTS = 70
"""A crash comes at one of so many points, so that some histories see none."""

MOST = 4
ROUNDS = 5

PAUSES = (timedelta(milliseconds=1), timedelta(seconds=7), LEASE, 2 * LEASE)


class Kind(enum.Enum):
    """What happens to the run."""

    FAILED = enum.auto()
    TIMED_OUT = enum.auto()
    RECOVERED = enum.auto()
    AGENT_CANCELLED = enum.auto()
    INTERRUPTED = enum.auto()
    CLAIM_LOST = enum.auto()
    LAUNCH_FAILED = enum.auto()
    UNPRESENTED = enum.auto()
    USER_CANCELLED = enum.auto()
    PAUSED = enum.auto()
    ESCAPED = enum.auto()
    SHUT_DOWN = enum.auto()


QUIET = (Kind.USER_CANCELLED, Kind.PAUSED, Kind.ESCAPED, Kind.SHUT_DOWN)


class Crash(BaseException):
    """The process is gone."""


@frozen
class Message:
    """One entry of the conversation.

    Attributes:
        what: `prompt`, `presentation`, `fallback`; or `turn`, where the run's own turn begins.

        intent_id: The intent that it carries.
    """

    what: str
    intent_id: str | None = None


RESOLVES = {
    "prompt": TurnResolution.WORKFLOW_PROMPT,
    "presentation": TurnResolution.PRESENTATION,
    "fallback": TurnResolution.FALLBACK,
}


@define
class World:
    """What survives the processes: the store, the conversation, and what exists of the run."""

    store: Store
    clock: ManualClock
    seed: int
    kind: Kind = Kind.FAILED
    chance: Random = field(init=False)
    conversation: list[Message] = field(factory=list)
    bundle: Existing = field(factory=Nothing)
    processes: list[Process] = field(factory=list)
    acting: list[Process] = field(factory=list)
    forgetful: bool = False
    points: int = 0
    crash_at: int = field(init=False)
    calm: bool = False
    depth: int = 0
    in_transaction: int = 0

    def __attrs_post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.kind = self.chance.choice(list(Kind))
        self.crash_at = self.chance.randrange(POINTS)

    @property
    def run_id(self) -> str:
        """The run."""
        return f"run-{self.seed}"

    @property
    def session_id(self) -> str:
        """The session."""
        return f"session-{self.seed}"

    def spawn(self) -> Process:
        """Start another process of the session."""
        process = Process(self, f"process-{len(self.processes)}")
        self.processes.append(process)
        return process

    def point(self, process: Process, *, brief: bool = False) -> None:
        """Be where anything may happen; `brief`: but for time and others, which need longer."""
        if not process.alive:
            raise Crash
        self.points += 1
        if self.calm:
            return
        if self.points == self.crash_at:
            process.alive = False
            raise Crash
        if brief or self.in_transaction or self.depth:
            return
        draw = self.chance.random()
        if len(self.processes) < MOST and draw < 0.03:
            self.spawn()
        elif draw < 0.06:
            self.clock.advance(self.chance.choice(PAUSES))
        elif draw < 0.14:
            self.depth += 1
            self.act(
                self.spawn() if self.chance.random() < 0.5 else self.chance.choice(self.processes)
            )
            self.depth -= 1

    def act(self, process: Process) -> None:
        """Let a process poll; where it crashes, it is gone."""
        self.during(process, process.poll)

    def during(self, process: Process, do: Callable[[], None]) -> None:
        """Have a process do something, in its one thread; where it crashes, it is gone."""
        if not process.alive or process in self.acting:
            return
        self.acting.append(process)
        try:
            do()
        except Crash:
            process.alive = False
        finally:
            self.acting.pop()

    def play(self) -> None:
        """Let it all happen, then let the living come to rest."""
        first = self.spawn()
        self.during(first, first.live)
        for _ in range(self.chance.randrange(3)):
            self.clock.advance(self.chance.choice(PAUSES))
            self.act(self.spawn() if self.chance.random() < 0.5 else first)
        self.calm = True
        for _ in range(ROUNDS):
            self.clock.advance(2 * LEASE)
            for process in self.processes:
                self.act(process)
            if self.at_rest():
                break
            self.spawn()

    def at_rest(self) -> bool:
        """Tell whether nothing is left to be done."""
        run = self.store.runs.get(self.run_id)
        intents = self.store.intents.list(session_id=self.session_id, limit=100)
        ended = run is None or run.outcome is not None
        return ended and all(intent.resolution is not None for intent in intents)

    def quiet(self, run: Run | None) -> bool:
        """Tell whether a user's wish was stored before the process crashed."""
        if run is None or self.kind not in QUIET:
            return False
        return run.paused or run.waiting or run.outcome == "cancelled"

    def check(self) -> list[str]:
        """Return what is wrong in the end."""
        wrong: list[str] = []
        intents = self.store.intents.list(session_id=self.session_id, limit=100)
        marked = [m for m in self.conversation if m.intent_id is not None]
        run = self.store.runs.get(self.run_id)
        if self.quiet(run):
            return ["a quiet event led to a turn"] if marked else []
        if sorted(str(m.intent_id) for m in marked) != sorted(i.intent_id for i in intents):
            wrong.append("not exactly one message for each obligation")
        for intent in intents:
            resolutions = [RESOLVES[m.what] for m in marked if m.intent_id == intent.intent_id]
            if resolutions != [intent.resolution]:
                wrong.append(f"{intent.status}, resolved by {intent.resolution}, not {resolutions}")
            steps = self.store.intents.history(intent.intent_id)
            if [step.transition for step in steps].count("resolve") != 1:
                wrong.append("not exactly one resolution")
        if self.kind is Kind.INTERRUPTED and run is not None and run.outcome != "cancelled":
            # A child run whose last turn was not aborted: its controller hears of it.
            pass
        elif run is not None and run.outcome not in (None, "completed"):
            since = self.conversation[::-1]
            last = next((m for m in since if m.what == "turn" or m.intent_id is not None), None)
            if last is None or last.what == "turn":
                wrong.append(f"a run that is {run.outcome} left its session without a turn")
        elif run is not None and run.outcome is None:
            wrong.append(f"the run is {run.status} for ever")
        return wrong


class Wired:
    """A face of the store, as one process sees it."""

    def __init__(self, world: World, process: Process, face: Any) -> None:
        self._world = world
        self._process = process
        self._face = face

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._face, name)

        def wired(*args: Any, **named: Any) -> Any:
            self._world.point(self._process)
            answer = call(*args, **named)
            # A send follows its verification at once: in much less time than a lease takes.
            self._world.point(self._process, brief=name == "verify")
            return answer

        return wired


class WiredStore:
    """The store, as one process sees it."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self.runs = Wired(world, process, world.store.runs)
        self.intents = Wired(world, process, world.store.intents)
        self.clock = world.clock

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction, in which nobody else acts in this thread."""
        self._world.point(self._process)
        with self._world.store.transaction():
            self._world.in_transaction += 1
            try:
                yield
            finally:
                self._world.in_transaction -= 1
        self._world.point(self._process)


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
