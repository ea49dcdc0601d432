"""Cases about clocks: skew, waiting, zones, naive instants, summer time, precision.

TIM-01 and TIM-02 where the server's clock rules: `tests/test_server_clock.py`. No call takes a
cutoff to sweep, list or prune by (TIM-05); what takes an instant is tried in its stead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from attrs import define

from persistence import Claim, ManualClock, Store, open_store
from statemachine import Refused, Run
from statemachine.errors import InvalidArgument
from tests.cases.launches import LEASE, MILLISECOND, queue, start, take
from tests.conftest import Capabilities
from tests.raw import Raw

NEW_YORK = ZoneInfo("America/New_York")
SECOND = timedelta(seconds=1)


@define
class Hurrying:
    """A clock that is another second further whenever it is read."""

    instant: datetime

    def now(self) -> datetime:
        """Return the next second."""
        self.instant += SECOND
        return self.instant


def test_tim_01_one_statement_reads_the_clock_once(
    database: str, capabilities: Capabilities, clock: ManualClock
) -> None:
    """TIM-01: with an injected clock all of a statement's predicates and values use one value."""
    with open_store(database, clock=Hurrying(clock.now())) as store:
        queue(store)
        claim = take(store)
        stored = Raw(store, database, capabilities).row("runs", "run_id", "r")

    run = claim.run
    assert run.lease_acquired_at == run.lease_heartbeat_at == run.started_at == run.updated_at
    assert run.lease_acquired_at is not None
    assert claim.expires_at - run.lease_acquired_at == LEASE
    assert claim.expires_at == datetime.fromtimestamp(stored["lease_expires_at"] / 1000, UTC)


@pytest.mark.parametrize("skew", [-120, 120])
def test_tim_01_a_skewed_injected_clock_rules_alone(
    store: Store, clock: ManualClock, skew: int
) -> None:
    """TIM-01: whose clock is given, decides; the database's own is not asked."""
    queue(store)
    take(store, lease=timedelta(seconds=60))
    clock.advance(timedelta(seconds=skew))

    answer = store.runs.claim("r", runner_id="w", lease=LEASE)

    assert isinstance(answer, Claim if skew > 0 else Refused)


def test_tim_01_the_clock_of_the_process_is_read_at_each_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TIM-01: without a clock of its own a SQLite store goes by the process's, as it is then."""
    with open_store(str(tmp_path / "test.db")) as store:
        queue(store)
        later = datetime(2040, 1, 1, tzinfo=UTC)
        monkeypatch.setattr(time, "time_ns", lambda: int(later.timestamp()) * 10**9)
        claim = store.runs.claim("r", runner_id="w", lease=LEASE)
        monkeypatch.undo()

    assert isinstance(claim, Claim)
    assert claim.expires_at == later + LEASE


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process live in Tokyo."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_tim_04_zones_change_no_instant(
    database: str, capabilities: Capabilities, clock: ManualClock
) -> None:
    """TIM-04: claimed from New York by a process in Tokyo, read and reaped from UTC."""
    if not capabilities.reopens:
        pytest.skip("a database in memory has one connection")
    zone = "%20-ctimezone%3DAmerica/New_York" if capabilities.server_clock else ""
    eastern = f"{database}{zone}"
    with open_store(eastern, clock=clock) as west, open_store(database, clock=clock) as store:
        queue(west, max_attempts=1)
        claim = start(west)
        seen = store.runs.get("r")
        assert seen is not None
        assert (seen.lease_expires_at, seen.created_at) == (claim.expires_at, clock.now())
        clock.advance(LEASE - SECOND)
        assert store.runs.reap_due() == []
        clock.advance(2 * SECOND)
        assert [run.run_id for run in store.runs.reap_due()] == ["r"]


NAIVE = datetime(2030, 1, 1, 12)  # noqa: DTZ001  # naive on purpose


def taking(store: Store, claim: Claim, instant: datetime) -> dict[str, Callable[[], object]]:
    """Return every call that takes an instant, with one."""

    def reserve(name: str) -> object:
        return store.runs.reserve(
            run_id=f"new-{name}",
            workflow="w",
            source_ref="r",
            source=None,
            definition_digest="d",
            **{name: instant},  # type: ignore[arg-type]  # the argument in turn
        )

    def enqueue(name: str) -> object:
        return store.runs.enqueue(
            run_id=f"born-{name}",
            workflow="w",
            source_ref="r",
            runner_id="w",
            lease=LEASE,
            **{name: instant},  # type: ignore[arg-type]  # the argument in turn
        )

    return {
        "reserve available_at": lambda: reserve("available_at"),
        "reserve affinity_until": lambda: reserve("affinity_until"),
        "enqueue available_at": lambda: enqueue("available_at"),
        "enqueue affinity_until": lambda: enqueue("affinity_until"),
        "park available_at": lambda: store.runs.park(claim, available_at=instant),
    }


