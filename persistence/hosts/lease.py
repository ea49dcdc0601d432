"""The lease that a claim gives its holder, with an answer of its own to "do I still hold it?"."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from attrs import frozen

from statemachine.errors import InvalidArgument, LeaseLost

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from persistence import Claim
    from statemachine.outcome import Refused

MARGIN = 0.1
"""Last share of a lease, in which no work may go on: ending the work takes its time too."""


class LeasedRuns(Protocol):
    """What a lease needs of `store.runs`."""

    def renew(self, claim: Claim, *, lease: timedelta) -> Claim | Refused:
        """Extend the claim, or say who holds it now."""
        ...

    def verify(self, claim: Claim) -> bool:
        """Tell whether the claim is held and live and the run not final."""
        ...


@frozen(kw_only=True)
class LeaseTerms:
    """How long a lease is, and how often it is renewed.

    Attributes:
        lease: Its length, counted from each renewal.

        renew_every: From one renewal to the next.

        jitter: By which share of `renew_every` a renewal may come earlier or later, below 1.

    Raises:
        InvalidArgument: One missed renewal would lose the lease.
    """

    lease: timedelta = timedelta(seconds=30)
    renew_every: timedelta = timedelta(seconds=10)
    jitter: float = 0.1

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.jitter < 1:
            raise InvalidArgument("jitter", "a share from 0 to below 1")
        if self.renew_every <= timedelta():
            raise InvalidArgument("renew_every", "a positive timedelta")
        if 2 * self.renew_every * (1 + self.jitter) >= self.lease * (1 - MARGIN):
            raise InvalidArgument(
                "renew_every",
                f"so short that a missed renewal can be made up within {1 - MARGIN:.0%} of the"
                f" lease: twice {self.renew_every} with a jitter of {self.jitter:.0%} is too"
                f" long for a lease of {self.lease}",
            )


class Lease:
    """A claim as its holder sees it while a keeper renews it.

    `held`, `cancel_requested` and `stop_requested` are answered locally, at no cost. Whoever sees
    `held` turn False stops the work and writes nothing more; it never turns True again.

    Args:
        runs: `store.runs`.

        claim: What the claiming call returned.

        sent_at: Steady seconds, read *before* that call was sent.

        terms: The lease's length, as it was asked for.

        now: The steady clock, in seconds.

        stopping: Whether its worker is stopping.
    """

    def __init__(
        self,
        runs: LeasedRuns,
        claim: Claim,
        sent_at: float,
        *,
        terms: LeaseTerms,
        now: Callable[[], float],
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.terms = terms
        self._runs = runs
        self._claim = claim
        self._deadline = sent_at + terms.lease.total_seconds()
        self._now = now
        self._lock = threading.Lock()
        self._lost = False
        self._settling = False
        self._stopping = stopping

    def __repr__(self) -> str:
        state = "lost" if self._lost else "held"
        return f"Lease({self.run_id!r}, generation={self.generation}, {state})"

    @property
    def claim(self) -> Claim:
        """The claim as last renewed: what holders' calls take."""
        return self._claim

    @property
    def run_id(self) -> str:
        """Id of the claimed run."""
        return self._claim.run_id

    @property
    def token(self) -> bytes:
        """The clear token; only in memory, never to be logged or stored."""
        return self._claim.token

    @property
    def generation(self) -> int:
        """Fencing generation, to be passed on to outside systems."""
        return self._claim.generation

    @property
    def expires_at(self) -> datetime:
        """When others may take it, as the database has it."""
        return self._claim.expires_at

    @property
    def deadline(self) -> float:
        """Steady seconds at which it stops being held unless it is renewed before."""
        return self._deadline

    @property
    def work_until(self) -> float:
        """Steady seconds at which all work under it must have ended, with time left to end it."""
        return self._deadline - MARGIN * self.terms.lease.total_seconds()

    @property
    def held(self) -> bool:
        """Whether it is surely still held; a stalled database never makes a dead lease look so."""
        with self._lock:
            self._lost = self._lost or self._now() >= self._deadline
            return not self._lost

    @property
    def cancel_requested(self) -> bool:
        """Whether a cancellation was requested, as of the last renewal."""
        return self._claim.run.cancel_requested_at is not None

    @property
    def stop_requested(self) -> bool:
        """Whether the worker is stopping: park as soon as the work allows."""
        return self._stopping()

    @property
    def settling(self) -> bool:
        """Whether the hold is being ended by its holder."""
        return self._settling

    def check(self) -> None:
        """Make sure of the lease, against the store: to be called before a consequential write.

        Raises:
            LeaseLost: It is not held any more; stop the work and write nothing more.
        """
        if not self.held or not self._runs.verify(self._claim):
            self.lose()
            raise LeaseLost(self.run_id, self.generation)

    def settle(self) -> None:
        """Announce that the next call ends the hold: a renewal refused after it is no loss."""
        self._settling = True

    def lose(self) -> None:
        """Mark it lost, for good."""
        with self._lock:
            self._lost = True

    def extend(self, claim: Claim, sent_at: float) -> bool:
        """Take a renewal's answer; return False where it came too late to count.

        Args:
            claim: What the renewal returned.

            sent_at: Steady seconds, read before it was sent.
        """
        with self._lock:
            now = self._now()
            self._lost = self._lost or now >= self._deadline
            if not self._lost:
                self._claim = claim
                self._deadline = sent_at + self.terms.lease.total_seconds()
                self._lost = now >= self._deadline
            return not self._lost
