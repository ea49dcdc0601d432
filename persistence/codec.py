"""The one cattrs converter: plain rows and JSON to records, and back."""

from __future__ import annotations

import enum
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from cattrs import Converter

from statemachine.fields import kind_of
from statemachine.kinds import Prose, Text, Token, present, stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from statemachine.kinds import Row
    from statemachine.machine import Machine

_AS_STORED = (Text, Prose, Token)


def _is_column(hint: Any) -> bool:
    kind, nullable = kind_of(hint)
    return kind is not None and not nullable


def _structure(hint: Any) -> Callable[[Any, Any], Any]:
    kind, _ = kind_of(hint)
    assert kind is not None
    if isinstance(kind, _AS_STORED):
        return lambda value, _: value
    return lambda value, _: present(kind, value)


def _converter() -> Converter:
    rows = Converter(detailed_validation=False)
    rows.register_structure_hook_factory(_is_column, _structure)
    return rows


_ROWS = _converter()
_JSON = Converter()
_JSON.register_unstructure_hook(datetime, lambda value: value.isoformat())
_JSON.register_unstructure_hook(timedelta, lambda value: value.total_seconds())
_JSON.register_unstructure_hook(enum.Enum, stored)
_JSON.register_unstructure_hook(bytes, lambda _: None)


def record_of(machine: Machine, row: Row) -> Any:
    """Return a row as the machine's record, without the engine columns it does not declare."""
    return _ROWS.structure(row, machine.record)


def json_of(record: object, *, private: tuple[str, ...] = ()) -> Any:
    """Return a record as JSON, without its private fields; instants as ISO 8601 in UTC."""
    document = _JSON.unstructure(record)
    return {name: value for name, value in document.items() if name not in private}
