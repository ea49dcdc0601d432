"""What a call answers: the moved row with its history event, or a refusal that says why."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Literal

from attrs import field, frozen

if TYPE_CHECKING:
    from statemachine.kinds import Plain, Row


class Reason(enum.StrEnum):
    """Why a transition did not happen."""

    MISSING = "missing"
    STATE = "state"
    GUARD = "guard"
    UNIQUE = "unique"
    EXISTS = "exists"
    RACED = "raced"
    NOTHING = "nothing"
    LOCKED = "locked"


@frozen(cache_hash=True)
class Actor:
    """Who makes a call.

    Attributes:
        kind: What the actor is, such as `session`, `host` or `operator`; a key.

        name: Its name; a key.
    """

    kind: str
    name: str


NOBODY = Actor("caller", "unnamed")


@frozen(kw_only=True)
class Event:
    """One row of the history.

    Attributes:
        machine, key, revision: Which row, and its revision afterwards.

        transition: The transition or creation.

        source: The state before; None for a creation.

        dest: The state afterwards.

        actor: Who made the call; the lease's holder where only the holder could.

        generation: The lease's generation afterwards; None without a lease.

        call: The call's id.

        at: Milliseconds since the Unix epoch.

        changes: New plain values of the recorded columns that changed.
    """

    machine: str
    key: str
    revision: int
    transition: str
    source: str | None
    dest: str
    actor: Actor
    generation: int | None
    call: str
    at: int
    changes: dict[str, Plain]


@frozen(kw_only=True)
class HostEvent:
    """An event that a host appended to a row's history; it changed nothing.

    Attributes:
        machine, key, revision: Which row, and its revision at that moment.

        type: What kind of event; a key.

        payload: JSON.

        actor: Who appended it.

        call: The call's id.

        at: Milliseconds since the Unix epoch.
    """

    machine: str
    key: str
    revision: int
    type: str
    payload: Any
    actor: Actor
    call: str
    at: int


@frozen
class Moved:
    """The transition happened.

    Attributes:
        row: The plain row afterwards.

        event: What history says of it; None for a quiet transition.
    """

    row: Row
    event: Event | None


@frozen
class LostLease:
    """A lease that is no longer the caller's.

    Attributes:
        presented: The generation that the caller gave; None when it gave none.

        present: The row's generation.

        holder: Who holds it now; None when nobody does.
    """

    presented: int | None
    present: int
    holder: str | None


@frozen(kw_only=True)
class Refused:
    """The transition did not happen; falsy.

    Attributes:
        transition: The transition, creation or selection that was asked for.

        reason: Why not. `nothing`: a selection found no row to take; `locked`: all that it could
            take is locked just now; `raced`: the row changed hands faster than it could be told.

        key: The row's key; None for a selection.

        state: The state that was found; None where there is no row.

        guard: Name of the failed guard or uniqueness rule.

        lost: For a lost lease: both generations and the new holder.

        blocker: For `unique`: the record that stands in the way.

        blocked_by: Its key.
    """

    transition: str
    reason: Reason
    key: str | None = None
    state: str | None = None
    guard: str | None = None
    lost: LostLease | None = None
    blocker: Any = field(default=None, repr=False)
    blocked_by: str | None = field(default=None, eq=False)  # the blocker says it already

    def __bool__(self) -> Literal[False]:
        return False

    def __str__(self) -> str:
        return f"{self.transition} refused: {self._why()}"

    def _why(self) -> str:
        match self.reason:
            case Reason.MISSING:
                return "there is no such row" if self.key is None else f"there is no {self.key!r}"
            case Reason.STATE:
                return f"{self.key!r} is {self.state}"
            case Reason.GUARD if self.lost is not None:
                holder = self.lost.holder or "nobody"
                return (
                    f"the lease of {self.key!r} is lost; it is {self.state}, held by {holder} in"
                    f" generation {self.lost.present} (presented: {self.lost.presented})"
                )
            case Reason.GUARD:
                return f"{self.key!r} is {self.state}, but not {self.guard!r}"
            case Reason.UNIQUE:
                taken = f"{self.guard!r} is taken by {self.blocked_by!r}"
                return f"{self.key!r} is {self.state}, but {taken}"
            case Reason.EXISTS:
                return f"{self.key!r} exists already; it is {self.state}"
            case Reason.RACED:
                return f"{self.key!r} was changed by others at the same time; try again"
            case Reason.NOTHING:
                return "there is nothing to take"
            case Reason.LOCKED:
                return "all that could be taken is locked just now; try again"
