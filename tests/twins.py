"""A store's runs and their in-memory model, led by the same calls and compared after each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias, assert_never

from persistence import (
    AlreadyFinal,
    Cancelled,
    CancelRequested,
    Claim,
    ManualClock,
    Store,
    Unchanged,
)
from persistence.stores.claims import derived
from persistence.stores.run_creations import digest_of
from persistence.stores.run_moves import LOST_MESSAGE
from statemachine.admission import admit_params
from statemachine.errors import SqlatchError
from statemachine.kinds import Plain, Row
from statemachine.machines import RUN_LAUNCH, HolderKind, Run
from statemachine.outcome import Actor, Moved, Reason, Refused
from statemachine.simulate import decide
from statemachine.testing.history_laws import history_faults
from statemachine.testing.model import Made, Model, Outcome, Stored

LEASE = timedelta(seconds=1)
PROJECT = "default"
FAILED = {"error_code": "boom", "error_message": "it broke", "outcome": "failed", "result": None}
FINAL = RUN_LAUNCH.final

Answer: TypeAlias = Claim | Run | Unchanged | Refused | SqlatchError


def milliseconds(clock: ManualClock) -> int:
    """Return a clock's instant in milliseconds since the Unix epoch."""
    return round(clock.now().timestamp() * 1000)


