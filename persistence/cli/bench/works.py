"""What one process does: whole lifecycles, renewals, batches; a round each, alternated."""

from __future__ import annotations

import itertools
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from attrs import frozen

from persistence.cli.bench.contenders import Contender, MeasuredWrong, Ours
from persistence.cli.bench.figures import Figure, rates
from persistence.cli.bench.twin import Twin
from statemachine.machines import RUN_LAUNCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from persistence.cli.bench.places import Place

STEPS = 4
"""Durable steps of a lifecycle: reserve, take, start, finish."""

BATCH = 50


@frozen
class Ring:
    """A place with both contenders in it.

    Attributes:
        ours: The store.

        twin: The hand-written code.

        names: Run ids that were not used yet.
    """

    ours: Ours
    twin: Twin
    names: Iterator[str]

    def fresh(self, count: int) -> list[str]:
        """Return run ids that were not used yet."""
        return list(itertools.islice(self.names, count))


@contextmanager
def ring(place: Place, prefix: str = "r") -> Iterator[Ring]:
    """Open both contenders in a place, whose layout is made."""
    names = (f"{prefix}{number:012}" for number in itertools.count())
    with place.store() as store:
        program = store.engine.program(RUN_LAUNCH)
        with closing(Twin.at(place, program)) as twin:
            yield Ring(Ours(store), twin, names)


def duel(
    both: Ring, rounds: int, work: Callable[[Contender], float]
) -> tuple[Sequence[float], Sequence[float]]:
    """Do a work in rounds, each of both, first the one and then the other; return what it gave.

    One round more is done first, and forgotten.
    """
    ours: list[float] = []
    hand: list[float] = []
    for number in range(rounds + 1):
        turns: list[tuple[Contender, list[float]]] = [(both.ours, ours), (both.twin, hand)]
        for contender, kept in turns if number % 2 else reversed(turns):
            both.twin.line.checkpoint()
            kept.append(work(contender))
    return ours[1:], hand[1:]


def lifecycles(place: Place, *, rounds: int, runs: int, target: float | None) -> Figure:
    """Measure whole lifecycles, one after another."""
    with ring(place) as both:

        def work(contender: Contender) -> float:
            names = both.fresh(runs)
            began = time.perf_counter()
            for run_id in names:
                contender.reserve(run_id)
                held = contender.take()
                contender.start(held)
                contender.end(held)
            return STEPS * runs / (time.perf_counter() - began)

        ours, hand = duel(both, rounds, work)
    return rates("lifecycle of 4 steps", "transitions/s", ours, hand, target)


def renewals(place: Place, *, rounds: int, runs: int, target: float | None) -> Figure:
    """Measure renewals of a lease that is held."""
    with ring(place) as both:

        def work(contender: Contender) -> float:
            both.twin.fill(both.fresh(1))
            held = contender.take()
            began = time.perf_counter()
            for _ in range(runs):
                contender.renew(held)
            taken = time.perf_counter() - began
            contender.end(held)
            return runs / taken

        ours, hand = duel(both, rounds, work)
    return rates("renewals", "renewals/s", ours, hand, target)


def batches(place: Place, *, rounds: int, runs: int, target: float | None) -> Figure:
    """Measure a drain in batches of `BATCH`: taken in one transaction, finished in another."""
    with ring(place) as both:

        def work(contender: Contender) -> float:
            both.twin.fill(both.fresh(runs))
            done = 0
            began = time.perf_counter()
            while held := contender.take_many(BATCH):
                contender.end_many(held)
                done += len(held)
            taken = time.perf_counter() - began
            if done != runs:
                raise MeasuredWrong(f"{done} of {runs} runs were drained")
            return runs / taken

        ours, hand = duel(both, rounds, work)
    return rates(f"drain in batches of {BATCH}", "runs/s", ours, hand, target)
