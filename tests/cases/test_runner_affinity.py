"""Cases of the kind runner-affinity."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from persistence import Claim, ManualClock, Store, open_store
from statemachine import Reason, Refused
from tests.cases.launches import LEASE, queue
from tests.conftest import START


@pytest.mark.parametrize("back_at", [None, 110])
def test_aff_01_pinned_run(store: Store, clock: ManualClock, back_at: int | None) -> None:
    """AFF-01: a run is served to its own runner alone until the grace is over, then to any.

    Another is told that there is nothing to take; a claim by id says nothing of pins.
    """
    queue(store, pinned_to="x", pinned_until=START + timedelta(seconds=130))

    granted: list[tuple[int, str]] = []
    for second, runner in [(99, "y"), (101, "y"), (back_at, "x"), (129, "y"), (130, "y")]:
        if second is None:
            continue
        clock.instant = START + timedelta(seconds=second)
        claim = store.runs.claim_next(runner, LEASE)
        if isinstance(claim, Claim):
            granted.append((second, runner))
        else:
            assert isinstance(claim, Refused)
            assert claim.reason is Reason.NOTHING

    assert granted == [(130, "y") if back_at is None else (110, "x")]


def test_aff_01_own_runs_come_first(store: Store, clock: ManualClock) -> None:
    """AFF-01: a runner is served its own run before an older one of nobody's."""
    queue(store, "older")
    clock.advance(timedelta(seconds=1))
    queue(store, "own", pinned_to="x", pinned_until=START + timedelta(seconds=130))

    first, second = store.runs.claim_next("x", LEASE), store.runs.claim_next("x", LEASE)

    assert isinstance(first, Claim)
    assert isinstance(second, Claim)
    assert (first.run_id, second.run_id) == ("own", "older")


def test_aff_01_claim_by_id(store: Store) -> None:
    """AFF-01: who names the run gets it, pinned or not."""
    queue(store, pinned_to="x", pinned_until=START + timedelta(seconds=130))

    assert store.runs.claim("r", runner_id="y", lease=LEASE)


def test_aff_02_pin_and_requirement(database: str, clock: ManualClock, tmp_path: Path) -> None:
    """AFF-02: once the grace is over, a pinned run is still served only where it belongs.

    A run has no labels: what a host can do is said by the project that it serves. A host of
    another project gets it never, whether the run's own runner lives or not.
    """
    url = str(tmp_path / "lasting.db") if database == ":memory:" else database
    with (
        open_store(url, clock=clock, project="gpu") as able,
        open_store(url, clock=clock, project="cpu") as unable,
    ):
        queue(able, pinned_to="x", pinned_until=START + timedelta(seconds=130))

        granted: list[tuple[int, str]] = []
        for second in (0, 129, 130):
            clock.instant = START + timedelta(seconds=second)
            for runner, store in (("y", unable), ("z", able)):
                claim = store.runs.claim_next(runner, LEASE)
                many = store.runs.claim_many(runner, LEASE, limit=5)
                if claim or many:
                    granted.append((second, runner))

    assert granted == [(130, "z")]
