"""What lies within its bounds is stored as it was given, on every database alike."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta, timezone

import pytest

from persistence import CancelRequested, Claim, ManualClock, Store, open_store
from statemachine import Actor, Refused, Run
from statemachine.errors import InvalidArgument
from statemachine.kinds import EPOCH, JsonValue
from tests.cases.launches import LEASE, queue, start, take
from tests.conftest import START, Capabilities
from tests.raw import Raw

MILLISECOND = timedelta(milliseconds=1)
CENTURY = timedelta(days=36_525)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


def incompressible(letters: str, length: int) -> str:
    """Return text that no database makes smaller, always the same."""
    chance = random.Random(length)
    return "".join(chance.choice(letters) for _ in range(length))


LONGEST = {
    "one byte": incompressible("".join(chr(c) for c in range(0x20, 0x7F)), 512),
    "two bytes": incompressible("".join(chr(c) for c in range(0x80, 0x800)), 512),
    "three bytes": incompressible("".join(chr(c) for c in range(0x4E00, 0x9FFF)), 341),
    "four bytes": incompressible("".join(chr(c) for c in range(0x1F300, 0x1F600)), 256),
}
"""The longest keys of each width; two of them must fit one entry of an index."""


@pytest.mark.parametrize("key", LONGEST.values(), ids=LONGEST)
def test_the_longest_keys_fit_together_through_a_whole_life(
    database: str, clock: ManualClock, key: str
) -> None:
    """Every key of a run, a call and an actor at its longest, in every index that holds pairs."""
    run_id = "r" * 200
    with open_store(database, clock=clock, project=key, actor=Actor(key, key)) as store:
        runs = store.runs
        reserved = runs.reserve(
            run_id=run_id,
            workflow=key,
            source_ref=key,
            source=key,
            definition_digest=key,
            origin_session_id=key,
            affinity_runner_id=key,
            affinity_until=clock.now(),
            parent_run_id="p" * 200,
            call=key,
        )
        claim = runs.claim_next(key, LEASE, session_id=key, exclude=["x" * 200])
        assert isinstance(claim, Claim)
        assert runs.mark_running(claim)
        assert runs.park(claim)
        claim = runs.claim_next(key, LEASE)
        assert isinstance(claim, Claim)
        noted = runs.append_event(run_id, type=key, payload=key)
        failed = runs.fail(claim, error_code=key, error_message=key[:500])

        assert isinstance(failed, Run)
        assert not isinstance(noted, Refused)
        assert (noted.type, noted.payload, noted.actor) == (key, key, Actor(key, key))
        assert (failed.project, failed.workflow, failed.source_ref) == (key, key, key)
        assert (failed.source, failed.definition_digest) == (key, key)
        assert (failed.origin_session_id, failed.affinity_runner_id) == (key, key)
        assert (failed.error_code, failed.run_id) == (key, run_id)
        assert runs.list(origin_session_id=key) == [failed]
        assert runs.history(run_id)[0].call == key
        assert reserved.last_actor == key


def test_pairs_of_the_longest_keys_are_told_apart(store: Store) -> None:
    """Keys that differ in the last of their characters alone are different keys."""
    for number, last in enumerate("ab"):
        queue(store, f"r{number}", session=LONGEST["one byte"][:-1] + last)

    found = [store.runs.find_reservation(LONGEST["one byte"][:-1] + last) for last in "ab"]

    assert [run.run_id if run else None for run in found] == ["r0", "r1"]


def test_a_call_of_several_steps_takes_the_longest_id(store: Store) -> None:
    """A call that makes several steps derives their ids from its own, whatever its length."""
    for number, call in enumerate((*LONGEST.values(), "c")):
        queue(store, f"r{number}")
        claims = store.runs.claim_many("w", LEASE, limit=1, call=call, token=b"t" * 32)
        again = store.runs.claim_many("w", LEASE, limit=1, call=call, token=b"t" * 32)

        assert [claim.run_id for claim in claims] == [f"r{number}"]
        assert again == claims
        assert store.runs.mark_running(claims[0])
        asked = store.runs.cancel(f"r{number}", call=call)
        assert isinstance(asked, CancelRequested)
        assert store.runs.cancel(f"r{number}", call=call) == asked


def test_a_repeated_cancellation_answers_what_it_answered(
    store: Store, raw: Raw, clock: ManualClock
) -> None:
    """Also when by now it could do more: a call id moves a run once."""
    queue(store)
    start(store)
    asked = store.runs.cancel("r", call="a call")
    clock.advance(LEASE)
    before = raw.content()

    again = store.runs.cancel("r", call="a call")

    assert isinstance(asked, CancelRequested)
    assert again == asked
    assert raw.content() == before
    assert not isinstance(store.runs.cancel("r", call="another call"), CancelRequested)


@pytest.fixture(name="raw")
def _raw(store: Store, database: str, capabilities: Capabilities) -> Raw:
    return Raw(store, database, capabilities)


LARGE: dict[str, JsonValue] = {
    "null": None,
    "the largest integers": [2**53, -(2**53), 2**53 - 1, 0],
    "floats": [1e300, 5e-324, 1.5, -2.5e-7, 1e21, 123456789.123],
    "text like numbers": ["007", "1e3", " 42 ", "1.10", "0x10"],
    "text of all sorts": ["", " ", "é", "𝄞", "\u2028", "\x7f", "\x01", '"', "\\", "'", "%s %(a)s"],
    "names of all sorts": {"": 1, "é": 2, "𝄞": 3, "%": 4, "a.b": 5, "\x01": 6},
    "nesting": [[[[[{"a": [{"b": []}]}]]]]],
    "booleans": [True, False, None],
}


@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
def test_json_is_read_back_as_it_was_given(store: Store, value: JsonValue) -> None:
    """Source, input, options, result and payload: the very value, type by type."""
    run = store.runs.reserve(
        run_id="r",
        workflow="w",
        source_ref="r",
        source=value,
        definition_digest="d",
        input=value,
        launch_options={} if value is None else value,
    )
    noted = store.runs.append_event("r", type="noted", payload=value)
    done = store.runs.finish(start(store), result=value)

    assert isinstance(done, Run)
    assert not isinstance(noted, Refused)
    for read in (run.source, run.input, run.launch_options or value, done.result):
        assert read == value
        assert _types(read) == _types(value)
    assert store.runs.get("r") == done


def _types(value: object) -> object:
    match value:
        case list():
            return [_types(item) for item in value]
        case dict():
            return {name: _types(item) for name, item in value.items()}
        case float():
            return ("float", math.copysign(1, value))
        case _:
            return type(value).__name__


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_text_is_kept_whatever_the_environment_says(
    database: str, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    """An encoding that programs of PostgreSQL are told to use is none of the store's."""
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    text = "é世𝄞"
    with open_store(database) as store:
        run = store.runs.reserve(
            run_id="r", workflow=text, source_ref=text, source=text, definition_digest="d"
        )
        assert store.runs.get("r") == run
        assert (run.workflow, run.source) == (text, text)


