"""Exactly one successor turn, whatever crashes, expires or competes."""

from __future__ import annotations

from collections import Counter

import pytest

from persistence import ManualClock, Store, open_store
from tests.conftest import START
from tests.hosts.simulated_process import Process
from tests.hosts.simulation import Kind, World

HISTORIES = 10_000
PART = 2_500
ON_POSTGRESQL = 300


def played(store: Store, clock: ManualClock, seed: int) -> World:
    """Play one history; a failing seed replays."""
    world = World(store, clock, seed, Process)
    world.play()
    return world


def failures(store: Store, clock: ManualClock, seeds: range) -> tuple[list[str], Counter[Kind]]:
    """Return what went wrong, by seed, and how often each kind of event was seen."""
    wrong: list[str] = []
    seen: Counter[Kind] = Counter()
    for seed in seeds:
        world = played(store, clock, seed)
        seen[world.kind] += 1
        wrong += [f"seed {seed}, {world.kind.name}: {what}" for what in world.check()]
    return wrong, seen


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, HISTORIES, PART))
def test_10_000_histories_in_memory(first: int) -> None:
    """Each obligation has exactly one message and one resolution; quiet events have none."""
    clock = ManualClock(START)
    with open_store(":memory:", clock=clock) as store:
        wrong, seen = failures(store, clock, range(first, first + PART))

    assert wrong == []
    assert min(seen[kind] for kind in Kind) > PART / len(Kind) / 2


def test_a_few_histories_in_memory() -> None:
    """The same, on as many as a quick run can afford."""
    clock = ManualClock(START)
    with open_store(":memory:", clock=clock) as store:
        wrong, _ = failures(store, clock, range(HISTORIES, HISTORIES + 200))

    assert wrong == []


@pytest.mark.slow
def test_300_histories_on_postgresql(postgres_url: str) -> None:
    """The same statements on the other database."""
    clock = ManualClock(START)
    with open_store(postgres_url, clock=clock) as store:
        wrong, _ = failures(store, clock, range(ON_POSTGRESQL))

    assert wrong == []


def test_a_seed_replays() -> None:
    """Two plays of one seed say the same; so a failing one can be looked at."""
    said = []
    for _ in range(2):
        clock = ManualClock(START)
        with open_store(":memory:", clock=clock) as store:
            said.append([played(store, clock, seed).conversation for seed in range(40)])

    assert said[0] == said[1]


def test_the_simulation_sees_a_second_message() -> None:
    """Processes that do not look at the conversation before they send are found out."""
    clock = ManualClock(START)
    found = []
    with open_store(":memory:", clock=clock) as store:
        for seed in range(600):
            world = World(store, clock, seed, Process, forgetful=True)
            world.play()
            found += world.check()

    assert "not exactly one message for each obligation" in found
