"""Where the server's clock rules, neither waiting nor a wrong clock of a worker forges time.

The server's time cannot be injected, so these few tests wait for real, for fractions of a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from persistence import Claim, Store, open_store
from statemachine import Reason, Refused, Run
from statemachine.errors import StoreBusy
from tests.cases.launches import queue, start, take

SHORT = timedelta(milliseconds=150)
LONGER = 0.4
MINUTE = timedelta(minutes=1)
SKEW_NS = 120 * 10**9


@pytest.fixture(name="store")
def _store(postgres_url: str) -> Iterator[Store]:
    with open_store(postgres_url) as opened:
        yield opened


@pytest.fixture(name="foreign")
def _foreign(postgres_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection of somebody else."""
    with psycopg.connect(postgres_url) as connection:
        yield connection


@pytest.fixture(name="threads")
def _threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as executor:
        yield executor


Foreign = psycopg.Connection[tuple[object, ...]]


def wait_until_blocked(url: str, number: int = 1) -> None:
    """Wait until so many statements in this schema wait for a lock."""
    with psycopg.connect(url, autocommit=True) as watcher:
        for _ in range(1000):
            row = watcher.execute(
                "SELECT count(*) FROM pg_stat_activity a WHERE a.wait_event_type = 'Lock'"
                " AND a.datname = current_database() AND EXISTS (SELECT 1 FROM pg_locks l"
                " JOIN pg_class c ON c.oid = l.relation WHERE l.pid = a.pid"
                " AND c.relnamespace = current_schema()::regnamespace)"
            ).fetchone()
            if row is not None and int(str(row[0])) >= number:
                return
            time.sleep(0.005)
    pytest.fail("nothing waits for a lock")


def server_time(connection: Foreign) -> datetime:
    """Return the server's clock, to the millisecond below."""
    row = connection.execute(
        "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)"
    ).fetchone()
    assert row is not None
    return datetime.fromtimestamp(int(str(row[0])) / 1000, UTC)


@contextmanager
def outlasting(
    foreign: Foreign, url: str, call: Callable[[], object], threads: ThreadPoolExecutor
) -> Iterator[tuple[Future[object], datetime]]:
    """Let a call wait for longer than its lease; answer its future and when it was let go."""
    waiting = threads.submit(call)
    wait_until_blocked(url)
    time.sleep(LONGER)
    yield waiting, server_time(foreign)


def fresh(claim: object, since: datetime) -> Claim:
    """Check that a claim was not taken before an instant, and lasts as long as it says."""
    assert isinstance(claim, Claim)
    run = claim.run
    assert run.lease_acquired_at is not None
    assert run.lease_acquired_at >= since
    assert claim.expires_at - run.lease_acquired_at == SHORT
    return claim


def steps(store: Store, run_id: str) -> list[str]:
    """Return the names of a run's steps."""
    return [event.transition for event in store.runs.history(run_id)]


def test_tim_02_a_claim_that_waited_for_the_row_is_not_expired(
    store: Store, foreign: Foreign, postgres_url: str, threads: ThreadPoolExecutor
) -> None:
    """TIM-02: the lease counts from when the row's lock is held, not from when it was asked for."""
    queue(store)
    foreign.execute("SELECT 1 FROM runs WHERE run_id = 'r' FOR UPDATE")

    def call() -> object:
        return store.runs.claim("r", runner_id="w", lease=SHORT)

    with outlasting(foreign, postgres_url, call, threads) as (waiting, since):
        foreign.commit()
        claim = fresh(waiting.result(), since)

    assert steps(store, "r") == ["reserve", "claim"]
    assert claim.run.attempts == 1


def test_a_renewal_that_waited_is_decided_by_the_time_it_ran(
    store: Store, foreign: Foreign, postgres_url: str, threads: ThreadPoolExecutor
) -> None:
    """A lease that ran out while its renewal waited is not live any more, and says so."""
    queue(store)
    claim = start(store, lease=SHORT)
    foreign.execute("SELECT 1 FROM runs WHERE run_id = 'r' FOR UPDATE")

    def call() -> object:
        return store.runs.renew(claim, lease=SHORT)

    with outlasting(foreign, postgres_url, call, threads) as (waiting, _):
        foreign.commit()
        refused = waiting.result()

    assert isinstance(refused, Refused)
    assert (refused.reason, refused.guard) == (Reason.GUARD, "live")


