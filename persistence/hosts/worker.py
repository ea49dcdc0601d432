"""The detached host: claims runs, has their handlers carry them out, and reaps what was lost."""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import TYPE_CHECKING

from persistence.hosts.at_work import THIS_PROCESS, AtWork
from persistence.hosts.carry_out import Carrier
from persistence.hosts.inline import InlineExecutor
from persistence.hosts.keeper import LeaseKeeper
from persistence.hosts.lease import Lease, LeaseTerms
from persistence.hosts.pace import Pace
from persistence.hosts.remaining import remains
from persistence.hosts.steady import steady_seconds
from statemachine.errors import CommitUnknown, InvalidArgument, StoreBusy, StoreUnavailable
from statemachine.outcome import Reason, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from persistence import Claim, Store
    from persistence.hosts.verdict import Handler
    from statemachine.machines.run_launch import Run

MAX_PASSED_OVER = 900
"""How many runs without a handler here a worker remembers, so as not to claim them again."""

_FULL_S = 0.2
_LOCKED_S = 0.05
_PASSING = (StoreBusy, StoreUnavailable, CommitUnknown)
_log = logging.getLogger(__name__)


class Worker:
    """Claims runs and has them carried out, at most `concurrency` at a time.

    With a concurrency of 1, handlers run in the thread that called `run`; else in threads of their
    own. A run whose workflow has no handler here is handed back (parked, available again after one
    poll) for other workers, and this one does not claim it again. `reap_due` is called at each
    poll.

    Args:
        store: An open store; its project is what the worker serves.

        handlers: By workflow name.

        runner_id: Name of this worker, unique among all that are running; a key.

        lease: Length of a lease.

        renew_every: From one renewal to the next.

        poll: Longest wait before it looks for work again, where nothing wakes it earlier.

        jitter: By which share a renewal or a poll may come earlier or later.

        concurrency: Most runs at a time.

        patience: How long the database may be out of reach before the worker gives up.

        fallback: Finds the handler of any other run; None where there is none.

        on_end: Told, in `run`'s thread, of each run that was ended, parked or reaped here.

        at_work: Which runs this process works on.

        now: The steady clock, in seconds.

        rest: Waits at most the given seconds; returns whether the store has changed.

        sleep: Waits the given seconds.

        chance: Draws the jitter.

    Raises:
        InvalidArgument: `concurrency` is below 1, or the lease leaves no room for one missed
            renewal.
    """

    def __init__(
        self,
        store: Store,
        handlers: Mapping[str, Handler],
        *,
        runner_id: str,
        lease: timedelta = timedelta(seconds=30),
        renew_every: timedelta = timedelta(seconds=10),
        poll: timedelta = timedelta(seconds=3),
        jitter: float = 0.1,
        concurrency: int = 1,
        patience: timedelta = timedelta(minutes=5),
        fallback: Callable[[Run], Handler | None] | None = None,
        on_end: Callable[[Run], None] | None = None,
        at_work: AtWork = THIS_PROCESS,
        now: Callable[[], float] = steady_seconds,
        rest: Callable[[float], bool] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        chance: random.Random | None = None,
    ) -> None:
        if concurrency < 1:
            raise InvalidArgument("concurrency", "at least 1")
        terms = LeaseTerms(lease=lease, renew_every=renew_every, jitter=jitter)
        chance = chance or random.Random()  # noqa: S311 - spreads load, keeps no secret
        self._store = store
        self._handlers = handlers
        self._runner_id = runner_id
        self._concurrency = concurrency
        self._fallback = fallback
        self._on_end = on_end
        self._at_work = at_work
        self._now = now
        self._keeper = LeaseKeeper(store.runs, terms, now=now, chance=chance)
        self._poll = poll
        self._pace = Pace(
            poll,
            jitter,
            patience,
            now=now,
            rest=rest or (lambda s: store.wait_for_change(timedelta(seconds=max(s, 0.001)))),
            sleep=sleep,
            chance=chance,
        )
        self._carrier = Carrier(store.runs, sleep=sleep)
        self._passed_over: deque[str] = deque(maxlen=MAX_PASSED_OVER)
        self._active: list[Future[Run | None]] = []
        self._stopping = False
        self._leaving = False

    def stop(self) -> None:
        """Stop gracefully: claim nothing more, park what runs; may be called from anywhere.

        Each handler sees `lease.stop_requested`; `run` returns when all have returned. Renewals
        stop last.
        """
        self._stopping = True

    def run(self, *, until_empty: bool = False) -> None:
        """Work until stopped, or until nothing is left that this worker could ever take.

        It may be called again, but not after `stop`.

        Args:
            until_empty: Return when there is nothing to take, nothing that another holds and may
                lose, and nothing that falls due within two polls.

        Raises:
            SqlatchError: The database is damaged, or was out of reach for longer than the
                patience.
        """
        self._leaving = False
        with self._slots() as slots:
            try:
                while not self._stopping:
                    try:
                        if not self._look(slots, until_empty=until_empty):
                            break
                    except _PASSING as error:
                        _log.warning("%s", error)
                        self._pace.bear(error)
            finally:
                self._leaving = True
                wait(self._active)
                self._keeper.close()
        self._collect()

    def _slots(self) -> Executor:
        if self._concurrency == 1:
            return InlineExecutor()
        return ThreadPoolExecutor(self._concurrency, thread_name_prefix="sqlatch-worker")

    def _look(self, slots: Executor, *, until_empty: bool) -> bool:
        """Reap, claim and wait, each once; return False when nothing is left to wait for."""
        self._collect()
        if self._pace.due():
            for run in self._store.runs.reap_due():
                self._tell(run)
        if len(self._active) >= self._concurrency:
            wait(self._active, _FULL_S, FIRST_COMPLETED)
            return True
        sent_at = self._now()
        answer = self._store.runs.claim_next(
            self._runner_id,
            self._keeper.terms.lease,
            exclude=(*self._at_work.run_ids(), *self._passed_over),
        )
        self._pace.all_is_well()
        if not isinstance(answer, Refused):
            self._take(answer, sent_at, slots)
            return True
        if answer.reason is Reason.LOCKED:
            self._pace.idle(self._is_stopping, at_most_s=_LOCKED_S)
            return True
        if until_empty and not self._active and not self._remains():
            return False
        self._pace.idle(lambda: self._stopping or any(future.done() for future in self._active))
        return True

    def _take(self, claim: Claim, sent_at: float, slots: Executor) -> None:
        lease = self._keeper.lease(claim, sent_at=sent_at, stopping=self._is_stopping)
        handler = self._handler(claim.run)
        if handler is None:
            self._passed_over.append(claim.run_id)
        if handler is None or not self._at_work.enter(claim.run_id):
            self._store.runs.park(claim, available_at=self._store.clock.now() + self._poll)
            return
        self._active.append(slots.submit(self._carry_out, lease, handler))

    def _carry_out(self, lease: Lease, handler: Handler) -> Run | None:
        try:
            with self._keeper.keep(lease):
                return self._carrier.carry_out(lease, handler)
        finally:
            self._at_work.leave(lease.run_id)

    def _handler(self, run: Run) -> Handler | None:
        handler = self._handlers.get(run.workflow)
        if handler is None and self._fallback is not None:
            return self._fallback(run)
        return handler

    def _remains(self) -> bool:
        return remains(
            self._store, lambda run: self._handler(run) is not None, within=2 * self._poll
        )

    def _collect(self) -> None:
        """Tell of what has ended; a handler's interrupt is raised here."""
        ended = [future for future in self._active if future.done()]
        self._active = [future for future in self._active if not future.done()]
        for future in ended:
            self._tell(future.result())

    def _tell(self, run: Run | None) -> None:
        if run is not None and self._on_end is not None:
            self._on_end(run)

    def _is_stopping(self) -> bool:
        return self._stopping or self._leaving
