"""Records that are read field by field, when somebody looks: what a move answers hardly is.

To make a record of 41 columns took half as long as SQLite's own work for the call. And a row that
has moved has moved, whatever SQL from outside had put into another of its columns.
"""

from __future__ import annotations

from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from persistence.codec import conversions_of
from statemachine.errors import StoreCorrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from persistence.operation import Cells
    from statemachine.machine import Machine

Conversion: TypeAlias = "Callable[[Any], Any] | None"
"""The Python form of a plain value that is not NULL; None: it is that already."""


def answer_of(machine: Machine) -> Callable[[Cells], Any] | None:
    """Return how a row that has moved becomes the machine's record; None: at once, as others do.

    A field that cannot be read raises `StoreCorrupt` when it is looked at.
    """
    if not can_wait(machine.record):
        return None
    return waiting(machine.record, conversions_of(machine))


def can_wait(record: type[Any]) -> bool:
    """Tell whether reading later gives the very record that its constructor gives."""
    return (
        "__getattr__" not in dir(record)
        and "__attrs_pre_init__" not in dir(record)
        and "__attrs_post_init__" not in dir(record)
        and all(
            isinstance(getattr(record, a.name, None), MemberDescriptorType)
            and a.init
            and a.converter is None
            and a.validator is None
            for a in attrs.fields(record)
        )
    )


def waiting(record: type[Any], conversions: Sequence[Conversion]) -> Callable[[Cells], Any]:
    """Return what makes a record of an answered row's cells.

    What it makes is of a subclass of the record's class, equal to a record of the same values; a
    copy, pickled or not, is of the class itself.

    Args:
        record: A class of which `can_wait` is true.

        conversions: Of each field, in declared order, which is also that of the cells.
    """
    declared = attrs.fields(record)
    put = {a.name: getattr(record, a.name).__set__ for a in declared}
    places = {a.name: place for place, a in enumerate(declared)}
    compared = tuple(a.name for a in declared if a.eq)

    def look(self: Any, name: str) -> Any:
        """Read a field that nobody has looked at yet."""
        place = places.get(name)
        if place is None:
            msg = f"{record.__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)
        value, convert = self._cells[place], conversions[place]
        if value is not None and convert is not None:
            try:
                value = convert(value)
            except (TypeError, ValueError, KeyError, OverflowError) as error:
                msg = f"{record.__name__}: what the column {name} holds cannot be read"
                raise StoreCorrupt(msg) from error
        put[name](self, value)
        return value

    def equal(self: Any, other: object) -> Any:
        if not isinstance(other, record):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in compared)

    def reduce(self: Any) -> tuple[Any, ...]:
        return _made, (record, {a.alias: getattr(self, a.name) for a in declared})

    members: dict[str, Any] = {
        "__slots__": ("_cells",),
        "__doc__": record.__doc__,
        "__module__": record.__module__,
        "__qualname__": record.__qualname__,
        "__annotations__": record.__annotations__,
        "__getattr__": look,
        "__reduce__": reduce,
    }
    if "__eq__" in vars(record):
        members |= {"__eq__": equal, "__hash__": record.__hash__}
    unread: Any = type(record.__name__, (record,), members)
    hold = vars(unread)["_cells"].__set__

    def make(cells: Cells) -> Any:
        made = unread.__new__(unread)
        hold(made, cells)
        return made

    return make


def _made(record: type[Any], values: Mapping[str, Any]) -> Any:
    return record(**values)
