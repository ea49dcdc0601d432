"""A reference host: an interactive session with a scripted agent, on one database.

    python examples/session_host.py [URL]

Each part of the tour is one thing that happens to a session's workflow run, and ends with the
conversation as a person would read it. Time is a clock that the tour moves, so that leases run out
at once; everything else is what a real host does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta

from attrs import define, field, frozen

from persistence import Claim, ManualClock, Store, open_store
from persistence.hosts import (
    Activation,
    Answer,
    Arrival,
    AtWork,
    Begun,
    Control,
    DeferredTurns,
    End,
    Endings,
    Existing,
    HasEnded,
    Launches,
    LaunchRefused,
    NaturalTurn,
    Nothing,
    Origin,
    Resolved,
    Started,
    SuccessorTurns,
    WorkflowTurn,
    fallback_message,
    message_id,
)
from statemachine import Run, TurnCause, TurnIntent, TurnResolution

LEASE = timedelta(seconds=30)
SESSION = "session-1"

WORKFLOWS = {
    "review": ["read the change", "write the review"],
    "release": ["run the tests", "tag"],
}
NEEDS = {"release": "scope"}


@frozen
class Message:
    """One message of the conversation.

    Attributes:
        text: What a person reads.

        resolution: What kind of successor turn it can be; None: neither.

        intent_id: The turn intent that it carries.
    """

    text: str
    resolution: TurnResolution | None = None
    intent_id: str | None = None


@define
class Session:
    """What outlives the processes of a session: its conversation, and what exists of its runs."""

    clock: ManualClock
    conversation: list[Message] = field(factory=list)
    runs: dict[str, Existing] = field(factory=dict)

    def say(self, message: Message) -> None:
        """Add a message."""
        self.conversation.append(message)


class SessionHost:
    """One process of the session.

    It is all of a host's plumbing: `launches`, `turns`, `control` and `endings` decide, and this
    class only says how this session resolves workflows, sends messages and aborts turns.
    """

    def __init__(self, store: Store, session: Session, name: str) -> None:
        self.store = store
        self.session = session
        self.name = name
        self.workflows = dict(WORKFLOWS)
        self.idle = True
        self.claim: Claim | None = None
        self.step: tuple[str | None, str | None] = (None, None)
        self.warnings: list[str] = []
        self.successors = SuccessorTurns(lambda: store.intents, self.warnings.append)
        self.endings = Endings(store, self.successors)
        self.turns = DeferredTurns(lambda: store.intents, self.arrived, holder=name, lease=LEASE)
        self.control = Control(store, self.successors, session_id=SESSION)
        self.launches = Launches(
            store,
            self,
            self.successors,
            session_id=SESSION,
            runner_id=name,
            lease=LEASE,
            at_work=AtWork(),
        )

    # What the launch coordinator asks of a host

    def resolve(self, ref: str) -> Resolved:
        """Find a workflow; a real host reads it from where it is installed."""
        if ref not in self.workflows:
            raise LookupError(f"workflow not found: {ref}")
        return Resolved(
            workflow=ref,
            source_ref=ref,
            source={"root": f"/workflows/{ref}"},
            definition={"steps": self.workflows[ref]},
        )

    def existing(self, run: Run) -> Existing:
        """Say what exists of a run; a real host looks into the run's directory."""
        return self.session.runs.get(run.run_id, Nothing())

    def build(self, claim: Claim, resolved: Resolved, *, resume: bool) -> Callable[[], None]:
        """Make the run ready, and return what begins it."""
        needed = NEEDS.get(resolved.workflow)
        given = claim.run.input if isinstance(claim.run.input, dict) else {}
        if needed is not None and needed not in given:
            raise ValueError(f"{needed} must be a non-empty string")

        def first_step() -> None:
            self.claim = claim
            self.control.active = self
            self.session.runs[claim.run_id] = Begun()
            self.successors.turn_began(claim.run_id)
            self.prompt("Go on with the review." if resume else "Read the change.")

        return first_step

    def presenting(self) -> bool:
        """Tell whether a result is still being presented; here it takes no time."""
        return False

    def deliver(self) -> None:
        """Send the fallbacks that are due."""
        self.turns.deliver_fallbacks(SESSION, self.fall_back, idle=self.idle)

    # The conversation

    def arrived(self, intent_id: str) -> Arrival | None:
        """Find the message that carries an intent."""
        for message in self.session.conversation:
            if message.intent_id == intent_id and message.resolution is not None:
                return Arrival(message.resolution, message_id(intent_id, message.resolution))
        return None

    def prompt(self, text: str) -> None:
        """Have the workflow prompt the agent."""
        self._natural(f"workflow: {text}", TurnResolution.WORKFLOW_PROMPT)

    def present(self, text: str) -> None:
        """Have the workflow present its result."""
        self._natural(f"workflow: {text}", TurnResolution.PRESENTATION)

    def fall_back(self, intent: TurnIntent) -> None:
        """Send the factual message of an intent that nothing else resolved."""
        text = fallback_message(intent).text
        self.session.say(Message(f"host: {text}", TurnResolution.FALLBACK, intent.intent_id))

    def _natural(self, text: str, resolution: TurnResolution) -> None:
        turn = NaturalTurn(
            run_id=self.turn.run_id,
            session_id=SESSION,
            resolution=resolution,
            send=lambda intent_id: self.session.say(Message(text, resolution, intent_id)),
        )
        self.turns.send_natural(turn, idle=self.idle)

    # What happens to the run at work

    @property
    def turn(self) -> WorkflowTurn:
        """Whose turn it is."""
        assert self.claim is not None, "a run is at work"
        run = self.claim.run
        return WorkflowTurn(run_id=run.run_id, workflow=run.workflow, session_id=SESSION)

    def time_out(self) -> None:
        """Abort a step that takes too long: the obligation is stored first."""
        self.successors.before_abort(
            self.turn, TurnCause.TIMED_OUT, node_id="read the change", reason="timed out"
        )
        self.session.say(Message("(the turn is aborted)"))

    def end(self, end: End, *, reason: str | None = None, result: str | None = None) -> None:
        """End the run at work: what exists of it first, then its record and what it owes."""
        assert self.claim is not None, "a run is at work"
        if not self.store.runs.verify(self.claim):
            self.lose()
            return
        turn = self.turn
        self.session.runs[turn.run_id] = HasEnded(end.value, reason, result)
        self.endings.end(
            self.claim, turn, end, reason=reason, result=result, presented=result is not None
        )
        if result is not None:
            self.present(result)
        self.leave()

    def lose(self) -> None:
        """Stop the turn of a run that another host has by now, and write nothing more of it."""
        self.successors.before_abort(
            self.turn, TurnCause.CLAIM_LOST, node_id="read the change", reason="lease lost"
        )
        self.session.say(Message("(the turn is aborted, the run goes on elsewhere)"))
        self.leave()

    def leave(self) -> None:
        """Have nothing of the run at work here any more."""
        run_id = self.turn.run_id
        self.claim = None
        self.control.active = None
        self.successors.over(run_id)
        self.launches.left(run_id)

    def cancel(self) -> None:
        """Abort, as control asks for it."""
        self.end(End.CANCELLED)

    def hold(self) -> None:
        """Begin no further step."""

    def go_on(self) -> None:
        """Begin steps again."""

    # What a host does of its own accord

    def settle(self) -> Activation | None:
        """The agent's turn is over: look after the session. Called at start and at each poll, too.

        Returns:
            What became of a waiting launch.
        """
        self.idle = True
        if self.claim is not None and not self.store.runs.verify(self.claim):
            self.lose()
        activation = self.launches.recover()
        busy = [] if self.claim is None else [self.claim.run_id]
        self.successors.reconcile(self.store.runs, SESSION, busy=busy)
        self.turns.flush_natural(idle=self.idle)
        self.deliver()
        return activation

    # The agent's tools

    def launch(self, ref: str, *, run_id: str, **given: str) -> str:
        """Launch a workflow from within a turn; it starts once the turn has settled."""
        self.idle = False
        try:
            return self.launches.prepare(ref, input=given, run_id=run_id).message
        except LaunchRefused as refused:
            return f"refused ({refused.error.code}): {refused}"

    def cancel_run(self) -> Answer:
        """Cancel the run at work, as the agent."""
        return self.control.cancel(origin=Origin.AGENT)


