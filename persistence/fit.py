"""Whether a table that a user made fits a machine, told from the database's catalog."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, assert_never

from attrs import frozen

from persistence.dialect import Flag, Whole, column_type
from statemachine.kinds import (
    MAX_DURATION,
    MAX_INSTANT,
    Boolean,
    Choice,
    Duration,
    Instant,
    Integer,
    Json,
    Prose,
    Text,
    Token,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from persistence.dialect import Dialect, Types
    from statemachine.fields import Field
    from statemachine.kinds import Kind
    from statemachine.machine import Machine

_HASH_CHARS = 64


@frozen
class Column:
    """A column as the database has it.

    Attributes:
        type: Its type, spelled as the catalog does.

        required: It is NOT NULL.

        filled: An insert may leave it out.

        generated: It cannot be written.

        folding: What differs may be equal there.
    """

    type: str
    required: bool
    filled: bool
    generated: bool
    folding: bool

    @classmethod
    def of(cls, definition: str) -> Self:
        """Read the catalog's definition of a column."""
        head, default, _ = definition.partition(", DEFAULT ")
        kind, *said = head.split(", ")
        filled = bool(default) or any(part.startswith("IDENTITY") for part in said)
        generated = "GENERATED" in said
        return cls(
            kind, "NOT NULL" in said, filled or generated, generated, "NONDETERMINISTIC" in said
        )


def is_there(machine: Machine, catalog: Mapping[str, str]) -> bool:
    """Tell whether the database has a table of the machine's name, or what is no plain one."""
    return f"table {machine.table}" in catalog or unlike_a_table(machine, catalog) is not None


def unlike_a_table(machine: Machine, catalog: Mapping[str, str]) -> str | None:
    """Return what the machine's table is, where no trigger of it could guard all its rows."""
    what = catalog.get(f"relation {machine.table}")
    return None if what is None else f"{machine.table} is {what}: only a table alone can be bound"


def lacking(machine: Machine, catalog: Mapping[str, str]) -> tuple[Field, ...]:
    """Return the machine's columns that the table does not have."""
    fields = machine.fields.values()
    return tuple(f for f in fields if f"column {machine.table}.{f.name}" not in catalog)


def misfits(machine: Machine, dialect: Dialect, catalog: Mapping[str, str]) -> list[str]:
    """Return why the table's own columns do not fit the machine; empty: they do."""
    unlike = unlike_a_table(machine, catalog)
    if unlike is not None:
        return [unlike]
    table, own, key = machine.table, f"column {machine.table}.", machine.key.name
    problems = []
    for name, definition in catalog.items():
        if not name.startswith(own):
            continue
        column, field = Column.of(definition), machine.fields.get(name.removeprefix(own))
        if field is not None:
            problems += [f"{name} {problem}" for problem in _against(field, column, dialect)]
        elif column.required and not column.filled:
            problems.append(f"{name} is NOT NULL without a default, and the machine has none such")
    alone = re.compile(rf""".*UNIQUE[^()]*\(\s*["`[]?{key}["`\]]?\s*\)\s*""")
    indexes = [made for name, made in catalog.items() if name.startswith(f"index {table}.")]
    if not any(alone.fullmatch(made) for made in indexes):
        problems.append(f"table {table} has no unique index over {key} alone")
    return problems + dialect.unfit(table, machine.fields, catalog)


def _against(field: Field, column: Column, dialect: Dialect) -> list[str]:
    problems = []
    if not _holds(field.kind, column.type, dialect.types):
        wanted = column_type(field.kind).compile(dialect.ddl)
        problems.append(f"is {column.type or 'without a type'}; {field.kind} needs {wanted}")
    if column.required and field.nullable:
        problems.append("is NOT NULL, and may be None in the record")
    if not column.required and not field.nullable:
        problems.append("may be NULL, and never None in the record")
    if column.generated:
        problems.append("is generated")
    if column.folding:
        problems.append("has a nondeterministic collation")
    return problems


def _holds(kind: Kind, type_: str, types: Types) -> bool:
    """Tell whether a column of this type keeps whatever the kind admits."""
    match column_type(kind):
        case Whole():
            least, most = _bounds(kind)
            limits = [limit for name, limit in types.whole if _named(name, type_)]
            return any(-limit <= least and most < limit for limit in limits)
        case Flag():
            return _named(types.flag, type_) is not None
        case _:
            said = _named(types.text, type_)
            if said is None or not said.re.groups or said[1] is None:
                return said is not None
            longest = _longest(kind)
            return longest is not None and longest <= int(said[1])


def _named(pattern: str, type_: str) -> re.Match[str] | None:
    return re.fullmatch(pattern, type_, re.IGNORECASE)


def _bounds(kind: Kind) -> tuple[int, int]:
    match kind:
        case Integer():
            return kind.minimum, kind.maximum
        case Duration():
            return 0, MAX_DURATION
        case _:
            return 0, MAX_INSTANT


def _longest(kind: Kind) -> int | None:
    """Return the most characters of a kind's text; None: no bound."""
    match kind:
        case Text():
            return kind.max_chars
        case Choice():
            return max(len(text) for text in kind.texts)
        case Token():
            return _HASH_CHARS
        case Json():
            return kind.max_bytes
        case Prose():
            bounds = (kind.cut_chars, kind.max_chars, kind.max_bytes)
            return min((bound for bound in bounds if bound is not None), default=None)
        case Boolean() | Integer() | Instant() | Duration():
            return None
    assert_never(kind)
