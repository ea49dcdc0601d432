"""`store.runs`, driven at random by two runners and two sessions against the in-memory model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from persistence import Claim, ManualClock, Store, open_store
from persistence.stores.runs import RunOperations, Runs
from statemachine.machines import RUN_LAUNCH
from statemachine.outcome import Actor
from tests.conftest import START
from tests.mutants import without_guard
from tests.twins import FAILED, LEASE, Twins

RUN_IDS = [f"r{number}" for number in range(1, 10)]
RUNNERS = st.sampled_from([("ann", b"a" * 32), ("bob", b"b" * 32)])
SESSIONS = st.sampled_from(["s1", "s2"])
KINDS = st.sampled_from(["host", "session"])
SOURCES = st.sampled_from(["file:one", "file:two"])
OUTCOMES = st.sampled_from(["completed", "checkpointed", "failed", "timed_out"])
TICKS = st.sampled_from([1, 400, 999, 1_000, 1_001, 5_000]).map(
    lambda ms: timedelta(milliseconds=ms)
)
FACTS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["reserve", "reserve", "enqueue"]),
        "runner": RUNNERS,
        "run_id": st.sampled_from(RUN_IDS),
        "workflow": st.just("w"),
        "source_ref": st.just("file:one"),
        "source": st.just({"root": "w"}),
        "definition_digest": st.just("sha256:1"),
        "input": st.just([1]),
        "launch_options": st.just({}),
        "execution_mode": st.sampled_from(["interactive", "headless"]),
        "origin_session_id": st.none() | SESSIONS,
        "affinity_runner_id": st.sampled_from([None, None, "ann", "bob"]),
        "affinity_until": st.none() | TICKS,
        "parent_run_id": st.sampled_from([None, None, None, "r1", "r2"]),
        "available_at": st.sampled_from([None, None, timedelta(seconds=1)]),
        "max_attempts": st.sampled_from([None, None, 1, 2]),
    }
)
FREE = ("wake", "requeue", "pause", "resume", "request_cancel", "cancel_stale", "reap_cancelled")
HELD = ("mark_running", "mark_running", "release_control")
ACTOR = Actor("host", "test")


class RunsTest(RuleBasedStateMachine):
    """Every call of the face; the claims that a step presents are of late or of old."""

    opening: Callable[[ManualClock], Store]

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(START)
        self.store = type(self).opening(self.clock)
        self.twins = Twins(self.store, self.clock, ACTOR)
        self.repeat: Callable[[], None] | None = None

    def teardown(self) -> None:
        """Close the store."""
        self.store.close()

    def make(self, step: Callable[..., None], *args: Any, **given: Any) -> None:
        """Make a call under a fresh id, and keep it to be repeated."""
        call = self.twins.call_id()
        self.repeat = lambda: step(*args, call=call, **given)
        self.repeat()

    def run_id(self, data: st.DataObject, name: str) -> str:
        """Draw a run that a call fits by preference, or now and then one that there is not."""
        rows = self.twins.model.rows
        source = RUN_LAUNCH.transition(name).source
        fitting = [key for key, row in rows.items() if row["status"] in source]
        return data.draw(st.sampled_from([*fitting * 4, *rows, "r0"]))

    def claim(self, data: st.DataObject, name: str) -> Claim:
        """Draw a claim that holds what a call fits by preference, or one that was lost since."""
        rows, claims = self.twins.model.rows, self.twins.claims
        source = RUN_LAUNCH.transition(name).source
        holding = [
            claim
            for claim in claims
            if rows[claim.run_id]["status"] in source
            and rows[claim.run_id]["lease_holder"] is not None
            and rows[claim.run_id]["lease_generation"] == claim.generation
        ]
        pool = [*holding[-4:] * 4, *claims[-4:], claims[0]]
        named = [f"{claim.run_id} in generation {claim.generation}" for claim in pool]
        return pool[named.index(data.draw(st.sampled_from(named)))]

    @precondition(lambda test: test.repeat is not None)
    @rule()
    def again(self) -> None:
        """Make the last call once more, under its id."""
        assert self.repeat is not None
        self.repeat()

    @rule(by=TICKS)
    def wait(self, by: timedelta) -> None:
        """Let time pass; a claim of before the expiry is late at the instant of it."""
        self.clock.advance(by)

    @initialize(facts=st.lists(FACTS, min_size=3, max_size=3))
    def begin(self, facts: list[dict[str, Any]]) -> None:
        """Begin with three runs, whatever else a story leaves out."""
        for number, given in enumerate(facts, 1):
            self.create({**given, "run_id": f"r{number}", "parent_run_id": None})

    @rule(facts=FACTS)
    def create(self, facts: dict[str, Any]) -> None:
        """Reserve or enqueue a run, with and without session, pin, parent and limit."""
        now, given = self.clock.now(), dict(facts)
        name, (runner, token) = given.pop("name"), given.pop("runner")
        for field in ("affinity_until", "available_at"):
            given[field] = None if given[field] is None else now + given[field]
        if given["parent_run_id"] == given["run_id"]:
            given["parent_run_id"] = None
        if given["origin_session_id"] is None:
            given["execution_mode"] = "headless"
        if name == "enqueue":
            given |= {"runner_id": runner, "token": token, "lease": LEASE}
        self.make(lambda call: self.twins.create(name, call, **given))

    @rule(data=st.data(), runner=RUNNERS, kind=KINDS)
    def claim_by_id(self, data: st.DataObject, runner: tuple[str, bytes], kind: str) -> None:
        """Take a run by its id."""
        self.make(self.twins.claim, self.run_id(data, "claim"), *runner, kind)

    @rule(data=st.data(), runner=RUNNERS)
    def claim_for_control(self, data: st.DataObject, runner: tuple[str, bytes]) -> None:
        """Hold a run where it is."""
        self.make(self.twins.control, self.run_id(data, "claim_for_control"), *runner)

    @rule(
        runner=RUNNERS,
        session=st.sampled_from([None, None, "s1", "s2"]),
        exclude=st.sampled_from([(), (), ("r1",), ("r2", "r3")]),
        after=st.sampled_from([0, 0, 1_000]),
    )
    def claim_next(
        self,
        *,
        runner: tuple[str, bytes],
        session: str | None,
        exclude: tuple[str, ...],
        after: int,
    ) -> None:
        """Take the next run, as a host or for a session, now or once leases have run out."""
        self.clock.advance(timedelta(milliseconds=after))
        self.make(self.twins.claim_next, *runner, session, exclude)

    @rule(runner=RUNNERS, limit=st.integers(1, 3), named=st.booleans())
    def claim_many(self, runner: tuple[str, bytes], limit: int, *, named: bool) -> None:
        """Take several runs, with a call id or without."""
        self.twins.claim_many(*runner, limit, self.twins.call_id() if named else None)

    @precondition(lambda test: test.twins.claims)
    @rule(data=st.data(), name=st.sampled_from(HELD))
    def hold(self, data: st.DataObject, name: str) -> None:
        """Begin as the holder, or give a control lease back."""
        self.make(self.twins.hold, name, self.claim(data, name))

    @precondition(lambda test: test.twins.claims)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        """Renew as the holder; verify says whether that can be done."""
        claim = self.claim(data, "renew")
        self.twins.verify(claim)
        self.twins.renew(claim)

    @precondition(lambda test: test.twins.claims)
    @rule(data=st.data(), waiting=st.booleans(), later=st.none() | TICKS)
    def park(self, data: st.DataObject, waiting: bool, later: timedelta | None) -> None:
        """Lay a run aside."""
        at = None if later is None else self.clock.now() + later
        self.make(
            self.twins.hold, "park", self.claim(data, "park"), waiting=waiting, available_at=at
        )

    @precondition(lambda test: test.twins.claims)
    @rule(data=st.data(), detail=st.none() | st.just("how"))
    def park_source_changed(self, data: st.DataObject, detail: str | None) -> None:
        """Lay a run aside, for its source has changed."""
        given = {"error_message": "changed", "status_detail": detail}
        self.make(
            self.twins.hold, "park_source_changed", self.claim(data, "park_source_changed"), **given
        )

    @precondition(lambda test: test.twins.claims)
    @rule(data=st.data())
    def park_effect_ambiguous(self, data: st.DataObject) -> None:
        """Lay a run aside, for nobody knows what happened."""
        name = "park_effect_ambiguous"
        self.make(self.twins.hold, name, self.claim(data, name), error_message="maybe")

    @precondition(lambda test: test.twins.claims)
    @rule(data=st.data(), outcome=OUTCOMES, name=st.sampled_from(["finish", "fail", "abort"]))
    def end(self, data: st.DataObject, outcome: str, name: str) -> None:
        """End a run as its holder."""
        given: dict[str, dict[str, Any]] = {
            "finish": {"outcome": outcome, "result": {"n": 1}},
            "fail": FAILED,
            "abort": {},
        }
        self.make(self.twins.hold, name, self.claim(data, name), **given[name])

    @rule(data=st.data(), name=st.sampled_from(FREE))
    def move(self, data: st.DataObject, name: str) -> None:
        """Make a move that needs no lease."""
        self.make(self.twins.move, name, self.run_id(data, name))

    @rule(data=st.data(), name=st.sampled_from(["reject", "reap", "cancel"]))
    def end_free(self, data: st.DataObject, name: str) -> None:
        """End a run that nobody holds, or ask its holder to."""
        run_id = self.run_id(data, name)
        if name == "cancel":
            self.make(self.twins.cancel, run_id)
        elif name == "reject":
            self.make(self.twins.move, name, run_id, **FAILED)
        else:
            self.make(self.twins.move, name, run_id, error_message="lost it")

    @rule(data=st.data(), session_id=SESSIONS)
    def adopt(self, data: st.DataObject, session_id: str) -> None:
        """Give a run to a session."""
        self.make(self.twins.move, "adopt", self.run_id(data, "adopt"), session_id=session_id)

    @rule(data=st.data(), runner=RUNNERS, source=SOURCES, seen=SOURCES)
    def rebind(
        self, data: st.DataObject, runner: tuple[str, bytes], source: str, seen: str
    ) -> None:
        """Take a run with another source."""
        self.make(self.twins.rebind, self.run_id(data, "rebind"), _binding(source, seen), *runner)

    @precondition(lambda test: test.twins.claims)
    @rule(data=st.data(), runner=RUNNERS, source=SOURCES, seen=SOURCES)
    def rebind_held(
        self, data: st.DataObject, runner: tuple[str, bytes], source: str, seen: str
    ) -> None:
        """Hand a held run on, with another source."""
        binding = _binding(source, seen)
        self.make(self.twins.rebind_held, self.claim(data, "rebind_held"), binding, runner[0])

    @rule(limit=st.integers(1, 3))
    def reap_due(self, limit: int) -> None:
        """End what no worker may take any more."""
        self.twins.reap_due(limit)

    @rule(session=SESSIONS)
    def find_reservation(self, session: str) -> None:
        """Ask for a session's run."""
        self.twins.find_reservation(session)


