"""Virtual time for hosts, workers on it, and faults that a test asks for."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from attrs import define, field

from persistence import Claim, ManualClock, Store
from persistence.hosts import Handler, Worker
from persistence.hosts.at_work import AtWork
from persistence.stores.runs import Runs
from statemachine.machines import Run
from statemachine.outcome import Refused


@define
class Time:
    """The store's clock and the steady clock, moved together unless a test says otherwise.

    Attributes:
        clock: The store's.

        steady: Seconds of the steady clock.
    """

    clock: ManualClock
    steady: float = 1_000.0

    def now(self) -> float:
        """Return the steady seconds."""
        return self.steady

    def advance(self, seconds: float) -> None:
        """Move both clocks."""
        self.steady += seconds
        self.clock.advance(timedelta(seconds=seconds))


@define
class FaultyRuns:
    """`store.runs` with something done before and after each renewal."""

    runs: Runs
    before: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None
    renewals: int = field(default=0, init=False)

    def renew(self, claim: Claim, *, lease: timedelta) -> Claim | Refused:
        """Renew, between the two faults."""
        self.renewals += 1
        self.before()
        answer = self.runs.renew(claim, lease=lease)
        self.after()
        return answer

    def verify(self, claim: Claim) -> bool:
        """Verify."""
        return self.runs.verify(claim)


def reserve(runs: Runs, run_id: str, *, workflow: str = "demo", **facts: Any) -> Run:
    """Queue a run of little consequence."""
    return runs.reserve(
        run_id=run_id,
        workflow=workflow,
        source_ref=f"test:{workflow}",
        source={"of": workflow},
        definition_digest="sha256:0",
        **facts,
    )


def worker_of(
    store: Store,
    virtual: Time,
    handlers: Mapping[str, Handler],
    *,
    runner_id: str = "w",
    at_work: AtWork | None = None,
    sleep: Callable[[float], None] | None = None,
    **more: Any,
) -> Worker:
    """Return a worker on virtual time."""

    def rest(seconds: float) -> bool:
        virtual.advance(seconds)
        return False

    return Worker(
        store,
        handlers,
        runner_id=runner_id,
        now=virtual.now,
        rest=rest,
        sleep=sleep or virtual.advance,
        chance=random.Random(1),
        at_work=at_work or AtWork(),
        **more,
    )


def stored(store: Store, run_id: str = "r1") -> Run:
    """Return a run that exists."""
    run = store.runs.get(run_id)
    assert run is not None
    return run


def transitions(store: Store, run_id: str = "r1") -> list[str]:
    """Return what happened to a run, by name."""
    return [event.transition for event in store.runs.history(run_id)]