class Twins:
    """Makes a call of `store.runs`, asks the model what it must come to, and compares.

    Attributes:
        runs: The face under test.

        model: What the rows must be.

        claims: Every claim that was ever answered, oldest first; most of them are stale.
    """

    def __init__(self, store: Store, clock: ManualClock, actor: Actor) -> None:
        self.store = store
        self.runs = store.runs
        self.clock = clock
        self.actor = actor
        self.model = Model(RUN_LAUNCH)
        self.claims: list[Claim] = []
        self._calls = 0

    def call_id(self) -> str:
        """Return a fresh call id."""
        self._calls += 1
        return f"call-{self._calls}"

    # Creations

    def create(self, name: str, call: str, **given: Any) -> None:
        """Reserve or enqueue; what it takes to hold a lease is given to `enqueue` alone."""
        taken = {n: given.pop(n) for n in ("runner_id", "lease", "token") if n in given}
        facts = self.runs._operations._judged(_all_facts(given))
        facts["facts_digest"] = digest_of(facts)
        if name == "enqueue":
            kind = HolderKind.HOST if given["origin_session_id"] is None else HolderKind.SESSION
            params = RUN_LAUNCH.creation("enqueue").params
            held = {"holder": taken["runner_id"], "holder_kind": kind}
            values = {**held, "lease": taken["lease"], "token": taken["token"]}
            facts |= admit_params([p for p in params if p.name not in facts], values)
        found = _answered(lambda: getattr(self.runs, name)(call=call, **given, **taken))
        outcomes = self.model.create(name, facts, self._made(call, self.actor))
        self._settle(name, [_not_mine(outcome, facts) for outcome in outcomes], found)

    # One run

    def move(self, name: str, run_id: str, call: str, **given: Any) -> None:
        """Make a transition that needs no lease."""
        found = _answered(lambda: getattr(self.runs, name)(run_id, call=call, **given))
        self._moved(name, run_id, given, call, found)

    def hold(self, name: str, claim: Claim, call: str, **given: Any) -> None:
        """Make a transition that presents a claim, of late or of old."""
        found = _answered(lambda: getattr(self.runs, name)(claim, call=call, **given))
        self._moved(name, claim.run_id, given | _presented(claim), call, found)

    def renew(self, claim: Claim) -> None:
        """Renew a claim; a renewal has no call id and leaves no trace."""
        found = _answered(lambda: self.runs.renew(claim, lease=LEASE))
        given = {"lease": LEASE, **_presented(claim)}
        self._moved("renew", claim.run_id, given, "no call", found, given=False)

    def claim(self, run_id: str, runner: str, token: bytes, kind: str, call: str) -> None:
        """Take a run by its id."""
        given = {"holder": runner, "lease": LEASE, "token": token, "holder_kind": kind}
        found = _answered(
            lambda: self.runs.claim(
                run_id, runner_id=runner, lease=LEASE, token=token, holder_kind=kind, call=call
            )
        )
        self._moved("claim", run_id, given, call, found, actor=Actor(kind, runner))

    def control(self, run_id: str, holder: str, token: bytes, call: str) -> None:
        """Hold a run where it is."""
        found = _answered(
            lambda: self.runs.claim_for_control(
                run_id, holder=holder, lease=LEASE, token=token, call=call
            )
        )
        taking = {"holder": holder, "lease": LEASE, "token": token}
        who = Actor("control", holder)
        self._moved("claim_for_control", run_id, taking, call, found, actor=who)

    def rebind(
        self, run_id: str, binding: Mapping[str, Any], runner: str, token: bytes, call: str
    ) -> None:
        """Take a free run with another source, or hear that it is the same."""
        found = _answered(
            lambda: self.runs.rebind(
                run_id, runner_id=runner, lease=LEASE, token=token, call=call, **binding
            )
        )
        given = {**binding, "lease": LEASE, "token": token}
        given |= {"holder": runner, "holder_kind": "host"}
        params = admit_params(RUN_LAUNCH.transition("rebind").params, given)
        row = self.model.rows.get(run_id)
        names = ("source_ref", "source", "definition_digest")
        same = row is not None and all(row[name] == params[name] for name in names)
        if row is not None and same and row["status"] == "parked":
            assert Unchanged(self.model.record(row)) == found
            return
        self._moved("rebind", run_id, given, call, found, actor=Actor("host", runner))

    def rebind_held(self, claim: Claim, binding: Mapping[str, Any], runner: str, call: str) -> None:
        """Hand a held run to a runner, with another source."""
        found = _answered(
            lambda: self.runs.rebind_held(
                claim, runner_id=runner, lease=LEASE, call=call, **binding
            )
        )
        given = {**binding, "lease": LEASE, "holder": runner, "holder_kind": "host"}
        self._moved("rebind_held", claim.run_id, given | _presented(claim), call, found)

    def cancel(self, run_id: str, call: str) -> None:
        """Cancel a run, and hear one of three honest answers."""
        found = _answered(lambda: self.runs.cancel(run_id, call=call))
        names = ("cancel", "cancel_stale", "request_cancel")
        for name in names:
            made = self._made(f"{call}/{name}", self.actor)
            outcome = self.model.apply(name, run_id, {}, made)[0]
            if isinstance(outcome.answer, Stored):
                kind = CancelRequested if name == "request_cancel" else Cancelled
                self.model.accept(outcome)
                assert kind(self.model.record(outcome.answer.row)) == found
                self._compare(run_id)
                return
        row = self.model.rows.get(run_id)
        if row is None:
            assert found == Refused(transition="cancel", reason=Reason.MISSING, key=run_id)
        elif row["status"] in FINAL:
            assert AlreadyFinal(self.model.record(row)) == found
        else:
            assert CancelRequested(self.model.record(row)) == found

    # The next runs

    def claim_next(
        self, runner: str, token: bytes, session: str | None, exclude: tuple[str, ...], call: str
    ) -> None:
        """Take the next run, as a session or as a host."""
        found = _answered(
            lambda: self.runs.claim_next(
                runner, LEASE, session_id=session, exclude=exclude, token=token, call=call
            )
        )
        kind = "host" if session is None else "session"
        name = "claim_next_host" if session is None else "claim_next_session"
        scope: dict[str, Plain] = {} if session is None else {"session_id": session}
        params = self._taking(runner, token, kind) | scope
        made = self._made(call, Actor(kind, runner))
        self._settle(name, self.model.next(name, params, exclude, made), found)

    def claim_many(self, runner: str, token: bytes, limit: int, call: str | None) -> None:
        """Take several runs, one after the other (with a call id) or at once."""
        found = self.runs.claim_many(runner, LEASE, limit=limit, token=token, call=call)
        assert len(found) <= limit
        for number in range(limit):
            answer = found[number : number + 1]
            one = answer[0].run.last_call if answer and call is None else f"{call}/{number}"
            params = self._taking(runner, derived(token, number), "host")
            made = Made(Actor("host", runner), milliseconds(self.clock), one, call is not None)
            outcomes = self.model.next("claim_headless", params, (), made)
            if not answer:
                assert isinstance(outcomes[0].answer, Refused), "one more run could be taken"
                return
            self._settle("claim_many", outcomes, answer[0], compare=False)
        self._compare(None)

    def reap_due(self, limit: int) -> None:
        """End what no worker may take any more."""
        ended = list(self.runs.reap_due(limit))
        assert len(ended) <= limit
        queue = list(ended)
        for name in ("reap_due", "reap_cancelled_due"):
            declared = RUN_LAUNCH.transition(RUN_LAUNCH.selection(name).transition).params
            values = {"error_message": LOST_MESSAGE} if declared else {}
            params = {**admit_params(declared, values), "project": PROJECT}
            while len(queue) + limit > len(ended):
                made = self._made(queue[0].last_call if queue else "none", self.actor)
                outcome = self.model.next(name, params, (), made)[0]
                if isinstance(outcome.answer, Refused):
                    break
                assert isinstance(outcome.answer, Stored)
                assert self.model.record(outcome.answer.row) == queue.pop(0)
                self.model.accept(outcome)
        assert queue == []
        self._compare(None)

    # Reading

    def verify(self, claim: Claim) -> None:
        """Ask whether a claim still holds."""
        row = self.model.rows.get(claim.run_id)
        values = admit_params(
            RUN_LAUNCH.transition("renew").params, {"lease": LEASE, **_presented(claim)}
        )
        live = decide(RUN_LAUNCH, row, "renew", values, milliseconds(self.clock))

        assert isinstance(live, Moved) == self.runs.verify(claim)

    def find_reservation(self, session: str) -> None:
        """Ask for the run that a session has under way."""
        held = [
            self.model.record(row)
            for row in self.model.rows.values()
            if row["origin_session_id"] == session
            and row["execution_mode"] == "interactive"
            and row["status"] in ("queued", "starting", "running")
        ]

        assert [self.runs.find_reservation(session)] == (held or [None])

    # Comparing

    def _taking(self, runner: str, token: bytes, kind: str) -> dict[str, Plain]:
        values = {"holder": runner, "lease": LEASE, "token": token, "holder_kind": kind}
        params = admit_params(RUN_LAUNCH.transition("claim").params, values)
        return {**params, "project": PROJECT}

    def _made(self, call: str, actor: Actor, *, given: bool = True) -> Made:
        return Made(actor, milliseconds(self.clock), call, given)

    def _moved(
        self,
        name: str,
        run_id: str,
        values: Mapping[str, Any],
        call: str,
        found: Answer,
        *,
        actor: Actor | None = None,
        given: bool = True,
    ) -> None:
        params = admit_params(RUN_LAUNCH.transition(name).params, values)
        made = self._made(call, actor or self.actor, given=given)
        self._settle(name, self.model.apply(name, run_id, params, made), found)

    def _settle(
        self, name: str, outcomes: list[Outcome], found: Answer, *, compare: bool = True
    ) -> None:
        """Let that one of the right outcomes happen which the store answered."""
        answer = found.run if isinstance(found, Claim) else found
        right = [one for one in outcomes if self._agrees(one, answer)]

        assert right, f"{name}: {[one.answer for one in outcomes]} expected, not {found!r}"
        self.model.accept(right[0])
        if isinstance(found, Claim):
            self.claims.append(found)
        if compare:
            self._compare(answer.run_id if isinstance(answer, Run) else None)

    def _agrees(self, outcome: Outcome, found: object) -> bool:
        match outcome.answer:
            case Stored(row=row):
                return bool(self.model.record(row) == found)
            case Refused() as refused:
                return refused == found
            case SqlatchError() as error:
                return type(error) is type(found) and error.args == getattr(found, "args", None)
        assert_never(outcome.answer)

    def _compare(self, run_id: str | None) -> None:
        """Compare every record, and one run's history (None: that of each)."""
        declared = {key: self.model.record(row) for key, row in self.model.rows.items()}
        assert declared == {run.run_id: run for run in self.runs.list(limit=1_000)}
        for key in (run_id,) if run_id in declared else declared:
            assert key is not None
            events = self.runs.history(key, limit=1_000)
            assert self.model.events[key] == events
            assert history_faults(RUN_LAUNCH, events, self.model.rows[key]) == ()


def _presented(claim: Claim) -> dict[str, Any]:
    return {"token": claim.token, "generation": claim.generation}


def _answered(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except SqlatchError as error:
        return error


def _all_facts(given: Mapping[str, Any]) -> dict[str, Any]:
    names = [p.name for p in RUN_LAUNCH.creation("reserve").params]
    return {name: given.get(name) for name in names if name not in ("facts_digest", "project")}


def _not_mine(outcome: Outcome, facts: Row) -> Outcome:
    """Turn "it is stored already" into a refusal where another token holds it."""
    answer = outcome.answer
    if outcome.moved is not None or not isinstance(answer, Stored) or "token" not in facts:
        return outcome
    if answer.row["lease_token_hash"] == facts["token"]:
        return outcome
    return Outcome(
        Refused(
            transition="enqueue",
            reason=Reason.EXISTS,
            key=str(answer.row["run_id"]),
            state=str(answer.row["status"]),
        )
    )
