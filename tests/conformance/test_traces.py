"""Recorded traces of an independent implementation, replayed through the public API."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import psycopg
import pytest

from persistence import Store, open_store
from tests.conformance import traces
from tests.conformance.conftest import Figures
from tests.conformance.replay import Replay, Tally, TraceClock

Fresh: TypeAlias = Callable[[], Store]

# Steps compared at least, of those recorded: (floor, recorded). A trace ends, for a kind of row,
# where a deliberate difference parts the rows; `aligned` holds none of those.
FLOORS = {
    "aligned": (9_000, 9_000),
    "bounds": (1_004, 1_201),
    "intent": (835, 1_200),
    "matrix": (2_492, 3_279),
    "mixed": (401, 600),
    "notification": (134, 480),
    "queue": (721, 2_160),
}
SAMPLED = 7  # of PostgreSQL's traces every seventh, unless CI has the time for all


def _whole_set() -> Path:
    found = traces.directory()
    if found is not None:
        return found
    missing = (
        f"NOT REPLAYED: the whole set of traces is neither at {traces.SHARED}"
        f" nor where {traces.GIVEN} says; the selection in tests/ is replayed all the same"
    )
    if os.environ.get(traces.REQUIRED):
        pytest.fail(missing)
    pytest.skip(missing)


@contextmanager
def _in_memory(clock: TraceClock) -> Iterator[Fresh]:
    """Open a new database in memory for each trace."""
    opened: list[Store] = []

    def fresh() -> Store:
        while opened:
            opened.pop().close()
        opened.append(open_store(":memory:", clock=clock))
        return opened[0]

    yield fresh
    opened.pop().close()


@contextmanager
def _on_postgresql(url: str, clock: TraceClock) -> Iterator[Fresh]:
    """Empty the same tables for each trace: that is quicker than to make a layout."""
    with (
        psycopg.connect(url, autocommit=True) as connection,
        open_store(url, clock=clock) as store,
    ):
        named = connection.execute(
            "SELECT quote_ident(tablename) FROM pg_tables"
            " WHERE schemaname = current_schema() AND tablename <> 'sqlatch_layout'"
        ).fetchall()
        # The triggers refuse to empty a table; only a superuser can tell them to keep still.
        connection.execute("SET session_replication_role = replica")

        def fresh() -> Store:
            connection.execute(f"TRUNCATE {', '.join(name for (name,) in named)}")
            return store

        yield fresh


def _replay(where: Path, family: str, fresh: Fresh, clock: TraceClock, every: int = 1) -> Tally:
    tally = Tally()
    for trace in list(traces.traces(where, family))[::every]:
        Replay(fresh(), clock, tally).run(trace)
    return tally


@pytest.mark.slow
@pytest.mark.parametrize("family", FLOORS)
def test_sqlite_answers_as_recorded_up_to_the_deliberate_differences(
    family: str, figures: Figures
) -> None:
    """Verdict, returned record and changed rows agree after each step, or differ as declared."""
    clock = TraceClock()
    with _in_memory(clock) as fresh:
        tally = _replay(_whole_set(), family, fresh, clock)

    figures.add("sqlite-memory", family, tally)
    floor, recorded = FLOORS[family]
    assert tally.compared >= floor
    assert tally.steps == recorded


@pytest.mark.slow
@pytest.mark.parametrize("family", FLOORS)
def test_postgresql_answers_as_recorded_up_to_the_deliberate_differences(
    family: str, figures: Figures, postgres_url: str
) -> None:
    """The same traces get the same answers on PostgreSQL: all of them in CI, else a sample."""
    every = 1 if os.environ.get("CI") else SAMPLED
    clock = TraceClock()
    with _on_postgresql(postgres_url, clock) as fresh:
        tally = _replay(_whole_set(), family, fresh, clock, every)

    figures.add("postgresql" if every == 1 else f"postgresql (1 in {every})", family, tally)
    floor, recorded = FLOORS[family]
    assert every > 1 or (tally.compared >= floor and tally.steps == recorded)


@pytest.mark.parametrize("backend", ["sqlite-memory", "postgresql"])
def test_the_selection_in_the_repository_agrees_too(
    backend: str, figures: Figures, request: pytest.FixtureRequest
) -> None:
    """A clone without the whole set replays at least a trace of each family and profile."""
    clock = TraceClock()
    place = (
        _in_memory(clock)
        if backend == "sqlite-memory"
        else _on_postgresql(request.getfixturevalue("postgres_url"), clock)
    )
    tallies = {}
    with place as fresh:
        for family in FLOORS:
            tallies[family] = _replay(traces.SELECTION, family, fresh, clock)
            figures.add(f"{backend} (selection)", family, tallies[family])

    assert all(tally.steps for tally in tallies.values())
