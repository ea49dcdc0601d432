"""What the processes of a race do; each opens the database itself, as a host would.

The functions run in processes that were spawned for them: two that meet before each round, or a
crowd of processes and threads that starts at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from typing import Any, TypeAlias, TypeVar

from attrs import frozen

from persistence import Claim, ManualClock, Store, open_store
from statemachine import Reason, Refused, SqlatchError

PROCESSES, THREADS = 8, 4
PATIENCE = 60.0
"""Seconds until a race is given up, so that a racer that failed does not hold the others."""
LEASE = timedelta(hours=1)

_T = TypeVar("_T")
Round: TypeAlias = Callable[[Store, Any], object]


@frozen
class _Gates:
    """Where racers meet: two before each round, or the whole crowd once."""

    pair: Barrier
    crowd: Barrier


_gates: list[_Gates] = []


def _enter(gates: _Gates) -> None:
    _gates.append(gates)


@frozen
class Racers:
    """A pool of processes that race against each other."""

    _pool: ProcessPoolExecutor

    def pair(
        self,
        url: str,
        rounds: tuple[Round, Round],
        items: Sequence[object],
        *,
        at: tuple[datetime | None, datetime | None] = (None, None),
    ) -> list[tuple[Any, Any]]:
        """Let two processes, each on its own clock, do their part with each item at once.

        Returns:
            What the two were answered, for each item.
        """
        parts = [
            self._pool.submit(_rounds, url, part, items, clock)
            for part, clock in zip(rounds, at, strict=True)
        ]
        first, second = (part.result(PATIENCE) for part in parts)
        return list(zip(first, second, strict=True))

    def crowd(self, url: str, part: Callable[[Store, str], list[_T]]) -> list[_T]:
        """Let `THREADS` runners in each of `PROCESSES` begin at once; return all their answers."""
        parts = [self._pool.submit(_threads, url, part, n) for n in range(PROCESSES)]
        return [answer for one in parts for answer in one.result(PATIENCE)]


@contextmanager
def racers() -> Iterator[Racers]:
    """Start the processes, and end them."""
    context = get_context("spawn")
    gates = _Gates(context.Barrier(2), context.Barrier(PROCESSES * THREADS))
    with ProcessPoolExecutor(PROCESSES, context, _enter, (gates,)) as pool:
        yield Racers(pool)


def _rounds(url: str, part: Round, items: Sequence[object], at: datetime | None) -> list[object]:
    gate = _gates[0].pair
    with open_store(url, clock=None if at is None else ManualClock(at)) as store:
        answers = []
        for item in items:
            gate.wait(PATIENCE)
            answers.append(part(store, item))
        return answers


def _threads(url: str, part: Callable[[Store, str], list[_T]], number: int) -> list[_T]:
    answers: list[_T] = []
    with open_store(url) as store:

        def run(runner: str) -> None:
            _gates[0].crowd.wait(PATIENCE)
            answers.extend(part(store, runner))

        threads = [threading.Thread(target=run, args=(f"r{number}.{n}",)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return answers


def drain(store: Store, runner: str) -> list[Claim | str]:
    """Claim until nothing is left; answer the claims, and whatever error escaped."""
    claims: list[Claim | str] = []
    while True:
        try:
            claim = store.runs.claim_next(runner, LEASE)
        except SqlatchError as error:
            claims.append(repr(error))
            continue
        if isinstance(claim, Claim):
            claims.append(claim)
        elif claim.reason is Reason.NOTHING:
            return claims


def cancel(store: Store, run_id: str) -> object:
    """Call the run off."""
    return store.runs.cancel(run_id)


def claim_and_start(store: Store, run_id: str) -> object:
    """Take the run and begin it; answer the last step's outcome."""
    claim = store.runs.claim(run_id, runner_id="starter", lease=LEASE)
    return store.runs.mark_running(claim) if isinstance(claim, Claim) else claim


def finish(store: Store, claim: Claim) -> object:
    """End the run as done."""
    return store.runs.finish(claim, result={"by": "holder"})


def reap(store: Store, claim: Claim) -> object:
    """Fail the run whose lease ran out."""
    return store.runs.reap(claim.run_id)


def claim_as_first(store: Store, run_id: str) -> object:
    """Take the run as one runner."""
    return store.runs.claim(run_id, runner_id="first", lease=LEASE)


def claim_as_second(store: Store, run_id: str) -> object:
    """Take the run as another."""
    return store.runs.claim(run_id, runner_id="second", lease=LEASE)


def wait_for_child(store: Store, pair: tuple[Claim, Claim]) -> object:
    """Lay the first run aside until the second has ended; look once more when that is done."""
    parent, child = pair
    if _ended(store, child.run_id):
        return "not needed"
    parked = store.runs.park(parent, waiting=True)
    return store.runs.wake(parent.run_id) if _ended(store, child.run_id) else parked


def _ended(store: Store, run_id: str) -> bool:
    run = store.runs.get(run_id)
    return run is not None and run.finished_at is not None


def end_for_parent(store: Store, pair: tuple[Claim, Claim]) -> object:
    """End the second run, then wake the first, which may wait for it."""
    parent, child = pair
    assert store.runs.finish(child)
    return store.runs.wake(parent.run_id)


def pause(store: Store, run_id: str) -> object:
    """Pause the run under a call id that both racers use."""
    return store.runs.pause(run_id, call=f"pause {run_id}")


def claim_next_once(store: Store, call: str) -> Claim | Refused:
    """Take the next run under a call id that both racers use, with a token of one's own."""
    return store.runs.claim_next("either", LEASE, call=call)
