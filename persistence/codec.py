"""Plain rows to records, by a plan of their own.

Each call reads a row; cattrs took four times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

import attrs

from statemachine.canonical import parse_json
from statemachine.errors import StoreCorrupt
from statemachine.kinds import (
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
    instant_of,
    members_of,
    present,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from persistence.operation import Cells
    from statemachine.kinds import Row
    from statemachine.machine import Machine


class Answered(Mapping[str, Plain]):
    """An answered row, by column; what few callers look into need not be a dict.

    Args:
        cells: What the database answered; more than the places are passed over.

        places: Where each column's cell is.
    """

    __slots__ = ("cells", "places")

    def __init__(self, cells: Cells, places: Mapping[str, int]) -> None:
        self.cells = cells
        self.places = places

    def __getitem__(self, name: str) -> Plain:
        value: Plain = self.cells[self.places[name]]
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


def reader_of(machine: Machine) -> Callable[[Row], Any]:
    """Return how a plain row becomes the machine's record; what can be, is worked out here.

    Engine columns that the record does not declare are left out. The reader raises `StoreCorrupt`
    where SQL from outside stored what is none of a column's values.
    """
    record, fields = machine.record, machine.fields
    declared = attrs.fields(record)
    # The record's own columns come first in a row, in declared order.
    names = tuple(attribute.name for attribute in declared)
    aliases = tuple(attribute.alias for attribute in declared)
    conversions = [(place, _conversion(fields[name].kind)) for place, name in enumerate(names)]
    converted = tuple((place, convert) for place, convert in conversions if convert is not None)

    def read(row: Row) -> Any:
        values = list(row.cells) if isinstance(row, Answered) else [row[name] for name in names]
        place = 0
        try:
            for place, convert in converted:
                value = values[place]
                if value is not None:
                    values[place] = convert(value)
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            key = row[machine.key.name]
            msg = f"{machine.name} {key!r}: what its column {names[place]} holds cannot be read"
            raise StoreCorrupt(msg) from error
        return record(**dict(zip(aliases, values, strict=False)))

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


def conversions_of(machine: Machine) -> tuple[Callable[[Any], Any] | None, ...]:
    """Return how each field of the machine's record is read, in declared order; None: as it is."""
    names = (attribute.name for attribute in attrs.fields(machine.record))
    return tuple(_conversion(machine.fields[name].kind) for name in names)
