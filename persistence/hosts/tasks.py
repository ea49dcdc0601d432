"""What a worker has to do: claimed runs, each with its handler, kept until they have ended."""

from __future__ import annotations

import logging
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING

from attrs import field, frozen

from statemachine.errors import CommitUnknown, StoreBusy, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from persistence import Claim, Store
    from persistence.hosts.at_work import AtWork
    from persistence.hosts.keeper import LeaseKeeper
    from persistence.hosts.lease import Lease
    from persistence.hosts.short_runs import ShortRuns
    from persistence.hosts.verdict import Handler, Verdict
    from statemachine.kinds import JsonValue
    from statemachine.machines.run_launch import Run

MAX_PASSED_OVER = 900
"""How many runs without a handler here a worker remembers, so as not to claim them again."""

MAX_EXCLUDED = 1_000
PASSING = (StoreBusy, StoreUnavailable, CommitUnknown)
"""Database trouble that a worker bears with for a while."""

_log = logging.getLogger(__name__)


@frozen
class Task:
    """A claimed run.

    Attributes:
        lease: Renewed until `close`.

        handler: Carries it out.

        close: Ends that; may be called again.
    """

    lease: Lease
    handler: Handler
    close: Callable[[], None]


@frozen(kw_only=True)
class Tasks:
    """Makes tasks of claims.

    Attributes:
        store: Where the runs are.

        handlers: By workflow name.

        fallback: Finds the handler of any other run.

        keeper: Renews the leases.

        at_work: Which runs this process works on.

        short: Told how long each handler took.

        back_after: When a run without a handler here is available again.

        now: The steady clock, in seconds.

        stopping: Whether the worker is stopping.
    """

    store: Store
    handlers: Mapping[str, Handler]
    fallback: Callable[[Run], Handler | None] | None
    keeper: LeaseKeeper
    at_work: AtWork
    short: ShortRuns
    back_after: timedelta
    now: Callable[[], float]
    stopping: Callable[[], bool]
    _passed_over: deque[str] = field(factory=lambda: deque(maxlen=MAX_PASSED_OVER), init=False)

    def excluded(self) -> tuple[str, ...]:
        """Return the runs that are not to be claimed: at work here, or without a handler."""
        return (*self.at_work.run_ids(), *reversed(self._passed_over))[:MAX_EXCLUDED]

    def serves(self, run: Run) -> bool:
        """Tell whether the run has a handler here."""
        return self._handler(run) is not None

    def of(self, claim: Claim, sent_at: float) -> Task | None:
        """Keep a claim's lease from now on; hand it back where it has no handler here.

        Args:
            claim: Just taken.

            sent_at: Steady seconds, read before it was asked for.
        """
        handler = self._handler(claim.run)
        if handler is None:
            self._passed_over.append(claim.run_id)
        if handler is None or not self.at_work.enter(claim.run_id):
            self._hand_back(claim)
            return None
        lease = self.keeper.lease(claim, sent_at=sent_at, stopping=self.stopping)
        kept = ExitStack()
        kept.callback(self.at_work.leave, claim.run_id)
        kept.enter_context(self.keeper.keep(lease))
        return Task(lease, self._timed(handler), kept.close)

    def _hand_back(self, claim: Claim) -> None:
        try:
            self.store.runs.park(claim, available_at=self.store.clock.now() + self.back_after)
        except PASSING as error:
            # Its lease runs out then.
            _log.warning("%s", error)

    def _handler(self, run: Run) -> Handler | None:
        handler = self.handlers.get(run.workflow)
        if handler is None and self.fallback is not None:
            return self.fallback(run)
        return handler

    def _timed(self, handler: Handler) -> Handler:
        def timed(run: Run, lease: Lease) -> JsonValue | Verdict:
            began = self.now()
            try:
                return handler(run, lease)
            finally:
                self.short.note(self.now() - began)

        return timed
