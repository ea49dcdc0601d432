"""Every error of sqlatch: one class per cause, each with its data and its advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class SqlatchError(Exception):
    """Root of every error that sqlatch raises."""


class InvalidArgument(SqlatchError, ValueError):
    """A value lies outside its stated bounds; nothing was written.

    Attributes:
        field: Name of the argument or column.

        bound: What the value must be.
    """

    def __init__(self, field: str, bound: str) -> None:
        super().__init__(field, bound)
        self.field = field
        self.bound = bound

    def __str__(self) -> str:
        return f"{self.field} must be {self.bound}"


class MachineError(SqlatchError):
    """A declaration does not hold together.

    Attributes:
        machine: Name of the machine.

        place: The transition, creation, rule or column that is wrong.

        problem: What is wrong with it.
    """

    def __init__(self, machine: str, place: str, problem: str) -> None:
        super().__init__(machine, place, problem)
        self.machine = machine
        self.place = place
        self.problem = problem

    def __str__(self) -> str:
        return f"machine {self.machine!r}: {self.place}: {self.problem}"


class UnknownTransition(MachineError):
    """No transition of this name is declared.

    Attributes:
        name: The name that was asked for.

        known: The declared names.
    """

    def __init__(self, machine: str, name: str, known: Sequence[str]) -> None:
        super().__init__(machine, name, f"not declared; known: {', '.join(known)}")
        self.args = (machine, name, known)
        self.name = name
        self.known = tuple(known)


class TooManyStates(MachineError):
    """A machine has more different rows than a search was allowed to reach.

    Attributes:
        most: How many were allowed.
    """

    def __init__(self, machine: str, place: str, values: int, most: int) -> None:
        super().__init__(
            machine,
            place,
            f"more than {most} different rows, and {values} values in this column alone: does"
            " anything bound it?",
        )
        self.args = (machine, place, values, most)
        self.most = most


class IdentityConflict(SqlatchError):
    """An id was used again with other immutable facts; nothing was written.

    Attributes:
        machine: Name of the machine.

        key: The id.

        differs: What does not agree with the stored row.
    """

    def __init__(self, machine: str, key: str, differs: Sequence[str]) -> None:
        super().__init__(machine, key, differs)
        self.machine = machine
        self.key = key
        self.differs = tuple(differs)

    def __str__(self) -> str:
        return (
            f"{self.machine} {self.key!r} exists with other facts"
            f" ({', '.join(self.differs)}); use a new id"
        )


class UniquenessConflict(SqlatchError):
    """A uniqueness rule refused a new row.

    Attributes:
        rule: Name of the rule.

        blocker: The record that stands in the way; None when it is gone by now.
    """

    def __init__(self, rule: str, blocker: object = None) -> None:
        super().__init__(rule, blocker)
        self.rule = rule
        self.blocker = blocker

    def __str__(self) -> str:
        return f"uniqueness rule {self.rule!r} refused the row: {self.blocker!r} stands in the way"


class IllegalTransition(SqlatchError):
    """SQL from outside tried an undeclared move and the database refused it."""


class SchemaMismatch(SqlatchError):
    """The database's layout is not this version's; nothing was changed.

    Attributes:
        differences: What is missing, extra or different, one sentence each.

        advice: What to do.
    """

    def __init__(self, differences: Sequence[str], advice: str) -> None:
        super().__init__(differences, advice)
        self.differences = tuple(differences)
        self.advice = advice

    def __str__(self) -> str:
        return f"{'; '.join(self.differences)}. {self.advice}"


class StoreBusy(SqlatchError):
    """Somebody else holds the database for longer than the busy timeout: try again."""


class StoreUnavailable(SqlatchError):
    """The database cannot be reached, opened or written."""


class StoreClosed(StoreUnavailable):
    """The store was closed: it answers nothing any more."""

    def __init__(self, message: str = "the store is closed") -> None:
        super().__init__(message)


class StoreCorrupt(SqlatchError):
    """The file is damaged or is no database; it was left as it is."""


class CommitUnknown(SqlatchError):
    """The connection broke while committing: repeat the same call with the same call id.

    Attributes:
        call: The id of the call whose outcome is unknown, if one was under way.
    """

    def __init__(self, message: str, call: str | None = None) -> None:
        super().__init__(message, call)
        self.call = call

    def __str__(self) -> str:
        return str(self.args[0])


class LeaseLost(SqlatchError):
    """The lease is no longer held: stop the work and write nothing more.

    Attributes:
        key: Id of the row whose lease was lost.

        generation: The generation that was held.
    """

    def __init__(self, key: str, generation: int) -> None:
        super().__init__(key, generation)
        self.key = key
        self.generation = generation

    def __str__(self) -> str:
        return f"the lease of {self.key!r} (generation {self.generation}) is lost"