class Tour:
    """What happens, part by part.

    Args:
        url: The database.
    """

    def __init__(self, url: str) -> None:
        self.clock = ManualClock()
        self.store = open_store(url, clock=self.clock)
        self.session = Session(self.clock)
        self.host = SessionHost(self.store, self.session, "host-1")

    def say(self, text: str) -> None:
        """Let the agent or the tour say something."""
        self.session.say(Message(text))

    def reserves_and_activates(self) -> None:
        """A launch is reserved within a turn, starts after it, and presents its result."""
        self.say(f"agent: launch review → {self.host.launch('review', run_id='review-1')}")
        self.say(f"agent: status → {self.host.control.status().message}")
        started = self.host.settle()
        assert isinstance(started, Started), started
        self.host.end(End.COMPLETED, result="The change is fine.")

    def fails_a_launch(self) -> None:
        """A launch fails durably, gets its fallback turn, and is corrected in that very turn."""
        self.say(f"agent: launch release → {self.host.launch('release', run_id='release-1')}")
        self.host.settle()
        corrected = self.host.launch("release", run_id="release-2", scope="patch")
        self.say(f"agent: launch release → {corrected}")
        self.host.settle()
        self.host.end(End.COMPLETED, result="Released.")

    def times_out_and_recovers(self) -> None:
        """A step times out; the workflow's own prompt is the successor turn, so no fallback is."""
        self.host.launch("review", run_id="review-2")
        self.host.settle()
        self.host.time_out()
        self.host.prompt("That took too long. Read only the summary.")
        self.host.settle()
        self.host.successors.turn_began("review-2")
        self.host.end(End.COMPLETED, result="The summary is fine.")

    def agent_cancels(self) -> None:
        """The agent cancels the run of its own turn, and is given another to explain."""
        self.host.launch("review", run_id="review-3")
        self.host.settle()
        self.say(f"agent: cancel → {self.host.cancel_run().message}")
        self.host.settle()

    def hands_over(self) -> None:
        """A stalled host loses its claim; the next one goes on, and its prompt is the turn."""
        self.host.launch("review", run_id="review-4")
        self.host.settle()
        self.clock.advance(2 * LEASE)
        other = SessionHost(self.store, self.session, "host-2")
        self.host.end(End.COMPLETED, result="This must not be seen: the claim is lost.")
        other.settle()
        other.end(End.COMPLETED, result="The change is fine, says host-2.")
        self.host.settle()

    def run(self) -> None:
        """Run every part."""
        for part in (
            self.reserves_and_activates,
            self.fails_a_launch,
            self.times_out_and_recovers,
            self.agent_cancels,
            self.hands_over,
        ):
            self.say(f"--- {(part.__doc__ or '').strip()}")
            part()
        self.store.close()


def main() -> None:
    """Print the tour."""
    tour = Tour(sys.argv[1] if len(sys.argv) > 1 else ":memory:")
    tour.run()
    for message in tour.session.conversation:
        mark = "" if message.intent_id is None else "  [the successor turn]"
        print(f"{message.text}{mark}")


if __name__ == "__main__":
    main()
