"""Cases about stores that drift, listings that linger, sweeps that break and stale records."""

from __future__ import annotations

import sqlite3
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from persistence import Claim, ManualClock, Store, open_store
from statemachine import HostEvent, RunStatus
from statemachine.errors import SchemaMismatch, SqlatchError
from statemachine.machines import Run
from tests.cases.breaking import break_when, meddle, mend

LEASE = timedelta(seconds=30)
LAUNCH: dict[str, Any] = {
    "workflow": "w",
    "source_ref": "r",
    "source": {},
    "definition_digest": "d",
}


@pytest.fixture(name="lasting")
def _lasting(database: str, tmp_path: Path) -> str:
    """URL of a database that outlives its store."""
    return str(tmp_path / "lasting.db") if database == ":memory:" else database


def test_evt_02_a_missing_index_is_named_at_opening(lasting: str) -> None:
    """EVT-02: a store whose history lost its unique index is not run unprotected."""
    with open_store(lasting) as store:
        store.runs.reserve(run_id="r1", **LAUNCH)
        for number in range(3):
            store.runs.append_event("r1", type=f"e{number}")
    meddle(lasting, "DROP INDEX sqlatch_history_call")

    with pytest.raises(SchemaMismatch, match="sqlatch_history_call is missing"):
        open_store(lasting)


def test_evt_02_numbers_are_distinct_beside_another_writer(lasting: str) -> None:
    """EVT-02: two writers that append at once, one of them in batches, share no place in the feed.

    A batch keeps its order.
    """
    with open_store(lasting, busy_timeout=timedelta(seconds=20)) as store:
        store.runs.reserve(run_id="r1", **LAUNCH)

        def singly() -> None:
            for number in range(30):
                store.runs.append_event("r1", type=f"single {number:02}")

        def in_batches() -> None:
            for batch in range(10):
                with store.transaction():
                    for number in range(3):
                        store.runs.append_event("r1", type=f"batch {batch}.{number}")

        threads = [threading.Thread(target=writer) for writer in (singly, in_batches)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cursors: list[str] = []
        types: list[str] = []
        cursor = None
        deadline = time.monotonic() + 30
        while len(cursors) < 61 and time.monotonic() < deadline:
            page = store.events_after(cursor, 1)
            if page.events:
                cursor = page.cursor
                cursors.append(cursor)
                types += [event.type for event in page.events if isinstance(event, HostEvent)]

    assert len(set(cursors)) == 61
    assert sorted(types) == sorted({*types})
    batches = [name for name in types if name.startswith("batch")]
    assert batches == [f"batch {batch}.{number}" for batch in range(10) for number in range(3)]
    assert [name for name in types if name not in batches] == [f"single {n:02}" for n in range(30)]


def test_sqc_08_a_listing_holds_no_snapshot(tmp_path: Path) -> None:
    """SQC-08: who keeps a listed record keeps no read transaction, so the log stays bounded."""
    path = tmp_path / "wal.db"
    with open_store(str(path)) as reader, open_store(str(path)) as writer:
        writer.runs.reserve(run_id="r1", **LAUNCH)
        kept = iter(reader.runs.list())
        first = next(kept)
        for _ in range(10_000):
            writer.runs.pause("r1")
            writer.runs.resume("r1")
        size = Path(f"{path}-wal").stat().st_size

        assert first.run_id == "r1"
        assert size < 20_000_000


def test_swp_09_a_broken_sweep_is_taken_up_again(lasting: str) -> None:
    """SWP-09: a sweep that fails says so; what it ended stays ended, the next ends the rest."""
    clock = ManualClock()
    with open_store(lasting, clock=clock) as store:
        for number in range(10):
            store.runs.reserve(run_id=f"r{number}", max_attempts=1, **LAUNCH)
            assert store.runs.claim(f"r{number}", runner_id="dead", lease=timedelta(seconds=1))
        clock.advance(timedelta(seconds=5))
        break_when(lasting, "(SELECT count(*) FROM runs WHERE status = 'failed') = 2")

        with pytest.raises(SqlatchError):
            store.runs.reap_due()
        halfway = store.runs.list(statuses=(RunStatus.FAILED,))
        mend(lasting)
        rest = store.runs.reap_due()

        assert len(halfway) == 2
        assert len(rest) == 8
        for number in range(10):
            steps = [step.transition for step in store.runs.history(f"r{number}")]
            assert steps == ["reserve", "claim", "reap"]


def test_rty_04_a_busy_database_delays_a_finish(tmp_path: Path) -> None:
    """RTY-04: another writer's lock is waited for; the run ends once."""
    url = str(tmp_path / "busy.db")
    with open_store(url) as store:
        store.runs.reserve(run_id="r1", **LAUNCH)
        claim = store.runs.claim_next("a", LEASE)
        assert isinstance(claim, Claim)
        other = sqlite3.connect(url, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.2, other.execute, args=("ROLLBACK",))
        timer.start()

        done = store.runs.finish(claim)
        timer.join()
        other.close()

        assert isinstance(done, Run)
        assert [s.transition for s in store.runs.history("r1")] == ["reserve", "claim", "finish"]


def test_fsm_03_a_refreshed_record_is_what_counts(store: Store) -> None:
    """FSM-03: a record is a picture; read anew, it shows what another process did meanwhile."""
    stale = store.runs.reserve(run_id="r1", **LAUNCH)
    claim = store.runs.claim("r1", runner_id="other", lease=LEASE)
    assert isinstance(claim, Claim)
    assert store.runs.mark_running(claim)

    fresh = store.runs.get("r1")
    done = store.runs.finish(claim)

    assert fresh is not None
    assert (stale.status, stale.revision) == (RunStatus.QUEUED, 1)
    assert (fresh.status, fresh.revision) == (RunStatus.RUNNING, 3)
    assert isinstance(done, Run)
    assert (done.status, done.revision) == (RunStatus.DONE, 4)