@pytest.mark.parametrize("letter", ["x", "é", "𝄞"])
def test_json_of_the_largest_size_fits(store: Store, letter: str) -> None:
    """To the byte: 65,536 of source and options, 1,048,576 of input and result."""
    width = len(letter.encode())

    def filled(size: int) -> str:
        count, rest = divmod(size - 2, width)
        return letter * count + "x" * rest

    small, large = filled(65_536), filled(1_048_576)
    run = store.runs.reserve(
        run_id="r",
        workflow="w",
        source_ref="r",
        source=small,
        definition_digest="d",
        input=large,
        launch_options=small,
    )
    done = store.runs.finish(take(store), result=large)

    assert isinstance(done, Run)
    assert (run.source, run.input, run.launch_options) == (small, large, small)
    assert (done.result, done.input, done.launch_options) == (large, None, {})
    assert store.runs.append_event("r", type="noted", payload=small)


def test_instants_round_down_and_durations_round_up(store: Store, clock: ManualClock) -> None:
    """To the millisecond; whatever its zone, an instant is the same."""
    zone = timezone(timedelta(hours=-7))
    odd = START + timedelta(microseconds=1_999)
    for number, instant in enumerate((odd, odd.astimezone(zone), LAST, EPOCH)):
        run = store.runs.reserve(
            run_id=f"r{number}",
            workflow="w",
            source_ref="r",
            source=None,
            definition_digest="d",
            available_at=instant,
            affinity_until=instant,
            affinity_runner_id="w",
        )
        rounded = instant.astimezone(UTC).replace(microsecond=instant.microsecond // 1000 * 1000)

        assert (run.available_at, run.affinity_until) == (rounded, rounded)
    for lease, lasts in (
        (timedelta(microseconds=1), MILLISECOND),
        (MILLISECOND, MILLISECOND),
        (timedelta(microseconds=1_001), 2 * MILLISECOND),
        (CENTURY, CENTURY),
    ):
        claim = take(store, "r0", lease=lease)

        assert claim.expires_at == clock.now() + lasts
        assert store.runs.verify(claim)
        clock.advance(lasts - MILLISECOND)
        assert store.runs.verify(claim)
        clock.advance(MILLISECOND)
        assert not store.runs.verify(claim)


def test_counts_at_their_bounds_are_let_in(store: Store) -> None:
    """Limits of 1 and of the most, a thousand exclusions, the largest number of attempts."""
    run = queue(store, "r", max_attempts=2**53)
    queue(store, "s", max_attempts=1)
    some = [f"x{number}" for number in range(999)]

    assert run.max_attempts == 2**53
    for limit in (1, 1_000):
        assert store.runs.list(limit=limit)[0].run_id == "r"
        assert store.runs.history("r", limit=limit, after_revision=0)
        assert store.events_after(limit=limit).events or limit
        assert store.runs.reap_due(limit) == []
    assert store.runs.history("r", after_revision=2**53) == []
    claim = store.runs.claim_next("w", LEASE, exclude=[*some, "r"])
    assert isinstance(claim, Claim)
    assert claim.run_id == "s"
    claims = store.runs.claim_many("w", LEASE, limit=100, exclude=[*some, "s"])
    assert [claim.run_id for claim in claims] == ["r"]


MESSAGES = {
    "at its longest": ("x" * 2_048, "x" * 2_048),
    "at its longest in bytes": ("é" * 1_024, "é" * 1_024),
    "longer before it is trimmed": (" " * 5_000 + "m\n\t\ufeff", "m"),
    "with U+0000": ("a\x00b", "a\ufffdb"),
    "of U+0000 alone": ("\x00", "\ufffd"),
    "with lone surrogates": ("x\ud800y\udfffz", "x\ufffdy\ufffdz"),
    "with control characters": ("a\x01\x1b[31m\x7fb", "a\x01\x1b[31m\x7fb"),
    "with whatever SQL means": ("'; DROP -- %s %(x)s :x ? $1", "'; DROP -- %s %(x)s :x ? $1"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "kept"), MESSAGES.values(), ids=MESSAGES)
def test_a_run_can_always_fail_whatever_its_error_text_holds(
    store: Store, given: str, kept: str
) -> None:
    """What no database stores is replaced, by one documented rule; the run ends."""
    queue(store)
    failed = store.runs.fail(start(store), error_code="code", error_message=given)

    assert isinstance(failed, Run)
    assert failed.error_message == kept
    assert store.runs.get("r") == failed
    assert store.runs.history("r")[-1].changes["error_message"] == kept


def test_a_detail_is_cut_not_refused(store: Store) -> None:
    """At 8,192 code points of any width; U+0000 and lone surrogates are replaced in it."""
    for number, letter in enumerate("xé𝄞\x00"):
        queue(store, f"r{number}")
        parked = store.runs.park_source_changed(
            take(store, f"r{number}"), error_message="m", status_detail=letter * 9_000
        )

        assert isinstance(parked, Run)
        assert parked.status_detail == letter.replace("\x00", "\ufffd") * 8_192


def test_a_lease_that_would_outlast_time_itself_is_refused(
    store: Store, raw: Raw, clock: ManualClock
) -> None:
    """An expiry beyond the year 9999 is no instant: the lease is named, and nothing is written."""
    queue(store)
    queue(store, "held")
    claim = take(store, "held", lease=CENTURY)
    clock.instant = LAST - timedelta(days=1)
    before = raw.content()

    for lease in (CENTURY, timedelta(days=1, milliseconds=1)):
        with pytest.raises(InvalidArgument, match="lease"):
            store.runs.claim("r", runner_id="w", lease=lease)
        with pytest.raises(InvalidArgument, match="lease"):
            store.runs.claim_next("w", lease)
        with pytest.raises(InvalidArgument, match="lease"):
            store.runs.claim_many("w", lease, limit=1)
        with pytest.raises(InvalidArgument, match="lease"):
            store.runs.renew(claim, lease=lease)
        with pytest.raises(InvalidArgument, match="lease"):
            store.runs.enqueue(workflow="w", source_ref="r", runner_id="w", lease=lease)
    assert raw.content() == before

    assert take(store, lease=timedelta(days=1)).expires_at == LAST.replace(microsecond=999_000)


def test_time_may_begin_with_the_epoch(store: Store, clock: ManualClock) -> None:
    """A clock at the first instant there is works like any other; it never leaves time."""
    clock.instant = EPOCH
    queue(store)
    claim = start(store)

    assert claim.expires_at == clock.now() + LEASE
    assert store.runs.finish(claim)
    for beyond in (-MILLISECOND, CENTURY * 81):
        with pytest.raises(InvalidArgument, match="instant"):
            clock.advance(beyond)