def parked(store: Store, *, max_attempts: int | None = None) -> None:
    """Lay a session's run aside, so that the session is free for another."""
    queue(store, "parked", session="s", max_attempts=max_attempts)
    assert store.runs.park(take(store, "parked"))


CLAIMS: dict[str, Callable[[Store], object]] = {
    "claim": lambda store: store.runs.claim("parked", runner_id="w", lease=SHORT),
    "claim under an id": lambda store: store.runs.claim(
        "parked", runner_id="w", lease=SHORT, call="call"
    ),
    "claim_next": lambda store: store.runs.claim_next("w", SHORT),
    "claim_next under an id": lambda store: store.runs.claim_next("w", SHORT, call="call"),
    "claim_next of the session": lambda store: store.runs.claim_next("w", SHORT, session_id="s"),
    "rebind": lambda store: store.runs.rebind(
        "parked",
        workflow="demo",
        source_ref="other.py",
        source={"of": "other"},
        definition_digest="sha256:1",
        expected_source_ref="demo.py",
        runner_id="w",
        lease=SHORT,
    ),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_that_waited_for_anothers_reservation_is_not_expired(
    store: Store, foreign: Foreign, postgres_url: str, threads: ThreadPoolExecutor, name: str
) -> None:
    """The other never commits; what was written for the expired lease is as if never written."""
    parked(store, max_attempts=1)
    queue(store.on(foreign), "uncommitted", session="s")

    with outlasting(foreign, postgres_url, lambda: CLAIMS[name](store), threads) as (
        waiting,
        since,
    ):
        foreign.rollback()
        claim = fresh(waiting.result(), since)

    assert claim.run.attempts == 1
    assert steps(store, "parked") == [
        "reserve", "claim", "park", "rebind" if name == "rebind" else "claim"
    ]  # fmt: skip
    if name.endswith("id"):
        assert store.runs.history("parked")[-1].call == "call"


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_that_waited_for_a_reservation_that_came_is_refused(
    store: Store, foreign: Foreign, postgres_url: str, threads: ThreadPoolExecutor, name: str
) -> None:
    """The other commits: the parked run stays parked, whoever wanted it."""
    parked(store)
    queue(store.on(foreign), "committed", session="s")

    with outlasting(foreign, postgres_url, lambda: CLAIMS[name](store), threads) as (
        waiting,
        since,
    ):
        foreign.commit()
        answer = waiting.result()

    if name == "claim_next of the session":
        assert fresh(answer, since).run_id == "committed"
    else:
        assert isinstance(answer, Refused)
        reason = Reason.NOTHING if name.startswith("claim_next") else Reason.UNIQUE
        assert answer.reason == reason
    assert steps(store, "parked") == ["reserve", "claim", "park"]


@pytest.mark.parametrize("given", [{"origin_session_id": "s"}, {"run_id": "new"}])
def test_a_run_that_waited_to_be_born_is_not_expired(
    store: Store,
    foreign: Foreign,
    postgres_url: str,
    threads: ThreadPoolExecutor,
    given: dict[str, str],
) -> None:
    """A lease at birth counts from when the row could be stored."""
    queue(store.on(foreign), "new", session="s")

    def call() -> object:
        return store.runs.enqueue(
            workflow="demo",
            source_ref="demo.py",
            runner_id="w",
            lease=SHORT,
            **given,  # type: ignore[arg-type]  # texts for arguments that take texts
        )

    with outlasting(foreign, postgres_url, call, threads) as (waiting, since):
        foreign.rollback()
        claim = fresh(waiting.result(), since)

    assert steps(store, claim.run_id) == ["enqueue"]
    assert claim.generation == 1


def test_a_claim_in_a_long_transaction_counts_from_its_own_moment(store: Store) -> None:
    """Not from when the transaction began."""
    queue(store)

    with store.transaction():
        assert store.runs.get("r") is not None
        time.sleep(LONGER)
        claim = take(store, lease=SHORT)
        live = store.runs.verify(claim)

    assert live


def test_waiting_for_a_row_is_bounded(foreign: Foreign, postgres_url: str, store: Store) -> None:
    """Whoever holds a row for too long makes others say that the store is busy."""
    queue(store)
    foreign.execute("SELECT 1 FROM runs WHERE run_id = 'r' FOR UPDATE")

    with (
        open_store(postgres_url, busy_timeout=timedelta(milliseconds=50)) as impatient,
        pytest.raises(StoreBusy),
    ):
        impatient.runs.claim("r", runner_id="w", lease=MINUTE)

    foreign.rollback()
    assert steps(store, "r") == ["reserve"]


def test_what_others_have_locked_is_not_the_same_as_nothing(foreign: Foreign, store: Store) -> None:
    """`locked`: come again at once; `nothing`: wait for the next poll."""
    queue(store)
    foreign.execute("SELECT 1 FROM runs WHERE run_id = 'r' FOR UPDATE")

    refused = store.runs.claim_next("w", MINUTE)
    foreign.rollback()

    assert refused == Refused(transition="claim_next_host", reason=Reason.LOCKED)
    assert store.runs.claim_next("w", MINUTE)
    assert store.runs.claim_next("w", MINUTE) == Refused(
        transition="claim_next_host", reason=Reason.NOTHING
    )


def skew(monkeypatch: pytest.MonkeyPatch, nanoseconds: int) -> None:
    """Set this process's clock wrong."""
    true_ns, true = time.time_ns, time.time
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + nanoseconds)
    monkeypatch.setattr(time, "time", lambda: true() + nanoseconds / 1e9)


