"""Plain rows to records, and records to JSON.

Each call reads a row, so rows are read by a plan of their own: cattrs' took four times as long.
"""

from __future__ import annotations

import enum
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

import attrs
from cattrs import Converter

from statemachine.canonical import parse_json
from statemachine.kinds import (
    Boolean,
    Choice,
    Duration,
    Instant,
    Integer,
    Json,
    Kind,
    Prose,
    Text,
    Token,
    instant_of,
    members_of,
    present,
    stored,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from statemachine.kinds import Row
    from statemachine.machine import Machine

_JSON = Converter()
_JSON.register_unstructure_hook(datetime, lambda value: value.isoformat())
_JSON.register_unstructure_hook(timedelta, lambda value: value.total_seconds())
_JSON.register_unstructure_hook(enum.Enum, stored)
_JSON.register_unstructure_hook(bytes, lambda _: None)


def reader_of(machine: Machine) -> Callable[[Row], Any]:
    """Return how a plain row becomes the machine's record; what can be, is worked out here.

    Engine columns that the record does not declare are left out.
    """
    record = machine.record
    names = {a.name: a.alias for a in attrs.fields(record)}
    places = tuple(names.items())
    conversions = [(alias, _conversion(machine.fields[n].kind)) for n, alias in places]
    converted = tuple((alias, convert) for alias, convert in conversions if convert is not None)

    def read(row: Row) -> Any:
        values: dict[str, Any] = {alias: row[name] for name, alias in places}
        for alias, convert in converted:
            value = values[alias]
            if value is not None:
                values[alias] = convert(value)
        return record(**values)

    return read


def _conversion(kind: Kind) -> Callable[[Any], Any] | None:
    """Return the Python form of a plain value that is not NULL; None: it is that already."""
    match kind:
        case Text() | Prose() | Token() | Integer():
            return None
        case Boolean():
            return bool
        case Instant():
            return instant_of
        case Choice():
            return members_of(kind.options).__getitem__
        case Json():
            return parse_json
        case Duration():
            return partial(present, kind)
    assert_never(kind)


def json_of(record: object, *, private: tuple[str, ...] = ()) -> Any:
    """Return a record as JSON, without its private fields; instants as ISO 8601 in UTC."""
    document = _JSON.unstructure(record)
    return {name: value for name, value in document.items() if name not in private}
