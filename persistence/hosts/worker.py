"""The detached host: claims runs, has their handlers carry them out, and reaps what was lost."""

from __future__ import annotations

import logging
import random
import time
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import TYPE_CHECKING

from persistence.hosts.at_work import THIS_PROCESS, AtWork
from persistence.hosts.batch import Alarm, Batch, timer
from persistence.hosts.carry_out import Carrier
from persistence.hosts.inline import InlineExecutor
from persistence.hosts.keeper import LeaseKeeper
from persistence.hosts.lease import LeaseTerms
from persistence.hosts.pace import Pace
from persistence.hosts.remaining import remains
from persistence.hosts.short_runs import ShortRuns
from persistence.hosts.steady import steady_seconds
from persistence.hosts.taken_together import may_be_together, take_more
from persistence.hosts.tasks import PASSING, Task, Tasks
from persistence.stores.run_claims import MAX_CLAIMED
from statemachine.errors import InvalidArgument
from statemachine.outcome import Reason, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from persistence import Claim, Store
    from persistence.hosts.verdict import Handler
    from statemachine.machines.run_launch import Run

MAX_TOGETHER = 50
"""Most runs of a batch."""

_FULL_S = 0.2
_LOCKED_S = 0.05
_log = logging.getLogger(__name__)


class Worker:
    """Claims runs and has them carried out, at most `concurrency` at a time.

    With a concurrency of 1, handlers run in the thread that called `run`; else in threads of their
    own. A run whose workflow has no handler here is handed back (parked, available again after one
    poll) for other workers, and this one does not claim it again. `reap_due` is called at each
    poll.

    While runs are short, it takes, begins and ends several at a time, as `Batch` says; a log line
    says when that begins and ends. Runs are short when eighteen of the last twenty took 5 ms or
    less in their handlers; then so many are taken as take 50 ms together, at most `together`. A
    batch begins with a `claim_next`, so that interactive runs have their turn; these, and runs that
    were lost before or have one attempt only, are carried out alone.

    Args:
        store: An open store; its project is what the worker serves.

        handlers: By workflow name.

        runner_id: Name of this worker, unique among all that are running; a key.

        lease: Length of a lease.

        renew_every: From one renewal to the next.

        poll: Longest wait before it looks for work again, where nothing wakes it earlier.

        jitter: By which share a renewal or a poll may come earlier or later.

        concurrency: Most runs, or batches, at a time.

        together: Most runs of a batch, 1 to 100; 1: no batches.

        patience: How long the database may be out of reach before the worker gives up.

        fallback: Finds the handler of any other run; None where there is none.

        on_end: Told, in `run`'s thread, of each run that was ended, parked or reaped here.

        at_work: Which runs this process works on.

        now: The steady clock, in seconds.

        rest: Waits at most the given seconds; returns whether the store has changed.

        sleep: Waits the given seconds.

        chance: Draws the jitter.

        alarm: Ends a batch whose time is up while a handler is at work.

    Raises:
        InvalidArgument: `concurrency` or `together` is out of its bounds, or the lease leaves no
            room for one missed renewal.
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
        together: int = MAX_TOGETHER,
        patience: timedelta = timedelta(minutes=5),
        fallback: Callable[[Run], Handler | None] | None = None,
        on_end: Callable[[Run], None] | None = None,
        at_work: AtWork = THIS_PROCESS,
        now: Callable[[], float] = steady_seconds,
        rest: Callable[[float], bool] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        chance: random.Random | None = None,
        alarm: Alarm = timer,
    ) -> None:
        if concurrency < 1:
            raise InvalidArgument("concurrency", "at least 1")
        if not 1 <= together <= MAX_CLAIMED:
            raise InvalidArgument("together", f"1 to {MAX_CLAIMED}")
        terms = LeaseTerms(lease=lease, renew_every=renew_every, jitter=jitter)
        chance = chance or random.Random()  # noqa: S311 - spreads load, keeps no secret
        self._store = store
        self._runner_id = runner_id
        self._concurrency = concurrency
        self._on_end = on_end
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
        self._alarm = alarm
        self._short = ShortRuns(together)
        self._batching = False
        self._tasks = Tasks(
            store=store,
            handlers=handlers,
            fallback=fallback,
            keeper=self._keeper,
            at_work=at_work,
            short=self._short,
            back_after=poll,
            now=now,
            stopping=self._is_stopping,
        )
        self._active: list[Future[list[Run]]] = []
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
                    except PASSING as error:
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
            self._tell(self._store.runs.reap_due())
        if len(self._active) >= self._concurrency:
            wait(self._active, _FULL_S, FIRST_COMPLETED)
            return True
        sent_at = self._now()
        answer = self._store.runs.claim_next(
            self._runner_id,
            self._keeper.terms.lease,
            exclude=self._tasks.excluded(),
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
        first = self._tasks.of(claim, sent_at)
        tasks = [] if first is None else [first]
        try:
            sent_at = self._now()
            for more in self._more(claim):
                task = self._tasks.of(more, sent_at)
                tasks += [] if task is None else [task]
        except BaseException:
            for task in tasks:
                task.close()
            raise
        if tasks:
            self._active.append(slots.submit(self._carry_out, tasks))

    def _more(self, lead: Claim) -> list[Claim]:
        """Take what makes a batch with a run that was just taken."""
        most = self._short.together()
        if most == 1 and self._batching:
            self._batching = False
            _log.info("worker %s: one run at a time again", self._runner_id)
        if most == 1 or self._stopping or not may_be_together(lead.run):
            return []
        lease, excluded = self._keeper.terms.lease, self._tasks.excluded()
        try:
            claims = take_more(
                self._store, self._runner_id, lease, limit=most - 1, exclude=excluded
            )
        except PASSING as error:
            _log.warning("%s", error)
            return []
        if claims is None:
            self._short.forget()
        elif claims and not self._batching:
            self._batching = True
            _log.info("worker %s: runs are short, up to %d at a time", self._runner_id, most)
        return claims or []

    def _carry_out(self, tasks: Sequence[Task]) -> list[Run]:
        if len(tasks) == 1:
            run = self._carrier.carry_out(tasks[0])
            return [] if run is None else [run]
        batch = Batch(self._store, self._carrier, tasks, now=self._now, alarm=self._alarm)
        runs = batch.carry_out()
        if batch.was_cut:
            self._short.forget()
        return runs

    def _remains(self) -> bool:
        return remains(self._store, self._tasks.serves, within=2 * self._poll)

    def _collect(self) -> None:
        """Tell of what has ended; a handler's interrupt is raised here."""
        ended = [future for future in self._active if future.done()]
        self._active = [future for future in self._active if not future.done()]
        for future in ended:
            self._tell(future.result())

    def _tell(self, runs: Sequence[Run]) -> None:
        if self._on_end is not None:
            for run in runs:
                self._on_end(run)

    def _is_stopping(self) -> bool:
        return self._stopping or self._leaving
