"""What a store must offer so that it can be tested; `persistence.Store` does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from attrs import define

from statemachine.kinds import EPOCH

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from statemachine.machine import Machine
    from statemachine.outcome import Actor, Event
    from statemachine.row_call import RowCall


@define
class StoppedClock:
    """The clock that a tested store goes by: it moves only as the test moves it.

    Attributes:
        ms: Milliseconds since the Unix epoch.
    """

    ms: int

    def now(self) -> datetime:
        """Return the instant that it was last set to, in UTC."""
        return EPOCH + timedelta(milliseconds=self.ms)


class Rows(Protocol):
    """The rows of one machine; each call answers a record or a falsy `Refused`."""

    def create(
        self,
        name: str,
        values: Mapping[str, object],
        *,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Any:
        """Make a declared creation."""

    def apply(
        self,
        name: str,
        key: str,
        values: Mapping[str, object] | None = None,
        *,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Any:
        """Make a declared transition."""

    def apply_many(
        self, name: str, calls: Sequence[RowCall], *, actor: Actor | None = None
    ) -> list[Any]:
        """Make one transition on several rows."""

    def next(
        self,
        name: str,
        values: Mapping[str, object],
        *,
        exclude: Collection[str] = (),
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Any:
        """Make a selection's transition on its next row."""

    def get(self, key: str) -> Any:
        """Return a record, or None."""

    def history(self, key: str, *, after_revision: int = 0, limit: int = 100) -> list[Event]:
        """Return a row's steps behind a revision, oldest first."""

    def list(self, *, limit: int = 100) -> list[Any]:
        """List records in the machine's order."""


class Store(Protocol):
    """An open store."""

    def machine(self, machine: Machine) -> Rows:
        """Return the face of a machine."""


Opening: TypeAlias = Callable[[StoppedClock], AbstractContextManager[Store]]
"""Opens an empty store on a clock."""
