"""What a call of ours answered, in the recorded terms; and what a kind of row brings along."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from attrs import field, frozen

from statemachine.errors import IdentityConflict, InvalidArgument, UniquenessConflict
from statemachine.outcome import Reason, Refused
from tests.conformance.traces import Step

Row = Mapping[str, Any]

ERRORS = {
    InvalidArgument: "invalid_argument",
    UniquenessConflict: "unique_conflict",
    IdentityConflict: "identity_conflict",
}


@frozen
class Answer:
    """What we answered.

    Attributes:
        verdict: As `Step.verdict`; or `exists` or `requested`, which the recorded one had not.

        value: The record or list in the recorded shape; None where only the verdict counts.

        keys: Ids of the rows that it made or took.

        detail: The refusal or error itself, to be shown.
    """

    verdict: str
    value: Any = None
    keys: tuple[str, ...] = ()
    detail: object = field(default=None, eq=False)

    @property
    def writes(self) -> bool:
        """Whether such an answer may have written."""
        return self.verdict in ("yes", "requested")


@frozen
class Difference:
    """A step that we answer otherwise on purpose.

    Attributes:
        name: The row of DEVIATIONS.md.

        verdict: What we must answer.

        row: What our row must then say, where the stored rows part.

        value: What we must return; None: the verdict is all.
    """

    name: str
    verdict: str
    row: Row = field(factory=dict)
    value: Any = None


class Kind(Protocol):
    """A kind of row: its operations, its rows, its deliberate differences."""

    @property
    def kind(self) -> str:
        """Its name in a recorded state."""

    @property
    def rests_on(self) -> tuple[str, ...]:
        """Kinds whose rows decide its answers."""

    @property
    def ops(self) -> Mapping[str, Callable[[Mapping[str, Any]], Answer]]:
        """The recorded operations, as calls of ours."""

    def keys(self, step: Step) -> tuple[str, ...]:
        """Name the rows that a step addresses."""

    def difference(self, step: Step) -> Difference | None:
        """Tell which deliberate difference a step falls under, before it is made."""

    def returned(self, step: Step, rows: Mapping[str, Row]) -> Any:
        """Return the recorded answer as ours must be; None: the verdict is all.

        Args:
            step: What was done.

            rows: Each row as ours must have been before it.
        """

    def row(self, step: Step, before: Row | None, recorded: Row) -> tuple[Row, tuple[str, ...]]:
        """Return a row that a step changed as ours must be, and the differences that it shows."""

    def settle(self, step: Step, answer: Answer) -> None:
        """Keep what later steps need to know of this one."""

    def refresh(self, key: str) -> Row | None:
        """Read a row of ours again, in the recorded shape."""

    def everything(self) -> Mapping[str, Row]:
        """Return all rows of ours, in the recorded shape."""


def of(outcome: Any, value: Any = None) -> Answer:
    """Return the answer for a moved record or a refusal."""
    if isinstance(outcome, Refused):
        return refused(outcome)
    return Answer("yes" if outcome else "no", value)


def refused(refusal: Refused) -> Answer:
    """Return the answer for a refusal: a broken rule is a class of its own."""
    verdict = {Reason.UNIQUE: "unique_conflict", Reason.EXISTS: "exists"}
    return Answer(verdict.get(refusal.reason, "no"), detail=refusal)


def make(perform: Callable[[Mapping[str, Any]], Answer], args: Mapping[str, Any]) -> Answer:
    """Make a call and name its error, if it raises one of ours."""
    try:
        return perform(args)
    except (InvalidArgument, UniquenessConflict, IdentityConflict) as error:
        return Answer(ERRORS[type(error)], detail=error)
