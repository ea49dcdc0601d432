"""Several processes that empty one queue."""

from __future__ import annotations

import multiprocessing
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from persistence.cli.bench.contenders import Contender, MeasuredWrong
from persistence.cli.bench.figures import Figure, rates
from persistence.cli.bench.works import ring

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

    from persistence.cli.bench.places import Place

_ANSWER_S = 600.0


def drains(place: Place, *, rounds: int, runs: int, processes: int, target: float | None) -> Figure:
    """Measure how fast processes empty a queue: each takes, starts and finishes one by one."""
    ours: list[float] = []
    hand: list[float] = []
    with ring(place) as both, _crew(place, processes) as crew:
        for number in range(rounds + 1):
            for mine in (True, False) if number % 2 else (False, True):
                both.twin.fill(both.fresh(runs))
                both.twin.line.checkpoint()
                (ours if mine else hand).append(_drain(crew, runs, mine=mine))
    work = f"drain, {processes} processes"
    return rates(work, "runs/s", ours[1:], hand[1:], target)


def _drain(crew: Sequence[Connection], runs: int, *, mine: bool) -> float:
    began = time.perf_counter()
    for worker in crew:
        worker.send(mine)
    done = sum(_answer(worker) for worker in crew)
    taken = time.perf_counter() - began
    if done != runs:
        raise MeasuredWrong(f"{done} of {runs} runs were drained")
    return runs / taken


def _answer(worker: Connection) -> int:
    if not worker.poll(_ANSWER_S):
        raise MeasuredWrong("a process does not answer")
    return int(worker.recv())


@contextmanager
def _crew(place: Place, processes: int) -> Iterator[Sequence[Connection]]:
    """Start processes that are ready; they leave when the connection ends."""
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(processes)]
    crew = [context.Process(target=_work, args=(place, theirs)) for _, theirs in pipes]
    for process in crew:
        process.start()
    for _, theirs in pipes:
        theirs.close()
    lines = [line for line, _ in pipes]
    try:
        for line in lines:
            _answer(line)
        yield lines
    finally:
        for line in lines:
            line.close()
        for process in crew:
            process.join()


def _work(place: Place, line: Connection) -> None:
    with closing(line), ring(place) as both:
        line.send(0)
        while True:
            try:
                mine = line.recv()
            except EOFError:
                return
            line.send(_emptied(both.ours if mine else both.twin))


def _emptied(contender: Contender) -> int:
    done = 0
    while held := contender.take():
        contender.start(held)
        contender.end(held)
        done += 1
    return done
