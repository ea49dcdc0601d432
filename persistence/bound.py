"""The statements that make a machine's table of one that a user made, and that may have rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from attrs import evolve
from sqlalchemy.schema import AddConstraint, CreateColumn

from persistence.change import Change
from persistence.dialect import Key, column_type, text_of
from persistence.expressions import Scope, constant
from persistence.rules import Rule, guardrails
from persistence.schema import checks, index_ddl, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from persistence.dialect import Dialect
    from persistence.rules import Guardrails
    from statemachine.fields import Field
    from statemachine.kinds import Plain
    from statemachine.machine import Machine

UNKNOWN: dict[str, Plain] = {
    "revision": 1,
    "last_transition": "(bound)",
    "last_actor_kind": "sqlatch",
    "last_actor": "ddl",
    "last_call": "(bound)",
}
"""What the engine's columns say of rows that were there before; no creation has such a name."""


def binding_ddl(
    machine: Machine, dialect: Dialect, lacking: Sequence[Field], now: int
) -> tuple[str, ...]:
    """Return the statements that make a machine's table of one that a user made.

    Args:
        machine: The machine.

        dialect: The database.

        lacking: The columns that the table does not have.

        now: When the rows that are there are said to have moved last.
    """
    table, rails = table_of(machine), guardrails(machine, dialect)
    scope = Scope(machine, dialect, lambda name: table.c[name])
    on = dialect.ddl.identifier_preparer.quote(machine.table)
    added = []
    for field in lacking:
        column = table.c[field.name]
        value = value_before(field, now)
        if value is not None:
            column.server_default = sa.DefaultClause(constant(value, column.type))
        added.append(f"ALTER TABLE {on} ADD COLUMN {text_of(CreateColumn(column), dialect.ddl)}")
    if dialect.adds_checks:
        for name, check in checks(machine, scope):
            constraint = sa.CheckConstraint(check, name=name)
            table.append_constraint(constraint)
            added.append(text_of(AddConstraint(constraint), dialect.ddl))
    else:
        rails = _checking(rails, dialect)
    return *added, *index_ddl(table, scope), *dialect.guard_ddl(rails)


def value_before(field: Field, now: int) -> Plain:
    """Return what a row that was there before gets in a column that was not."""
    return ({"updated_at": now} | UNKNOWN).get(field.name, field.default)


def _checking(rails: Guardrails, dialect: Dialect) -> Guardrails:
    """Return rails that hold what else the table's CHECKs would, and its STRICT types."""
    change = Change(rails.machine, dialect)
    scope = Scope(rails.machine, dialect, change.new)
    kept = [check for _, check in (*checks(rails.machine, scope), *typed(scope))]
    broken = change.text(sa.and_(*kept).is_(sa.false()))
    said = "an invariant or the type of a column is broken"
    insert = evolve(
        rails.insert,
        broken=f"{rails.insert.broken} OR {broken}",
        message=f"{rails.insert.message}, or {said}",
    )
    update = Rule("checked", tuple(rails.machine.fields), broken, said)
    return evolve(rails, insert=insert, update=(*rails.update, update))


def typed(scope: Scope) -> list[tuple[str, sa.ColumnElement[bool]]]:
    """Return what STRICT and NOT NULL hold of columns, as CHECKs; columns elsewhere hold that."""
    stated: list[tuple[str, sa.ColumnElement[bool]]] = []
    if scope.dialect.adds_checks:
        return stated
    for field in scope.machine.fields.values():
        column = scope.column(field.name)
        name = "text" if isinstance(column_type(field.kind), Key) else "integer"
        types = [sa.literal(one, sa.Text()) for one in (name, "null")[: 1 + field.nullable]]
        check = scope.dialect.among(sa.func.typeof(column), types)
        stated.append((f"the type of {field.name}", check))
    return stated
