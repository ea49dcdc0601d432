"""Cases of the kind effect-outbox. EFX-03: `test_postgres_traffic.py`; EFX-04: notifications.

There is no machine of effects here yet. Their hazards are tried where this product has them: in a
run whose holder cannot tell whether it did what it was about to do, in the outbox of
notifications, and in runs that fall due later.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from persistence import Claim, ManualClock, Store, open_store
from statemachine import NotificationStatus, Reason, Refused
from statemachine.errors import SqlatchError
from tests.cases.breaking import break_when, mend
from tests.cases.launches import LEASE, queue, start, steps, stored
from tests.conftest import START
from tests.stores.owed import SESSION, batch, notify


def test_efx_01_what_cannot_be_repeated_waits_for_a_decision(
    store: Store, clock: ManualClock
) -> None:
    """EFX-01: who takes up a dead holder's run and cannot tell what it did, leaves it to somebody.

    It is listed as such, neither ended nor taken by any host or sweep, until it is woken.
    """
    queue(store, max_attempts=2)
    start(store, by="dead")
    clock.advance(LEASE)
    heir = store.runs.claim_next("heir", LEASE)
    assert isinstance(heir, Claim)
    assert store.runs.park_effect_ambiguous(heir, error_message="sent, or not")

    for _ in range(3):
        clock.advance(timedelta(days=1))
        assert store.runs.reap_due() == []
        taken = store.runs.claim_next("host", LEASE)
        assert isinstance(taken, Refused)
        assert taken.reason is Reason.NOTHING
        assert store.runs.claim_many("host", LEASE, limit=10) == []
    listed = store.runs.list(statuses=["parked"])
    assert [(run.run_id, run.error_code, run.waiting) for run in listed] == [
        ("r", "effectAmbiguous", True)
    ]
    assert store.runs.wake("r")
    decided = store.runs.claim_next("host", LEASE)
    assert isinstance(decided, Claim)
    assert (decided.run_id, decided.run.error_code) == ("r", None)


def test_efx_01_what_can_be_repeated_comes_back_under_its_key(
    store: Store, clock: ManualClock
) -> None:
    """EFX-01: a message whose relay died is pending again, the same one, neither sent nor failed.

    So is a run: the same id, another generation.
    """
    note = notify(store)
    queue(store)
    first = start(store, by="dead")
    (taken,) = batch(store, "dead")
    clock.advance(LEASE)

    (again,) = batch(store, "heir")
    second = store.runs.claim_next("heir", LEASE)

    assert again.notification_id == taken.notification_id == note.notification_id
    assert again.notification.content == note.content
    assert again.notification.status is NotificationStatus.PENDING
    assert again.generation == taken.generation + 1
    assert isinstance(second, Claim)
    assert (second.run_id, second.generation) == (first.run_id, first.generation + 1)
    assert isinstance(store.notifications.mark_delivered(taken), Refused)
    assert store.notifications.mark_delivered(again)
    assert store.notifications.pending(SESSION) == []


DELAYED = 500


@pytest.mark.parametrize("broken_after", [0, 1, 250])
def test_efx_06_what_falls_due_while_taking_breaks(
    database: str, tmp_path: Path, broken_after: int
) -> None:
    """EFX-06: 500 delayed runs fall due; wherever taking them breaks off, each is there once.

    Nothing promotes them: a run is due by the clock alone. A batch is taken whole or not at all.
    """
    url = str(tmp_path / "lasting.db") if database == ":memory:" else database
    clock = ManualClock(START)
    names = [f"r{number:03}" for number in range(DELAYED)]
    with open_store(url, clock=clock) as store:
        with store.transaction():
            for name in names:
                queue(store, name, available_at=START + timedelta(minutes=1))
        assert store.runs.claim_many("w", LEASE, limit=100) == []
        clock.advance(timedelta(minutes=1))
        break_when(url, f"(SELECT count(*) FROM runs WHERE status = 'starting') = {broken_after}")

        taken: list[str] = []

        def take_all() -> None:
            while claims := store.runs.claim_many("w", LEASE, limit=100):
                taken.extend(claim.run_id for claim in claims)

        with pytest.raises(SqlatchError):
            take_all()
        there = {run.run_id: run.status for run in store.runs.list(limit=1_000)}
        mend(url)
        take_all()

        kept = broken_after // 100 * 100
        assert there == {
            name: "starting" if number < kept else "queued" for number, name in enumerate(names)
        }
        assert taken == names
        assert steps(store, names[0]) == steps(store, names[-1]) == ["reserve", "claim"]
        assert stored(store, names[-1]).attempts == 1
