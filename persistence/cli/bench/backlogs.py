"""What taking the next run costs with much in the table: queued, or final and kept."""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from persistence.cli.bench.figures import Figure, times
from persistence.cli.bench.places import scratch
from persistence.cli.bench.works import ring

if TYPE_CHECKING:
    from collections.abc import Callable

    from persistence.cli.bench.contenders import Contender
    from persistence.cli.bench.works import Ring

LITTLE = 1_000
_FILL = 1_000


def claims(
    db: str, *, rounds: int, runs: int, backlog: int, progress: Callable[[str], None]
) -> list[Figure]:
    """Measure `claim_next` in three databases in turn, each with its own load.

    Args:
        db: Where they are made.

        rounds: How often each of both takes from each of them.

        runs: How many runs are taken each time; as many are added first.

        backlog: How many are queued in the second, and kept in the third.

        progress: Told what is being filled.
    """
    queued, kept = f"claim_next, {backlog:,} queued", f"claim_next, {backlog:,} final kept"
    loads = (
        (f"claim_next, {LITTLE:,} queued", LITTLE, 0),
        (queued, backlog, 0),
        (kept, LITTLE, backlog),
    )
    with ExitStack() as places:
        rings: list[tuple[str, Ring]] = []
        for name, waiting, final in loads:
            progress(f"filling for {name}")
            both = places.enter_context(ring(places.enter_context(scratch(db))))
            _fill(both, final, final=True)
            _fill(both, waiting)
            both.twin.line.settle()
            rings.append((name, both))
        progress("claim_next")
        taken: dict[tuple[str, bool], list[float]] = {}
        for number in range(rounds + 1):
            for name, both in rings:
                for ours in (True, False) if number % 2 else (False, True):
                    seconds = _claims(both, both.ours if ours else both.twin, runs)
                    if number:
                        taken.setdefault((name, ours), []).extend(seconds)
    least = statistics.median(taken[loads[0][0], True])
    return [
        times(name, taken[name, True], taken[name, False], least=least if number else None)
        for number, (name, _) in enumerate(rings)
    ]


def _claims(both: Ring, contender: Contender, runs: int) -> list[float]:
    """Add runs, take as many, and finish them: the load stays what it was."""
    both.twin.fill(both.fresh(runs))
    seconds = []
    held = []
    for _ in range(runs):
        began = time.perf_counter()
        one = contender.take()
        seconds.append(time.perf_counter() - began)
        held.append(one)
    for one in held:
        contender.end(one)
    return seconds


def _fill(both: Ring, count: int, *, final: bool = False) -> None:
    for start in range(0, count, _FILL):
        both.twin.fill(both.fresh(min(_FILL, count - start)), final=final)
