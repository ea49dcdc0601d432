"""A record that is read when it is looked at is, in every other way, the record."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from persistence import Store
from persistence.unread import can_wait, waiting
from statemachine import Run, StoreCorrupt
from tests.cases.launches import queue, stored


@attrs.frozen(kw_only=True)
class Point:
    """A record with a hidden field."""

    x: int
    y: float | None = None
    _hidden: str = attrs.field(default="", repr=False)


MAKE = waiting(Point, (None, float, None))


def test_fields_are_read(store: Store) -> None:
    """What is answered has each field of the stored row, as the record's class declares it."""
    made = queue(store)

    plain = Run(**{field.name: getattr(made, field.name) for field in attrs.fields(Run)})
    assert made == plain
    assert plain == made
    assert isinstance(made, Run)
    assert repr(made) == repr(plain)
    assert made.created_at == datetime(2030, 1, 1, tzinfo=UTC)
    assert stored(store) == made


def test_each_is_converted_once() -> None:
    """A field is converted when it is first looked at, and stays the same object; NULL is None."""
    seen: list[str] = []

    def convert(value: str) -> list[str]:
        seen.append(value)
        return [value]

    record = waiting(Point, (convert, convert, None))(("a", None, "h"))

    assert seen == []
    assert record.x is record.x
    assert (record.x, record.y, record._hidden) == (["a"], None, "h")
    assert seen == ["a"]


@pytest.mark.parametrize(
    "again",
    [
        copy.copy,
        copy.deepcopy,
        attrs.evolve,
        lambda record: pickle.loads(pickle.dumps(record)),  # noqa: S301  # its own
    ],
)
def test_copies_are_equal(again: Callable[[Any], Any]) -> None:
    """Copies, looked at or not, are equal to the original, and to a record made by hand."""
    assert again(MAKE((1, 2, "h"))) == MAKE((1, 2, "h")) == Point(x=1, y=2.0, hidden="h")
    assert again(MAKE((1, 2, "h"))) != Point(x=1, y=2.0)
    assert again(MAKE((1, 2, "h"))) != MAKE((1, 3, "h"))
    assert MAKE((1, 2, "h")) != "another thing"
    assert hash(again(MAKE((1, 2, "h")))) == hash(Point(x=1, y=2.0, hidden="h"))


def test_unreadable_field_is_told_where_it_is_looked_at() -> None:
    """What SQL from outside spoilt is no matter for whoever does not look at it."""
    record = waiting(Point, (None, float, int))((1, "spoilt", "private"))

    assert record.x == 1
    with pytest.raises(StoreCorrupt, match="Point: what the column y holds cannot be read"):
        _ = record.y
    with pytest.raises(StoreCorrupt) as caught:
        _ = record._hidden
    assert "private" not in str(caught.value)


def test_record_stays_frozen() -> None:
    """Nothing can be set or added; an unknown name is an error that names it."""
    record = MAKE((1, 2, "h"))

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        record.x = 3
    with pytest.raises(AttributeError, match="'Point' object has no attribute 'z'"):
        _ = record.z
    assert attrs.asdict(record) == {"x": 1, "y": 2.0, "_hidden": "h"}
    assert repr(record) == "Point(x=1, y=2.0)"


@attrs.frozen
class Made:
    """Does more when it is made."""

    x: int

    def __attrs_post_init__(self) -> None:
        """Do more."""


@attrs.frozen
class Converted:
    """Converts."""

    x: int = attrs.field(converter=int)


@attrs.frozen
class Validated:
    """Validates."""

    x: int = attrs.field(validator=attrs.validators.gt(0))


@attrs.frozen(slots=False)
class Open:
    """Has a dict."""

    x: int = 0


@attrs.frozen
class Derived:
    """Has a field that is no argument."""

    x: int
    y: int = attrs.field(init=False, default=1)


@pytest.mark.parametrize("record", [Made, Converted, Validated, Open, Derived])
def test_constructor_that_does_more_is_called(record: type[object]) -> None:
    """A class whose constructor does more than set the fields is not passed by."""
    assert can_wait(Run)
    assert can_wait(Point)
    assert not can_wait(record)
