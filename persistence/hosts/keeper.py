"""The lease keeper: one background thread that renews all leases of a host."""

from __future__ import annotations

import logging
import math
import random
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from persistence.hosts.lease import Lease, LeasedRuns, LeaseTerms
from persistence.hosts.steady import steady_seconds
from statemachine.errors import CommitUnknown, StoreBusy, StoreCorrupt, StoreUnavailable
from statemachine.outcome import Reason, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from persistence import Claim

TROUBLE = (StoreBusy, StoreUnavailable, StoreCorrupt, CommitUnknown)
"""Database errors after which the same call may be tried again."""

_RETRIES_PER_PERIOD = 10
_log = logging.getLogger(__name__)


class _Kept:
    """A lease under renewal: when it is due, and whom to tell of its loss."""

    def __init__(self, lease: Lease, due_at: float, on_lost: Callable[[Lease], None]) -> None:
        self.lease = lease
        self.due_at = due_at
        self.on_lost = on_lost

    @property
    def next_at(self) -> float:
        return min(self.due_at, self.lease.deadline)


class LeaseKeeper:
    """Renews leases until they are let go, and says when one is lost.

    A refused renewal loses the lease at once; a database error is tried again, ten times a period,
    until the lease runs out. The thread starts with the first lease.

    Args:
        runs: `store.runs`.

        terms: Length and period; default a lease of 30 s, renewed every 10 s.

        now: The steady clock, in seconds.

        chance: Draws the jitter.

        in_background: False: no thread is started, the host calls `renew_due` itself.
    """

    def __init__(
        self,
        runs: LeasedRuns,
        terms: LeaseTerms | None = None,
        *,
        now: Callable[[], float] = steady_seconds,
        chance: random.Random | None = None,
        in_background: bool = True,
    ) -> None:
        self.terms = terms or LeaseTerms()
        self._runs = runs
        self._now = now
        self._chance = chance or random.Random()  # noqa: S311 - spreads load, keeps no secret
        self._kept: list[_Kept] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._in_background = in_background
        self._looks_at = -math.inf
        self._closed = False

    def lease(
        self, claim: Claim, *, sent_at: float, stopping: Callable[[], bool] = lambda: False
    ) -> Lease:
        """Return the lease of a claim.

        Args:
            claim: What a claiming call returned; its lease was as long as the terms say.

            sent_at: Steady seconds, read before that call was sent.

            stopping: Whether the host is stopping; the lease's `stop_requested`.
        """
        return Lease(self._runs, claim, sent_at, terms=self.terms, now=self._now, stopping=stopping)

    @contextmanager
    def keep(
        self, lease: Lease, *, on_lost: Callable[[Lease], None] | None = None
    ) -> Iterator[Lease]:
        """Renew the lease in the background until the block is left.

        Args:
            lease: Made by `lease()`.

            on_lost: Called once, from the keeper's thread, when the lease is lost; must not raise.
        """
        kept = _Kept(lease, self._now() + self._period(), on_lost or _ignore)
        with self._changed:
            self._kept.append(kept)
            if self._in_background:
                self._ensure_thread()
            if kept.next_at < self._looks_at:
                self._changed.notify()
        try:
            yield lease
        finally:
            self._drop(kept)

    def close(self) -> None:
        """End the thread; what is still kept runs out by itself. A later `keep` starts another."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def renew_due(self) -> float | None:
        """Renew what is due; return the seconds until the next is, None while nothing is kept."""
        for kept in self._due():
            self._renew(kept)
        return self._seconds_to_next()

    def _seconds_to_next(self) -> float | None:
        with self._changed:
            if not self._kept:
                return None
            return max(0.0, min(kept.next_at for kept in self._kept) - self._now())

    def _due(self) -> list[_Kept]:
        now = self._now()
        with self._changed:
            due = [kept for kept in self._kept if kept.next_at <= now or not kept.lease.held]
        return sorted(due, key=lambda kept: kept.lease.deadline)

    def _renew(self, kept: _Kept) -> None:
        lease = kept.lease
        sent_at = self._now()
        if not lease.held:
            self._lose(kept, "it ran out unrenewed")
            return
        try:
            answer = self._runs.renew(lease.claim, lease=self.terms.lease)
        except TROUBLE as error:
            _log.warning("renewal of %s failed: %s", lease.run_id, error)
            self._retry(kept)
            return
        if isinstance(answer, Refused):
            if answer.reason is Reason.RACED:
                self._retry(kept)
            elif lease.settling:
                self._drop(kept)
            else:
                self._lose(kept, str(answer))
        elif lease.extend(answer, sent_at):
            kept.due_at = sent_at + self._period()
        else:
            self._lose(kept, "its renewal was answered too late")

    def _retry(self, kept: _Kept) -> None:
        kept.due_at = self._now() + self._period() / _RETRIES_PER_PERIOD

    def _lose(self, kept: _Kept, why: str) -> None:
        kept.lease.lose()
        if self._drop(kept):
            _log.warning("lease of %s is lost: %s", kept.lease.run_id, why)
            kept.on_lost(kept.lease)

    def _drop(self, kept: _Kept) -> bool:
        """Stop renewing; return whether it was still kept."""
        with self._changed:
            if kept not in self._kept:
                return False
            self._kept.remove(kept)
            return True

    def _period(self) -> float:
        """Return the seconds to the next renewal."""
        jitter = self.terms.jitter * self._chance.uniform(-1, 1)
        return self.terms.renew_every.total_seconds() * (1 + jitter)

    def _is_closed(self) -> bool:
        return self._closed

    def _ensure_thread(self) -> None:
        if self._thread is None or self._closed or not self._thread.is_alive():
            self._closed = False
            self._thread = threading.Thread(
                target=self._renew_until_closed, name="sqlatch-lease-keeper", daemon=True
            )
            self._thread.start()

    def _renew_until_closed(self) -> None:
        while not self._is_closed():
            self.renew_due()
            with self._changed:
                # Asked again, under the lock: a lease may have come since.
                seconds = self._seconds_to_next()
                if not self._is_closed() and seconds != 0:
                    # A lease that is due later wakes nobody: most have ended by then.
                    self._looks_at = math.inf if seconds is None else self._now() + seconds
                    self._changed.wait(seconds)
                    self._looks_at = -math.inf


def _ignore(lease: Lease) -> None:
    """Nobody is to be told."""
