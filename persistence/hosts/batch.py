"""Short runs that are begun together, carried out one after the other, and ended together."""

from __future__ import annotations

import copy
import logging
import threading
import uuid
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from attrs import evolve

from persistence.hosts.carry_out import verdict_of
from persistence.hosts.verdict import Done, Park
from persistence.stores.run_holding import Finish
from statemachine.errors import InvalidArgument
from statemachine.machines.run_launch import RUN_LAUNCH, Run
from statemachine.outcome import Refused
from statemachine.row_call import RowCall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from persistence import Store
    from persistence.hosts.carry_out import Carrier
    from persistence.hosts.lease import Lease
    from persistence.hosts.tasks import Task
    from persistence.hosts.verdict import Verdict
    from statemachine.kinds import JsonValue

Alarm: TypeAlias = "Callable[[float, Callable[[], None]], Callable[[], None]]"
"""Calls back from another thread after so many seconds; answers what calls it off."""

AT_MOST_S = 0.25
"""Seconds that a batch lasts at most, but for the handler that is at work then."""

_log = logging.getLogger(__name__)


def timer(seconds: float, call: Callable[[], None]) -> Callable[[], None]:
    """Call back after so many seconds."""
    started = threading.Timer(seconds, call)
    started.daemon = True
    started.start()
    return started.cancel


class Batch:
    """Claimed runs that are expected to be short.

    To everybody else it is as if each handler took as long as the batch: its run is running from
    the batch's begin and ends with it. So the batch is bounded: after a quarter of a second (or of
    the lease, where that is shorter) what has ended is finished and what has not begun is given
    back, at its old place in the queue, even while a handler is still at work.

    A process that is killed leaves its whole batch behind, ended or not. So that much work may be
    done once more, and each of its runs has used up an attempt.

    Args:
        store: Where the runs are.

        carrier: Ends single runs.

        tasks: The runs, in their order.

        now: The steady clock, in seconds.

        alarm: Cuts it short while a handler is at work.
    """

    def __init__(
        self,
        store: Store,
        carrier: Carrier,
        tasks: Sequence[Task],
        *,
        now: Callable[[], float],
        alarm: Alarm = timer,
    ) -> None:
        self._runs = store.runs
        self._rows = store.machine(RUN_LAUNCH)
        self._carrier = carrier
        self._tasks = tuple(tasks)
        self._at_most_s = min(AT_MOST_S, tasks[0].lease.terms.lease.total_seconds() / 4)
        self._now = now
        self._alarm = alarm
        self._lock = threading.Lock()
        self._cutting = threading.Lock()
        self._waiting = deque(tasks)
        self._ended: list[tuple[Task, Done]] = []
        self._answers: list[Run] = []
        self._trouble: Exception | None = None
        self.was_cut = False

    def carry_out(self) -> list[Run]:
        """Begin all, hand each to its handler, and end all.

        Returns:
            Those that were ended, parked or given back here.
        """
        try:
            begun = {} if self._stops() else self._begin()
            until = self._now() + self._at_most_s
            call_off = self._alarm(self._at_most_s, self._cut_early)
            try:
                while begun and (task := self._next()) is not None:
                    self._carry_out(task, begun[task.lease.run_id])
                    if self._now() >= until or self._stops():
                        break
            finally:
                call_off()
                self._cut()
        finally:
            for task in self._tasks:
                task.close()
        if self._trouble is not None:
            raise self._trouble
        return self._answers

    def _stops(self) -> bool:
        return self._tasks[0].lease.stop_requested

    def _begin(self) -> dict[str, Run]:
        """Mark all as running; those that were called off since are let go."""
        calls = [_begin_of(task.lease) for task in self._tasks]
        leases = [task.lease for task in self._tasks]
        answers = self._carrier.retried(
            leases, lambda: self._rows.apply_many("mark_running", calls)
        )
        begun: dict[str, Run] = {}
        for task, answer in zip(self._tasks, answers or (), strict=answers is not None):
            if isinstance(answer, Refused):
                _log.info("%s", answer)
            else:
                begun[task.lease.run_id] = answer
        with self._lock:
            for task in self._tasks:
                if task.lease.run_id not in begun:
                    self._waiting.remove(task)
                    task.close()
        return begun

    def _next(self) -> Task | None:
        """Return the next task whose lease is held still."""
        with self._lock:
            while self._waiting:
                task = self._waiting.popleft()
                if task.lease.held:
                    return task
                task.close()
        return None

    def _carry_out(self, task: Task, run: Run) -> None:
        try:
            verdict = verdict_of(task.handler, run, task.lease)
        except (KeyboardInterrupt, SystemExit):
            self._conclude(task, Park())
            raise
        if isinstance(verdict, Done):
            with self._lock:
                self._ended.append((task, evolve(verdict, result=_kept(verdict.result))))
        elif verdict is not None:
            self._conclude(task, verdict)
        else:
            task.close()

    def _conclude(self, task: Task, verdict: Verdict) -> None:
        run = self._carrier.conclude(task.lease, verdict)
        task.close()
        if run is not None:
            self._answers.append(run)

    def _cut_early(self) -> None:
        """End what has ended and give back what has not begun, beside the handler at work."""
        with self._cutting:
            # Within the lock: the last cut waits for this one, and looks for trouble after it.
            try:
                self._end_and_give_back()
            except Exception as error:  # noqa: BLE001 - raised by the thread of `carry_out`
                self._trouble = error

    def _cut(self) -> None:
        with self._cutting:
            self._end_and_give_back()

    def _end_and_give_back(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, []
            waiting, self._waiting = [*self._waiting], deque()
        self.was_cut = self.was_cut or bool(waiting)
        self._finish(ended)
        for task in waiting:
            # It keeps its place in the queue: it was as good as never taken.
            self._conclude(task, Park(available_at=task.lease.claim.run.available_at))

    def _finish(self, ended: list[tuple[Task, Done]]) -> None:
        """Finish runs in one transaction; one by one where that refuses a result."""
        leases = [task.lease for task, _ in ended]
        for lease in leases:
            lease.settle()
        ends = [
            Finish(task.lease.claim, done.outcome, done.result, uuid.uuid4().hex)
            for task, done in ended
        ]
        try:
            answers = self._carrier.retried(leases, lambda: self._runs.finish_many(ends))
        except InvalidArgument:
            for task, done in ended:
                self._conclude(task, done)
            return
        for task, _ in ended:
            task.close()
        for answer in answers or ():
            if isinstance(answer, Refused):
                _log.info("%s", answer)
            else:
                self._answers.append(answer)


def _kept(result: JsonValue) -> JsonValue:
    """Return what a handler answered as it is now: the next handler may change the same list."""
    if not isinstance(result, list | dict):
        return result
    try:
        return copy.deepcopy(result)
    except Exception:  # noqa: BLE001 - of what cannot be copied the store says what is wrong
        return result


def _begin_of(lease: Lease) -> RowCall:
    values = {"token": lease.token, "generation": lease.generation}
    return RowCall(lease.run_id, values, uuid.uuid4().hex)
