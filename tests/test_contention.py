"""Many processes on one database: each run is taken once, each race has one winner."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from persistence import Cancelled, CancelRequested, Claim, ManualClock, Store, open_store
from statemachine import Reason, Refused, Run
from tests import racing
from tests.conftest import START
from tests.racing import LEASE, Racers

ROUNDS = 500
QUEUED = 2_000


@pytest.fixture(scope="module")
def racers() -> Iterator[Racers]:
    with racing.racers() as started:
        yield started


@pytest.fixture(params=["sqlite-file", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database that several processes can open."""
    if request.param == "sqlite-file":
        return str(tmp_path / "race.db")
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def db(url: str) -> Iterator[Store]:
    """The referee's own store."""
    with open_store(url) as opened:
        yield opened


def _queue(store: Store, count: int) -> list[str]:
    """Reserve runs, and return their ids in the order in which they are taken."""
    names = [f"run-{number:05}" for number in range(count)]
    with store.transaction():
        for name in names:
            store.runs.reserve(
                run_id=name,
                workflow="race",
                source_ref="race.py",
                source={},
                definition_digest="d",
                max_attempts=1,
            )
    return names


def _steps(store: Store, run_id: str) -> list[str]:
    return [event.transition for event in store.runs.history(run_id)]


def test_each_run_is_claimed_once(url: str, db: Store, racers: Racers) -> None:
    """CLM-01: 32 runners drain 2,000 queued runs, each of which is granted to exactly one.

    No error of a driver, and no busy database, reaches a caller.
    """
    names = _queue(db, QUEUED)

    claims: list[Any] = racers.crowd(url, racing.drain)

    assert [c for c in claims if not isinstance(c, Claim)] == []
    assert sorted(claim.run_id for claim in claims) == names
    held: dict[str, str | None] = {}
    after = None
    while page := db.runs.list(limit=1_000, after=after):
        held |= {run.run_id: run.lease_token_hash for run in page}
        after = page[-1].run_id
    assert held == {c.run_id: hashlib.sha256(c.token).hexdigest() for c in claims}
    assert {tuple(_steps(db, name)) for name in names} == {("reserve", "claim")}


def test_cancel_against_claim_and_start(url: str, db: Store, racers: Racers) -> None:
    """CAN-01: a run whose cancelling was answered *cancelled* never starts.

    One that started is asked to end; there is no third pattern.
    """
    names = _queue(db, ROUNDS)

    answers = racers.pair(url, (racing.cancel, racing.claim_and_start), names)

    patterns: Counter[tuple[type, type, tuple[str, ...]]] = Counter()
    for name, (cancelled, started) in zip(names, answers, strict=True):
        steps = tuple(_steps(db, name))[1:]
        patterns[type(cancelled), type(started), steps] += 1
        if isinstance(started, Refused):
            assert started.state == "cancelled"
    assert sum(patterns.values()) == ROUNDS
    assert set(patterns) <= {
        (Cancelled, Refused, ("cancel",)),
        (Cancelled, Refused, ("claim", "cancel")),
        (CancelRequested, Run, ("claim", "mark_running", "request_cancel")),
    }


def test_finish_against_reap(url: str, racers: Racers) -> None:
    """SWP-03: a lease that is live for its holder and expired for the reaper is ended by one.

    The late holder is told that its lease is lost, the late reaper what state it found.
    """
    with open_store(url, clock=ManualClock(START)) as db:
        claims = []
        for name in _queue(db, ROUNDS):
            claim = db.runs.claim(name, runner_id="holder", lease=timedelta(seconds=30))
            assert isinstance(claim, Claim)
            db.runs.mark_running(claim)
            claims.append(claim)
        expiry = START + timedelta(seconds=30)

        answers = racers.pair(
            url,
            (racing.finish, racing.reap),
            claims,
            at=(expiry - timedelta(milliseconds=1), expiry),
        )

        for claim, (finished, reaped) in zip(claims, answers, strict=True):
            last = _steps(db, claim.run_id)[3:]
            if isinstance(finished, Run):
                assert (last, reaped.reason, reaped.state) == (["finish"], Reason.STATE, "done")
            else:
                assert (last, reaped.status, finished.state) == (["reap"], "failed", "failed")
                assert finished.lost is not None
                assert (finished.lost.presented, finished.lost.present) == (1, 2)


def test_no_wake_up_is_lost(url: str, db: Store, racers: Racers) -> None:
    """WAK-01: a run that waits for another is not left waiting once that one has ended.

    Who ends it wakes after the end; who waits looks again after the park. Whichever way the two
    meet, one of them sees the other.
    """
    names = _queue(db, 2 * ROUNDS)
    claims = [db.runs.claim(name, runner_id="w", lease=LEASE) for name in names]
    pairs = list(zip(claims[::2], claims[1::2], strict=True))

    answers = racers.pair(
        url,
        (racing.wait_for_child, racing.end_for_parent),
        pairs,
    )

    for (parent, child), (waited, _) in zip(pairs, answers, strict=True):
        assert isinstance(parent, Claim)
        assert isinstance(child, Claim)
        run = db.runs.get(parent.run_id)
        assert run is not None
        steps = _steps(db, parent.run_id)[2:]
        if waited == "not needed":
            assert (run.status, steps) == ("starting", [])
        else:
            assert (run.status, run.waiting, steps) == ("parked", False, ["park", "wake"])
        assert _steps(db, child.run_id)[2:] == ["finish"]


def test_two_claims_of_one_run(url: str, db: Store, racers: Racers) -> None:
    """Of two that claim one run at once, one holds it, and the other hears that it is not free."""
    names = _queue(db, ROUNDS)

    answers = racers.pair(url, (racing.claim_as_first, racing.claim_as_second), names)

    for name, both in zip(names, answers, strict=True):
        (won,) = [answer for answer in both if isinstance(answer, Claim)]
        (lost,) = [answer for answer in both if isinstance(answer, Refused)]
        assert (lost.reason, lost.guard, lost.state) == (Reason.GUARD, "free", "starting")
        stored = db.runs.get(name)
        assert stored is not None
        assert stored.lease_token_hash == hashlib.sha256(won.token).hexdigest()
        assert _steps(db, name) == ["reserve", "claim"]


def test_two_calls_of_one_id(url: str, db: Store, racers: Racers) -> None:
    """Two calls of one id, made at once, move the row once; both are answered the moved row."""
    names = _queue(db, ROUNDS)

    answers = racers.pair(url, (racing.pause, racing.pause), names)

    for name, (one, other) in zip(names, answers, strict=True):
        assert (one.paused, one) == (True, other)
        assert _steps(db, name) == ["reserve", "pause"]


def test_two_selections_of_one_id(url: str, db: Store, racers: Racers) -> None:
    """Two `claim_next` of one id, made at once with a token each, take one run.

    One holds it; the other is told that its token is not the one that does.
    """
    names = _queue(db, 2 * ROUNDS)
    calls = [f"take {number}" for number in range(ROUNDS)]

    answers = racers.pair(url, (racing.claim_next_once, racing.claim_next_once), calls)

    taken = []
    for both in answers:
        (won,) = [answer for answer in both if isinstance(answer, Claim)]
        (lost,) = [answer for answer in both if isinstance(answer, Refused)]
        assert (lost.guard, lost.key) == ("held", won.run_id)
        taken.append(won.run_id)
    assert taken == names[:ROUNDS]
    assert db.runs.claim_next("next", LEASE).run_id == names[ROUNDS]  # type: ignore[union-attr]  # a Claim, or the test fails