def _binding(source: str, seen: str) -> dict[str, Any]:
    return {
        "workflow": "w",
        "source_ref": source,
        "source": {"root": "w"},
        "definition_digest": "sha256:1",
        "expected_source_ref": seen,
    }


def drive(opening: Callable[[ManualClock], Store], **given: Any) -> None:
    """Run the test on stores that are opened so."""
    test = type("Opened", (RunsTest,), {"opening": staticmethod(opening)})
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        test, settings=settings(deadline=None, suppress_health_check=checks, **given)
    )


def test_every_call_of_the_face_does_what_was_declared() -> None:
    """Verdict, record, every other record and the history agree after each step, on SQLite."""
    drive(
        lambda clock: open_store(":memory:", clock=clock, actor=ACTOR),
        max_examples=150,
        stateful_step_count=50,
    )


@pytest.mark.slow
def test_the_same_on_postgresql(postgres_url: str) -> None:
    """With fewer steps; each attempt begins with empty tables."""
    with emptied(postgres_url) as opening:
        drive(opening, max_examples=15, stateful_step_count=40)


@pytest.mark.parametrize(
    ("name", "guard"),
    [("claim", "free"), ("mark_running", "live"), ("rebind_held", "live")],
)
def test_a_guard_missing_from_the_statements_is_found(name: str, guard: str) -> None:
    """A store that was compiled with one guard less does what the model refuses."""

    def opening(clock: ManualClock) -> Store:
        store = open_store(":memory:", clock=clock, actor=ACTOR)
        program = store.engine.program(without_guard(RUN_LAUNCH, name, guard))
        store.runs = Runs(RunOperations(store.engine, program), store.engine)
        return store

    with pytest.raises(AssertionError, match=f"^{name}"):
        drive(
            opening,
            max_examples=300,
            stateful_step_count=50,
            phases=[Phase.generate],
            derandomize=True,
            database=None,
        )


@contextmanager
def emptied(url: str) -> Iterator[Callable[[ManualClock], Store]]:
    """Lend what opens an empty store in a schema of its own each time."""
    numbers = itertools.count()
    with psycopg.connect(url, autocommit=True) as connection:
        made: list[str] = []

        def opening(clock: ManualClock) -> Store:
            schema = f"stateful_{next(numbers)}_{connection.info.backend_pid}"
            connection.execute(f"CREATE SCHEMA {schema}".encode())
            made.append(schema)
            return open_store(url, clock=clock, actor=ACTOR, schema=schema)

        yield opening
        for schema in made:
            connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())
