"""Every bound of every kind: at it, beside it, and the wrong type."""

from __future__ import annotations

import enum
import hashlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine.errors import InvalidArgument
from statemachine.fitting import is_constant_of
from statemachine.kinds import (
    MAX_DURATION,
    MAX_INSTANT,
    MAX_INTEGER,
    Boolean,
    Choice,
    Duration,
    Instant,
    Integer,
    Json,
    Kind,
    Plain,
    Prose,
    Text,
    Token,
    admit,
    member_of,
    present,
    stored,
)
from statemachine.testing import plain_values


class Colour(enum.StrEnum):
    """Stored by value."""

    RED = "red"
    GREEN = "green"


class Size(enum.Enum):
    """Stored by name, since the values are no text."""

    SMALL = 1
    LARGE = 2


RUN_ID = Text(max_chars=200, pattern="[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
HASH = Text(pattern="[0-9a-f]{64}")
CYCLE: list[object] = []
CYCLE.append(CYCLE)
DEEP: list[object] = []
for _ in range(100_000):
    DEEP = [DEEP]
TOKEN = bytes(range(32))
EAST = timezone(timedelta(hours=14))

ADMITTED: list[tuple[Kind, object, Plain]] = [
    (Text(), "a", "a"),
    (Text(), "a" * 512, "a" * 512),
    (Text(), "é" * 512, "é" * 512),
    (Text(), "€" * 341, "€" * 341),
    (Text(), "😀" * 256, "😀" * 256),
    (Text(), " \x80", " \x80"),
    (Text(), Colour.RED, "red"),
    (RUN_ID, "a" * 200, "a" * 200),
    (RUN_ID, "0._-", "0._-"),
    (HASH, "0" * 64, "0" * 64),
    (Prose(), "", ""),
    (Prose(), "a\x00b\ud800", "a\ufffdb\ufffd"),
    (Prose(cut_chars=3), "abcd", "abc"),
    (Prose(cut_chars=3), "abc", "abc"),
    (Prose(cut_chars=3), " \n ", " \n "),
    (Prose(max_bytes=3), " \ufeffabc\u2028", "abc"),
    (Prose(max_bytes=3), "€", "€"),
    (Prose(max_bytes=3), "\x85a", "\x85a"),
    (Json(4), None, "null"),
    (Json(7), {"b": 1}, '{"b":1}'),
    (Json(100), {"b": [1.0, True], "a": "é"}, '{"a":"é","b":[1,true]}'),
    (Json(100), (1, 2), "[1,2]"),
    (Json(100), MAX_INTEGER, str(MAX_INTEGER)),
    (Json(100), -MAX_INTEGER, str(-MAX_INTEGER)),
    (Json(100), 1e300, "1e+300"),
    (Json(100), 1e20, "100000000000000000000"),
    (Instant(), datetime(1970, 1, 1, tzinfo=UTC), 0),
    (Instant(), datetime(1970, 1, 1, 14, tzinfo=EAST), 0),
    (Instant(), datetime(1970, 1, 1, 0, 0, 0, 1999, tzinfo=UTC), 1),
    (Instant(), datetime.max.replace(tzinfo=UTC), MAX_INSTANT),
    (Duration(), timedelta(milliseconds=1), 1),
    (Duration(), timedelta(microseconds=1), 1),
    (Duration(), timedelta(microseconds=1001), 2),
    (Duration(), timedelta(days=36_525), MAX_DURATION),
    (Boolean(), True, True),
    (Boolean(), False, False),
    (Integer(), 0, 0),
    (Integer(), MAX_INTEGER, MAX_INTEGER),
    (Integer(minimum=1, maximum=2), 2, 2),
    (Choice(Colour), Colour.RED, "red"),
    (Choice(Colour), "green", "green"),
    (Choice(Size), Size.SMALL, "SMALL"),
    (Choice(Size), "LARGE", "LARGE"),
    (Choice(Colour, (Colour.RED,)), "red", "red"),
    (Token(), TOKEN, hashlib.sha256(TOKEN).hexdigest()),
]

REFUSED: list[tuple[Kind, object]] = [
    (Text(), ""),
    (Text(), "a" * 513),
    (Text(), "€" * 342),
    (Text(), "a\x1f"),
    (Text(), "\x7f"),
    (Text(), "\ud800"),
    (Text(), "a\x00"),
    (Text(), b"a"),
    (Text(), 1),
    (Text(), None),
    (RUN_ID, ".a"),
    (RUN_ID, "a" * 201),
    (RUN_ID, "a b"),
    (RUN_ID, "a\n"),
    (HASH, "0" * 63),
    (HASH, "A" * 64),
    (Prose(), 1),
    (Prose(), b""),
    (Prose(max_bytes=3), "abcd"),
    (Prose(max_bytes=3), "€a"),
    (Prose(max_bytes=3), " \u3000 "),
    (Json(3), None),
    (Json(100), MAX_INTEGER + 1),
    (Json(100), [-MAX_INTEGER - 1]),
    (Json(100), float("nan")),
    (Json(100), float("-inf")),
    (Json(100), "\x00"),
    (Json(100), {"\ud800": 1}),
    (Json(100), {1: 1}),
    (Json(100), CYCLE),
    (Json(10**9), DEEP),
    (Json(100), {1}),
    (Json(100), b""),
    (Json(100), object()),
    (Instant(), datetime(2030, 1, 1)),  # noqa: DTZ001  # a naive one is what is refused
    (Instant(), datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    (Instant(), datetime.min.replace(tzinfo=EAST)),
    (Instant(), datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))),
    (Instant(), 0),
    (Instant(), "1970-01-01"),
    (Duration(), timedelta(0)),
    (Duration(), timedelta(microseconds=-1)),
    (Duration(), timedelta(days=36_525, microseconds=1)),
    (Duration(), timedelta.max),
    (Duration(), timedelta.min),
    (Duration(), 1),
    (Boolean(), 1),
    (Boolean(), None),
    (Boolean(), "true"),
    (Integer(), -1),
    (Integer(), MAX_INTEGER + 1),
    (Integer(minimum=1), 0),
    (Integer(), True),
    (Integer(), 1.0),
    (Integer(), "1"),
    (Choice(Colour), "blue"),
    (Choice(Colour), "RED"),
    (Choice(Size), 1),
    (Choice(Colour, (Colour.RED,)), Colour.GREEN),
    (Token(), bytes(31)),
    (Token(), bytes(33)),
    (Token(), "0" * 32),
    (Token(), bytearray(32)),
]


