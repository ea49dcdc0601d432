"""How many rows are in each state."""

from __future__ import annotations

from typing import Any

from persistence import ManualClock, Store, open_store
from statemachine import RUN_LAUNCH, TURN_INTENT, RunStatus
from tests.order import ORDER

FACTS: dict[str, Any] = {"workflow": "w", "source_ref": "r", "source": {}, "definition_digest": "d"}
CREATED = {
    **FACTS,
    "run_id": "another",
    "project": "another",
    "input": None,
    "launch_options": {},
    "facts_digest": "0" * 64,
    "execution_mode": "headless",
}


def _reserved(store: Store, number: int) -> None:
    for index in range(number):
        store.runs.reserve(run_id=f"{store.project}-{index}", **FACTS)


def test_every_state_is_counted_in_declared_order(store: Store) -> None:
    """Also those without a row, so that what shows them need not know them."""
    _reserved(store, 3)
    store.runs.cancel("default-1")

    expected = dict.fromkeys(RunStatus, 0) | {RunStatus.QUEUED: 2, RunStatus.CANCELLED: 1}
    assert store.runs.counts() == expected
    assert list(store.runs.counts()) == list(RunStatus)
    assert store.machine(RUN_LAUNCH).counts() == expected
    assert store.machine(TURN_INTENT).counts() == dict.fromkeys(TURN_INTENT.states, 0)


def test_runs_are_counted_within_the_store_s_project(database: str, clock: ManualClock) -> None:
    """As they are listed; the face of the machine counts them all."""
    with open_store(database, clock=clock, project="default") as store:
        _reserved(store, 2)
        store.machine(RUN_LAUNCH).create("reserve", CREATED)

        assert store.runs.counts()[RunStatus.QUEUED] == 2
        assert store.machine(RUN_LAUNCH).counts()["queued"] == 3


def test_an_own_machine_is_counted_too(database: str, clock: ManualClock) -> None:
    """By its own states."""
    with open_store(database, clock=clock, machines=(ORDER,)) as store:
        orders = store.machine(ORDER)
        for key in ("a", "b"):
            orders.create("place", {"order_id": key, "basket": key})
        orders.apply("pay", "a")

        assert orders.counts() == {"pending": 1, "paid": 1, "shipped": 0, "cancelled": 0}
