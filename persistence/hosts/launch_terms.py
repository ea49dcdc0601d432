"""What a session's host is asked for a launch, and what the launch coordinator answers."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Protocol, TypeAlias

from attrs import field, frozen

from statemachine.kinds import canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from persistence import Claim
    from persistence.hosts.safe_error import SafeError
    from statemachine.kinds import JsonValue
    from statemachine.machines import Run
    from statemachine.outcome import Refused

MAX_DEFINITION = 16 * 1024 * 1024


@frozen(kw_only=True)
class Resolved:
    """A workflow, found and validated.

    Attributes:
        workflow: Its name.

        source_ref: The reference that finds it again.

        source: Identity of its source: root and mounted parts.

        definition: What it consists of, as JSON; its digest tells a changed one.
    """

    workflow: str
    source_ref: str
    source: JsonValue
    definition: JsonValue = field(repr=False)

    @property
    def digest(self) -> str:
        """SHA-256 over the canonical JSON of the definition."""
        text = canonical_json(self.definition, "definition", MAX_DEFINITION)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@frozen
class Nothing:
    """Nothing of the run exists: it never ran."""


@frozen
class Begun:
    """The run was under way and can be resumed."""


@frozen
class Waits:
    """The run waits for somebody's answer."""


@frozen
class HasEnded:
    """The run ended, though the store does not have it yet.

    Attributes:
        end: `completed`, `failed`, `timed_out` or `cancelled`.

        reason: Why, unless it completed.

        result: What came of it.
    """

    end: str
    reason: str | None = None
    result: JsonValue = None


Existing: TypeAlias = Nothing | Begun | Waits | HasEnded
"""What exists of a run, beside its record."""


class LaunchHost(Protocol):
    """What the coordinator needs of a session's host."""

    def resolve(self, ref: str) -> Resolved:
        """Find and validate a workflow; raise whatever is wrong with it."""
        ...

    def existing(self, run: Run) -> Existing:
        """Say what exists of a run."""
        ...

    def build(self, claim: Claim, resolved: Resolved, *, resume: bool) -> Callable[[], None]:
        """Make all ready, and return what runs the first step; nothing of the run runs before."""
        ...

    def presenting(self) -> bool:
        """Tell whether the result of an earlier run is still being presented."""
        ...

    def deliver(self) -> None:
        """Deliver what is due, such as the fallback of a failed launch."""
        ...


@frozen(kw_only=True)
class Prepared:
    """A launch that is queued.

    Attributes:
        run: The reservation.

        message: What to tell whoever asked.
    """

    run: Run
    message: str


class LaunchRefused(Exception):
    """A launch was not prepared, and left no row.

    Attributes:
        error: Why; safe to tell.

        in_the_way: The run that stands in the way, if that is why.
    """

    def __init__(self, error: SafeError, in_the_way: Run | None = None) -> None:
        super().__init__(error, in_the_way)
        self.error = error
        self.in_the_way = in_the_way

    def __str__(self) -> str:
        return self.error.message


@frozen
class Started:
    """The run is running, held by this claim."""

    claim: Claim


@frozen
class LaunchFailed:
    """The run has failed durably, and its session will be told."""

    run: Run
    error: SafeError


@frozen
class LaidAside:
    """The run is parked: its source changed, or it waits for an answer."""

    run: Run


@frozen
class Closed:
    """The run had ended before; its record says so now."""

    run: Run


@frozen
class NotHere:
    """The run was not started here: another has it, it is at work here already, or it is gone.

    Attributes:
        refused: Why, where the store refused.
    """

    refused: Refused | None = None


Activation: TypeAlias = Started | LaunchFailed | LaidAside | Closed | NotHere
