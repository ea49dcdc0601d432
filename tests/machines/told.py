"""A row's life, told call by call through `decide`, for machines with a delivery lease."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from attrs import define

from statemachine import Machine, Moved, Refused, create, decide
from statemachine.admission import admit_params
from statemachine.kinds import Plain
from statemachine.path import broken

START = 1_893_456_000_000
LEASE = timedelta(seconds=30)
ANN, BOB = b"a" * 32, b"b" * 32


@define
class Told:
    """One row of a machine, and its clock.

    Attributes:
        machine: The declaration.

        row: The plain row as it is now.

        now: Milliseconds since the Unix epoch.
    """

    machine: Machine
    row: Mapping[str, Plain]
    now: int = START

    @classmethod
    def born(cls, machine: Machine, creation: str, given: Mapping[str, Any]) -> Told:
        """Begin with a new row."""
        params = admit_params(machine.creation(creation).params, given)
        return cls(machine, create(machine, creation, params, START).row)

    def after(self, seconds: float) -> Told:
        """Let time pass."""
        self.now += int(seconds * 1_000)
        return self

    def tried(self, name: str, **values: Any) -> Moved | Refused:
        """Decide a call, without making it."""
        params = admit_params(self.machine.transition(name).params, values)
        return decide(self.machine, self.row, name, params, self.now)

    def then(self, name: str, **values: Any) -> Told:
        """Make a call, which must succeed and keep the invariants."""
        moved = self.tried(name, **values)
        assert isinstance(moved, Moved), moved
        assert broken(self.machine, moved.row) == ()

        self.row = moved.row
        return self

    def refused(self, name: str, **values: Any) -> str:
        """Make a call that must be refused; return the failed guard, or the reason."""
        verdict = self.tried(name, **values)
        assert isinstance(verdict, Refused), verdict

        return verdict.guard or verdict.reason.value

    def shows(self, *names: str) -> tuple[Plain, ...]:
        """Return some columns."""
        return tuple(self.row[name] for name in names)


def holder(token: bytes = ANN, name: str = "ann") -> dict[str, Any]:
    """Return what a holder gives to take the lease."""
    return {"holder": name, "holder_kind": "session", "token": token, "lease": LEASE}


def held(generation: int = 1, token: bytes = ANN) -> dict[str, Any]:
    """Return what a holder presents."""
    return {"token": token, "generation": generation}
