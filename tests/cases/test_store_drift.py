"""Cases about stores that drift, listings that linger, sweeps that break and stale records."""

from __future__ import annotations

import sqlite3
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from persistence import Claim, ManualClock, Store, open_store
from statemachine import RunStatus
from statemachine.errors import SchemaMismatch, SqlatchError
from statemachine.machines import Run

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


def _meddle(url: str, *statements: str) -> None:
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())
        return
    file = sqlite3.connect(url.removeprefix("sqlite:///"))
    for statement in statements:
        file.execute(statement)
    file.commit()
    file.close()


def test_evt_02_a_missing_index_is_named_at_opening(lasting: str) -> None:
    """EVT-02: a store whose history lost its unique index is not run unprotected."""
    with open_store(lasting) as store:
        store.runs.reserve(run_id="r1", **LAUNCH)
        for number in range(3):
            store.runs.append_event("r1", type=f"e{number}")
    _meddle(lasting, "DROP INDEX sqlatch_history_call")

    with pytest.raises(SchemaMismatch, match="sqlatch_history_call is missing"):
        open_store(lasting)


def test_evt_02_numbers_are_distinct_beside_another_writer(lasting: str) -> None:
    """EVT-02: two writers that append at once share no place in the feed."""
    with open_store(lasting, busy_timeout=timedelta(seconds=20)) as store:
        store.runs.reserve(run_id="r1", **LAUNCH)

        def append(name: str) -> None:
            for number in range(10):
                store.runs.append_event("r1", type=f"{name}{number}")

        threads = [threading.Thread(target=append, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cursors: list[str] = []
        cursor = None
        deadline = time.monotonic() + 30
        while len(cursors) < 21 and time.monotonic() < deadline:
            page = store.events_after(cursor, 1)
            if page.events:
                cursor = page.cursor
                cursors.append(cursor)

    assert len(set(cursors)) == 21


def test_sqc_08_a_listing_holds_no_snapshot(tmp_path: Path) -> None:
    """SQC-08: who keeps a listed record keeps no read transaction, so the log stays bounded."""
    path = tmp_path / "wal.db"
    with open_store(str(path)) as reader, open_store(str(path)) as writer:
        writer.runs.reserve(run_id="r1", **LAUNCH)
        kept = iter(reader.runs.list())
        first = next(kept)
        for _ in range(1_500):
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
        _break_third_sweep(lasting)

        with pytest.raises(SqlatchError):
            store.runs.reap_due()
        halfway = store.runs.list(statuses=(RunStatus.FAILED,))
        _meddle(lasting, *_mending(lasting))
        rest = store.runs.reap_due()

        assert len(halfway) == 2
        assert len(rest) == 8
        for number in range(10):
            steps = [step.transition for step in store.runs.history(f"r{number}")]
            assert steps == ["reserve", "claim", "reap"]


def _break_third_sweep(url: str) -> None:
    enough = "(SELECT count(*) FROM runs WHERE status = 'failed') = 2"
    if url.startswith("postgresql"):
        _meddle(
            url,
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF {enough} THEN RAISE EXCEPTION 'gone' USING ERRCODE = '57P01'; END IF;"
            " RETURN NEW; END $$",
            "CREATE TRIGGER broken BEFORE UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION broken()",
        )
        return
    _meddle(
        url,
        f"CREATE TRIGGER broken BEFORE UPDATE ON runs WHEN {enough}"
        " BEGIN SELECT RAISE(ABORT, 'gone'); END",
    )


def _mending(url: str) -> tuple[str, ...]:
    if url.startswith("postgresql"):
        return ("DROP TRIGGER broken ON runs", "DROP FUNCTION broken()")
    return ("DROP TRIGGER broken",)


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