@pytest.mark.parametrize(("kind", "value", "plain"), ADMITTED)
def test_a_value_within_its_bounds_is_stored_in_plain_form(
    kind: Kind, value: object, plain: Plain
) -> None:
    """What a kind admits, at its bounds too, it stores in one form."""
    found = admit(kind, value, "field")

    assert found == plain
    assert type(found) is type(plain)


@pytest.mark.parametrize(
    ("kind", "value"), REFUSED, ids=[f"{type(k).__name__}-{n}" for n, (k, _) in enumerate(REFUSED)]
)
def test_a_value_beside_its_bounds_is_refused_by_name(kind: Kind, value: object) -> None:
    """What lies beside a bound, or is of another type, is refused before any SQL."""
    with pytest.raises(InvalidArgument, match=r"^field must be ") as caught:
        admit(kind, value, "field")

    assert caught.value.field == "field"


@pytest.mark.parametrize(
    "kind",
    [Text(), RUN_ID, HASH, Prose(), Prose(cut_chars=5, max_bytes=9), Json(1000), Instant()]
    + [Duration(), Boolean(), Integer(), Integer(3, 4), Choice(Colour), Choice(Size)],
    ids=repr,
)
@given(data=st.data())
def test_a_stored_value_comes_back_as_it_went_in(kind: Kind, data: st.DataObject) -> None:
    """Reading a plain value and storing it again changes nothing."""
    plain = data.draw(plain_values(kind))

    assert admit(kind, present(kind, plain), "field") == plain


@given(plain_values(Token()))
def test_a_token_is_known_by_its_hash_alone(plain: Plain) -> None:
    """A token's plain form is 64 hexadecimal digits."""
    assert is_constant_of(HASH, plain)
    assert present(Token(), plain) == plain


def test_an_enum_member_is_stored_by_text_or_by_name() -> None:
    """A text value stands for itself; any other member by its name; both are found again."""
    assert [stored(member) for member in (*Colour, *Size)] == ["red", "green", "SMALL", "LARGE"]
    assert member_of(Size, "LARGE") is Size.LARGE
    with pytest.raises(KeyError):
        member_of(Size, "2")