def test_tim_01_a_worker_two_minutes_ahead_steals_nothing_and_loses_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TIM-01: a lease with a minute left is live, whatever the worker's clock says."""
    queue(store, "other", max_attempts=1)
    queue(store, "own")
    start(store, "other", lease=MINUTE)
    own = start(store, "own", lease=MINUTE)
    skew(monkeypatch, SKEW_NS)

    refused = store.runs.claim("other", runner_id="thief", lease=MINUTE)

    assert isinstance(refused, Refused)
    assert refused.guard == "free"
    assert isinstance(store.runs.reject("other", error_code="c", error_message="m"), Refused)
    assert isinstance(store.runs.cancel_stale("other"), Refused)
    assert store.runs.claim_next("thief", MINUTE) == Refused(
        transition="claim_next_host", reason=Reason.NOTHING
    )
    assert store.runs.reap_due() == []
    assert store.runs.verify(own)
    renewed = store.runs.renew(own, lease=MINUTE)
    assert isinstance(renewed, Claim)
    assert renewed.expires_at - own.expires_at < MINUTE
    assert store.runs.finish(renewed)


def test_tim_01_a_worker_two_minutes_behind_takes_what_is_free_and_no_more(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TIM-01: a lease that ran out is free, and a new one ends by the server's clock."""
    queue(store)
    start(store, lease=SHORT)
    time.sleep(SHORT.total_seconds() + 0.01)
    skew(monkeypatch, -SKEW_NS)

    claim = take(store, by="heir", lease=MINUTE)
    monkeypatch.undo()

    stored = store.runs.get("r")
    assert isinstance(stored, Run)
    assert claim.expires_at == stored.lease_expires_at
    assert stored.lease_acquired_at is not None
    assert claim.expires_at - stored.lease_acquired_at == MINUTE
    assert abs(claim.expires_at - datetime.now(UTC) - MINUTE) < timedelta(seconds=30)


def test_a_store_without_a_clock_of_its_own_never_asks_the_process(
    store: Store, foreign: Foreign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every instant that is stored is the server's."""
    skew(monkeypatch, -SKEW_NS)
    queue(store)
    claim = start(store, lease=MINUTE)
    assert store.runs.request_cancel("r")
    assert store.runs.renew(claim, lease=MINUTE)
    run = store.runs.abort(claim)
    assert store.runs.append_event("r", type="noted")
    monkeypatch.undo()

    assert isinstance(run, Run)
    now = datetime.now(UTC)
    instants = [run.created_at, run.updated_at, run.available_at, run.started_at]
    instants += [run.finished_at, run.cancel_requested_at]
    history = foreign.execute("SELECT at FROM sqlatch_history").fetchall()
    instants += [datetime.fromtimestamp(int(str(row[0])) / 1000, UTC) for row in history]

    assert len(history) == 6
    for instant in instants:
        assert instant is not None
        assert abs(now - instant) < timedelta(seconds=30)
