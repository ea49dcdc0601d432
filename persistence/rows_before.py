"""Which rows of a table that a user made are no rows of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import Grouping

from persistence.bound import typed, value_before
from persistence.dialect import column_type, text_of
from persistence.expressions import Scope, condition
from persistence.schema import checks, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from persistence.dialect import Dialect
    from persistence.layout import Session
    from statemachine.fields import Field
    from statemachine.machine import Machine

_NAMED = 3


def rows_against(
    session: Session, machine: Machine, dialect: Dialect, absent: Sequence[Field]
) -> list[str]:
    """Return what rows break of types, states, invariants and uniqueness; each rule is one scan.

    Args:
        session: A connection; it only reads.

        machine: The machine.

        dialect: The database.

        absent: Columns that the table does not have, and that are seen as they would be filled.
    """
    table = table_of(machine)
    key = table.c[machine.key.name]
    filled = {f.name: _filled(f) for f in absent}
    scope = Scope(machine, dialect, lambda name: filled[name] if name in filled else table.c[name])

    def answered(query: sa.Select[tuple[object, ...]]) -> list[tuple[object, ...]]:
        rows, _ = session.execute(text_of(query.limit(_NAMED + 1), dialect.statements), {})
        return [tuple(row) for row in rows]

    problems = []
    for name, check in (*typed(scope), *checks(machine, scope)):
        rows = answered(sa.select(key).where(Grouping(check).is_(sa.false())).order_by(key))
        if rows:
            named = ", ".join(repr(row[0]) for row in rows[:_NAMED])
            more = ", …" if len(rows) > _NAMED else ""
            problems.append(f"rows {named}{more} break {name!r}")
    for rule in machine.uniqueness:
        columns = [scope.column(column.name) for column in rule.columns]
        slots = (
            sa.select(sa.func.min(key), sa.func.max(key))
            .where(condition(rule.where, scope), *(column.is_not(sa.null()) for column in columns))
            .group_by(*(column for column in columns if isinstance(column, sa.Column)))
            .having(sa.func.count() > sa.literal(1))
        )
        for one, other in answered(slots):
            problems.append(f"rows {one!r} and {other!r} break {rule.name!r}")
    return problems


def none_against(machine: Machine, dialect: Dialect) -> sa.ColumnElement[bool] | None:
    """Return "no row breaks a type, a state or an invariant"; None where a CHECK will say so.

    Rows may have come since they were looked at.
    """
    if dialect.adds_checks:
        return None
    table = table_of(machine)
    scope = Scope(machine, dialect, lambda name: table.c[name])
    kept = sa.and_(*(check for _, check in (*typed(scope), *checks(machine, scope))))
    broken = sa.select(sa.literal(1)).select_from(table).where(Grouping(kept).is_(sa.false()))
    return sa.not_(broken.exists())


def _filled(field: Field) -> sa.ColumnElement[Any]:
    """Return what the column would hold; a NULL that can be compared with anything."""
    value, type_ = value_before(field, 0), column_type(field.kind)
    return sa.literal_column("NULL", type_) if value is None else sa.literal(value, type_)
