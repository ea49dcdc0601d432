"""The two that are compared: the store, and what both of them can be asked to do."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from attrs import define

from persistence.stores.run_holding import Finish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from persistence.store import Store
    from persistence.stores.claims import Claim

LEASE = timedelta(hours=1)
"""Longer than anything that is measured: no lease runs out meanwhile."""

RUNNER = "bench"
MAX_ATTEMPTS = 3


class Contender(Protocol):
    """Does the work of a run queue; what it holds of a run is its own matter."""

    def reserve(self, run_id: str) -> None:
        """Queue a run."""

    def take(self) -> Any:
        """Take the next run; something false when there is none."""

    def start(self, held: Any) -> None:
        """Say that the run's work begins."""

    def end(self, held: Any) -> None:
        """Finish it with a result."""

    def renew(self, held: Any) -> None:
        """Extend its lease."""

    def take_many(self, limit: int) -> Sequence[Any]:
        """Take up to so many runs in one transaction."""

    def end_many(self, held: Sequence[Any]) -> None:
        """Finish them in one transaction."""

    def close(self) -> None:
        """Close its connection."""


class MeasuredWrong(AssertionError):
    """Something did not move that had to: what was measured is not the work."""


@define(eq=False)
class Ours:
    """The store, as a worker uses it."""

    store: Store

    def reserve(self, run_id: str) -> None:
        """Queue a run."""
        self.store.runs.reserve(
            run_id=run_id,
            workflow=RUNNER,
            source_ref="bench",
            source={},
            definition_digest="sha256:0",
            max_attempts=MAX_ATTEMPTS,
        )

    def take(self) -> Claim | None:
        """Take the next run."""
        claim = self.store.runs.claim_next(RUNNER, LEASE)
        return claim or None

    def start(self, held: Claim) -> None:
        """Mark it as running."""
        moved(self.store.runs.mark_running(held))

    def end(self, held: Claim) -> None:
        """Finish it."""
        moved(self.store.runs.finish(held, result={"ok": True}))

    def renew(self, held: Claim) -> None:
        """Extend its lease."""
        moved(self.store.runs.renew(held, lease=LEASE))

    def take_many(self, limit: int) -> Sequence[Claim]:
        """Take a batch."""
        return self.store.runs.claim_many(RUNNER, LEASE, limit=limit)

    def end_many(self, held: Sequence[Claim]) -> None:
        """Finish a batch."""
        ends = [Finish(claim, result={"ok": True}) for claim in held]
        moved(all(self.store.runs.finish_many(ends)))

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def moved(answer: object) -> None:
    """Make sure that a call did its work.

    Raises:
        MeasuredWrong: It did not.
    """
    if not answer:
        raise MeasuredWrong(str(answer))