def test_tim_05_a_naive_instant_is_refused_before_any_row_changes(
    store: Store, clock: ManualClock, database: str, capabilities: Capabilities
) -> None:
    """TIM-05 (and TIM-04): zero events, also beside rows that wait to be reaped."""
    raw = Raw(store, database, capabilities)
    for number in range(5):
        queue(store, f"expired-{number}", max_attempts=1)
        start(store, f"expired-{number}", lease=SECOND)
    clock.advance(2 * SECOND)
    queue(store)
    claim = take(store)
    before = raw.content()

    for name, call in taking(store, claim, NAIVE).items():
        with pytest.raises(InvalidArgument, match=f"{name.split()[1]} must be an aware datetime"):
            call()

    assert raw.content() == before
    with pytest.raises(InvalidArgument):
        ManualClock(NAIVE)
    assert len(store.runs.reap_due()) == 5


def test_tim_05_an_aware_instant_of_any_zone_equals_its_utc(store: Store) -> None:
    """TIM-05: what is not UTC is the same instant."""
    instant = datetime(2031, 7, 1, 8, tzinfo=NEW_YORK)
    queue(store)
    claim = take(store)

    answers = [call() for call in taking(store, claim, instant).values()]

    for answer in answers:
        run = answer.run if isinstance(answer, Claim) else answer
        assert isinstance(run, Run)
        assert instant.astimezone(UTC) in (run.available_at, run.affinity_until)
    assert store.runs.get("new-available_at") == answers[0]


def test_tim_06_a_lease_lasts_as_long_as_it_says_over_the_autumn_change(
    store: Store, clock: ManualClock
) -> None:
    """TIM-06: a minute is 60 elapsed seconds, a day 86,400; events stand in their true order."""
    clock.instant = datetime(2030, 11, 3, 1, 59, 30, tzinfo=NEW_YORK)
    queue(store)
    queue(store, "day")
    minute = start(store, lease=timedelta(minutes=1))
    day = start(store, "day", lease=timedelta(days=1))

    clock.advance(timedelta(seconds=45))
    assert clock.now().astimezone(NEW_YORK).replace(tzinfo=None) == datetime(2030, 11, 3, 1, 0, 15)  # noqa: DTZ001  # a wall clock
    assert store.runs.verify(minute)
    clock.advance(timedelta(seconds=15))
    assert not store.runs.verify(minute)
    assert isinstance(store.runs.renew(minute, lease=LEASE), Refused)
    assert store.runs.finish(minute)

    clock.advance(timedelta(days=1) - timedelta(minutes=1) - MILLISECOND)
    assert store.runs.verify(day)
    clock.advance(MILLISECOND)
    assert not store.runs.verify(day)
    times = [event.at for run_id in ("r", "day") for event in store.runs.history(run_id)]
    assert times == sorted(times[:4]) + sorted(times[4:])
    assert times[3] - times[2] == 60_000


def test_tim_08_what_is_answered_is_what_is_stored_and_read(
    database: str, capabilities: Capabilities
) -> None:
    """TIM-08: no drift over 30 renewals, and the boundary is the very millisecond."""
    exact = datetime(2025, 9, 16, 5, 20, 0, 123_456, tzinfo=UTC)
    clock = ManualClock(exact)
    lease = timedelta(milliseconds=100)
    with open_store(database, clock=clock) as store:
        queue(store)
        claim = start(store, lease=lease)
        for number in range(1, 31):
            clock.advance(timedelta(milliseconds=50))
            renewed = store.runs.renew(claim, lease=lease)
            assert isinstance(renewed, Claim)
            claim = renewed
            rounded = exact.replace(microsecond=123_000)
            assert claim.expires_at == rounded + number * timedelta(milliseconds=50) + lease
        stored = Raw(store, database, capabilities).row("runs", "run_id", "r")
        seen = store.runs.get("r")
        assert seen is not None
        assert seen.lease_expires_at == claim.expires_at
        assert datetime.fromtimestamp(stored["lease_expires_at"] / 1000, UTC) == claim.expires_at

        clock.instant = claim.expires_at - MILLISECOND
        assert isinstance(store.runs.claim("r", runner_id="heir", lease=lease), Refused)
        assert store.runs.verify(claim)
        clock.instant = claim.expires_at
        assert not store.runs.verify(claim)
        assert isinstance(store.runs.claim("r", runner_id="heir", lease=lease), Claim)
