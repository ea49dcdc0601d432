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
from typing import Any, Protocol

from attrs import define, field, frozen

from persistence import ManualClock, Store
from persistence.hosts.launch_terms import Existing, Nothing
from statemachine import Run, TurnResolution

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


class Process(Protocol):
    """One process of the session, as the world sees it."""

    alive: bool

    def live(self) -> None:
        """Launch the run, and meet its fate."""

    def poll(self) -> None:
        """Look after the session."""


@define
class World:
    """What survives the processes: the store, the conversation, and what exists of the run."""

    store: Store
    clock: ManualClock
    seed: int
    make: Callable[[World, str], Process]
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
        process = self.make(self, f"process-{len(self.processes)}")
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
