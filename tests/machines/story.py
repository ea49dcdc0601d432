"""A run's life, told call by call through `decide`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from attrs import define, field

from statemachine.admission import admit_params
from statemachine.kinds import Plain
from statemachine.machines.run_launch import RUN_LAUNCH
from statemachine.outcome import Moved, Refused
from statemachine.path import broken
from statemachine.simulate import create, decide

START = 1_893_456_000_000
LEASE = timedelta(seconds=30)
GIVEN: dict[str, Any] = {
    "run_id": "r1",
    "project": "p",
    "workflow": "w",
    "source_ref": "file:w",
    "source": {"root": "w"},
    "definition_digest": "sha256:1",
    "input": {"secret": 1},
    "launch_options": {"fast": True},
    "facts_digest": "0" * 64,
    "execution_mode": "headless",
}
LEASE_COLUMNS = (
    "lease_holder",
    "lease_holder_kind",
    "lease_token_hash",
    "lease_acquired_at",
    "lease_heartbeat_at",
    "lease_expires_at",
)
ABSENT = (None,) * 6
ERROR = {"error_code": "boom", "error_message": "it broke"}
CODES = ("error_code", "error_message")
FOUND = {"workflow": "w2", "source_ref": "file:w2", "source": {}, "definition_digest": "sha256:2"}
EXPECTED = {"expected_source_ref": "file:w"}
CLEARED = ("input", "launch_options")
ANN, BOB = b"a" * 32, b"b" * 32


def runner(token: bytes = ANN, name: str = "ann", kind: str = "host") -> dict[str, Any]:
    """Return what a runner gives to take a lease."""
    return {"holder": name, "holder_kind": kind, "token": token, "lease": LEASE}


def held(generation: int, token: bytes = ANN) -> dict[str, Any]:
    """Return what a holder presents."""
    return {"token": token, "generation": generation}


@define
class Story:
    """One run and its clock.

    Attributes:
        row: The plain row as it is now.

        now: Milliseconds since the Unix epoch.
    """

    row: Mapping[str, Plain] = field(factory=dict)
    now: int = START

    @classmethod
    def reserved(cls, **given: Any) -> Story:
        """Begin with a queued run."""
        values = admit_params(RUN_LAUNCH.creation("reserve").params, {**GIVEN, **given})
        return cls(create(RUN_LAUNCH, "reserve", values, START).row)

    @classmethod
    def enqueued(cls, **given: Any) -> Story:
        """Begin with a run that is leased to ann at birth."""
        all_given = {**GIVEN, **runner(), **given}
        values = admit_params(RUN_LAUNCH.creation("enqueue").params, all_given)
        return cls(create(RUN_LAUNCH, "enqueue", values, START).row)

    @classmethod
    def running(cls, **given: Any) -> Story:
        """Begin with a run that ann is running, in generation 1."""
        return cls.enqueued(**given).then("mark_running", **held(1))

    @classmethod
    def parked(cls, *, waiting: bool = False, **given: Any) -> Story:
        """Begin with a run that ann has parked, generation 1."""
        return cls.running(**given).then("park", **held(1), waiting=waiting)

    def call(self, transition: str, **values: Any) -> Moved | Refused:
        """Return the outcome of a call; the story goes on with the row as it was."""
        params = admit_params(RUN_LAUNCH.transition(transition).params, values)
        return decide(RUN_LAUNCH, self.row, transition, params, self.now)

    def then(self, transition: str, **values: Any) -> Story:
        """Make a call that must be applied, and leave a row that keeps every invariant."""
        outcome = self.call(transition, **values)
        assert isinstance(outcome, Moved), str(outcome)
        assert broken(RUN_LAUNCH, outcome.row) == ()
        self.row = outcome.row
        return self

    def refusal(self, transition: str, **values: Any) -> str:
        """Make a call that must be refused; return the state or the guard that refused it."""
        outcome = self.call(transition, **values)
        assert isinstance(outcome, Refused), f"{transition} was applied"
        return str(outcome.guard or outcome.state)

    def after(self, seconds: float) -> Story:
        """Let time pass."""
        self.now += round(seconds * 1000)
        return self

    def shows(self, *names: str) -> tuple[Plain, ...]:
        """Return some columns."""
        return tuple(self.row[name] for name in names)
