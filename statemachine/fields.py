"""The columns of a record class, read from its annotations and defaults."""

from __future__ import annotations

import enum
from datetime import datetime
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import attrs
from attrs import frozen

from statemachine.errors import MachineError
from statemachine.kinds import Boolean, Choice, Instant, Integer, Kind, Plain, Text, admit

_PLAIN_KINDS: dict[type, Kind] = {
    str: Text(),
    bool: Boolean(),
    int: Integer(),
    datetime: Instant(),
}


@frozen
class Field:
    """One column of a machine's row.

    Attributes:
        name: Its name in record and table.

        kind: Its bounds and plain form.

        nullable: Whether it may be NULL.

        has_default: Whether a creation may leave it out.

        default: Its plain value then.
    """

    name: str
    kind: Kind
    nullable: bool
    has_default: bool = False
    default: Plain = None

    @property
    def choices(self) -> tuple[str, ...]:
        """The stored texts of a choice; empty for another kind."""
        return self.kind.texts if isinstance(self.kind, Choice) else ()


ENGINE_FIELDS = {
    f.name: f
    for f in (
        Field("revision", Integer(minimum=1), nullable=False),
        Field("last_transition", Text(), nullable=False),
        Field("last_actor_kind", Text(), nullable=False),
        Field("last_actor", Text(), nullable=False),
        Field("last_call", Text(), nullable=False),
        Field("updated_at", Instant(), nullable=False),
    )
}
"""The columns that the engine adds to every table; a record shows those that it declares."""


def fields_of(record: type[Any], machine: str) -> dict[str, Field]:
    """Return the columns of a record class, in declared order.

    `datetime`, `bool`, `int`, `str` and enums have a kind of their own; any other is given as
    `Annotated[type, kind]`. `| None` makes a column nullable.

    Raises:
        MachineError: Not an attrs class, or an annotation without a kind.
    """
    if not attrs.has(record):
        raise MachineError(machine, record.__name__, "the record must be an attrs class")
    hints = get_type_hints(record, include_extras=True)
    return {
        attribute.name: _field(attribute, hints[attribute.name], machine)
        for attribute in attrs.fields(record)
    }


def _field(attribute: attrs.Attribute[Any], hint: object, machine: str) -> Field:
    kind, nullable = kind_of(hint)
    if kind is None:
        raise MachineError(machine, attribute.name, f"no column kind for {hint!r}")
    default = attribute.default
    if default is attrs.NOTHING:
        return Field(attribute.name, kind, nullable)
    if default is not None and hasattr(default, "factory"):
        default = default.factory()
    plain = None if default is None and nullable else admit(kind, default, attribute.name)
    return Field(attribute.name, kind, nullable, has_default=True, default=plain)


def kind_of(hint: object) -> tuple[Kind | None, bool]:
    """Return the kind that an annotation stands for, and whether it may be None."""
    if get_origin(hint) in (Union, UnionType):
        parts = [part for part in get_args(hint) if part is not type(None)]
        kind, _ = kind_of(parts[0]) if len(parts) == 1 else (None, True)
        return kind, len(parts) < len(get_args(hint))
    if get_origin(hint) is Annotated:
        kinds = [part for part in get_args(hint)[1:] if isinstance(part, Kind)]
        return (kinds[0] if kinds else None), False
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return Choice(hint), False
    return (_PLAIN_KINDS.get(hint) if isinstance(hint, type) else None), False
