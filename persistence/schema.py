"""A machine as a table: columns, CHECKs, partial indexes; and the tables that all share."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from persistence.dialect import Key, Whole, column_type, short, text_of
from persistence.expressions import Scope, all_of, condition
from persistence.rules import guardrails, index_name
from statemachine.kinds import MAX_INSTANT, Boolean, Choice, Instant

if TYPE_CHECKING:
    from persistence.dialect import Dialect
    from statemachine.machine import Arm, Machine

SHARED = sa.MetaData()

HISTORY = sa.Table(
    "sqlatch_history",
    SHARED,
    sa.Column("seq", Whole(), sa.Identity(always=True), primary_key=True),
    sa.Column("at", Whole(), nullable=False),
    sa.Column("machine", Key(), nullable=False),
    sa.Column("key", Key(), nullable=False),
    sa.Column("revision", Whole(), nullable=False),
    sa.Column("transition", Key()),
    sa.Column("source", Key()),
    sa.Column("dest", Key()),
    sa.Column("actor_kind", Key(), nullable=False),
    sa.Column("actor", Key(), nullable=False),
    sa.Column("generation", Whole()),
    sa.Column("call", Key(), nullable=False),
    sa.Column("changes", Key(), nullable=False),
    sa.Column("event", Key()),
    sa.Column("tx", Whole(), nullable=False, server_default=sa.text("0")),
    sa.CheckConstraint("seq > 0"),
    sa.Index("sqlatch_history_call", "machine", "call", "key", unique=True),
    sa.Index("sqlatch_history_row", "machine", "key", "seq"),
    sqlite_strict=True,
    sqlite_autoincrement=True,
)
"""One row per applied transition, and one per event of a host (`event` set, `transition` null)."""

PERMIT = sa.Table(
    "sqlatch_permit",
    SHARED,
    sa.Column("machine", Key(), primary_key=True),
    sqlite_strict=True,
)
"""Retention's leave to delete: a row lives only inside its transaction."""

LAYOUT = sa.Table(
    "sqlatch_layout",
    SHARED,
    sa.Column("part", Key(), primary_key=True),
    sa.Column("version", Whole(), nullable=False),
    sa.Column("digest", Key(), nullable=False),
    sa.Column("catalog", Key(), nullable=False),
    sqlite_strict=True,
)
"""Each part of the layout: its version, the digest of its DDL, and what the database made of it."""


def table_of(machine: Machine) -> sa.Table:
    """Return the table of a machine: a column per field."""
    columns = [
        sa.Column(
            field.name,
            column_type(field.kind),
            primary_key=field.name == machine.key.name,
            nullable=field.nullable,
        )
        for field in machine.fields.values()
    ]
    return sa.Table(machine.table, sa.MetaData(), *columns, sqlite_strict=True)


def _arm_index(arm: Arm) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return what identifies the index of an arm: its columns and its predicate."""
    by = [term.name for equal in arm.by for term in (equal.left,) if hasattr(term, "name")]
    return (*by, *(column.name for column in arm.order)), arm.fixed


def _arm_indexes(machine: Machine) -> tuple[tuple[tuple[str, ...], tuple[Any, ...]], ...]:
    arms = [arm for selection in machine.selections for arm in selection.arms]
    return tuple(dict.fromkeys(_arm_index(arm) for arm in arms))


@functools.lru_cache(maxsize=128)
def machine_ddl(machine: Machine, dialect: Dialect) -> tuple[str, ...]:
    """Return the statements that create a machine's table, indexes and triggers."""
    return table_ddl(machine, dialect) + dialect.guard_ddl(guardrails(machine, dialect))


def table_ddl(machine: Machine, dialect: Dialect) -> tuple[str, ...]:
    """Return the statements that create a machine's table with its CHECKs and indexes."""
    table = table_of(machine)
    scope = Scope(machine, dialect, lambda name: table.c[name])
    for name, check in checks(machine, scope):
        table.append_constraint(sa.CheckConstraint(check, name=name))
    return text_of(CreateTable(table), dialect.ddl).strip(), *index_ddl(table, scope)


def index_ddl(table: sa.Table, scope: Scope) -> tuple[str, ...]:
    """Return the statements that create the indexes of a machine's table."""
    machine, dialect = scope.machine, scope.dialect
    indexes = [
        sa.Index(
            index_name(machine, rule.name),
            *(table.c[column.name] for column in rule.columns),
            unique=True,
            **_only(condition(rule.where, scope), dialect),
        )
        for rule in machine.uniqueness
    ]
    for number, (columns, fixed) in enumerate(_arm_indexes(machine)):
        indexes.append(
            sa.Index(
                f"{machine.table}_next_{number}",
                *(table.c[name] for name in columns),
                **_only(sa.and_(*all_of(fixed, scope)), dialect),
            )
        )
    if machine.listed_by:
        order = [table.c[column.name] for column in machine.listed_by]
        indexes.append(sa.Index(f"{machine.table}_listed", *order))
        for number, column in enumerate(machine.listed_for):
            name = f"{machine.table}_listed_{number}"
            indexes.append(sa.Index(name, table.c[column.name], *order))
    if machine.final:
        ended = final_rows(scope)
        order = [table.c.updated_at, table.c[machine.key.name]]
        indexes.append(sa.Index(f"{machine.table}_ended", *order, **_only(ended, dialect)))
    return tuple(text_of(CreateIndex(index), dialect.ddl) for index in indexes)


def _only(rows: sa.ColumnElement[bool], dialect: Dialect) -> dict[str, Any]:
    """Return what makes an index partial; to name another dialect would load it."""
    return {f"{dialect.name}_where": rows}


def final_rows(scope: Scope) -> sa.ColumnElement[bool]:
    """Return "the row is in a final state", as retention's index has it."""
    state = scope.column(scope.machine.state.name)
    finals = [sa.literal(name, state.type) for name in scope.machine.final]
    return scope.dialect.among(state, finals)


@functools.lru_cache(maxsize=8)
def shared_ddl(dialect: Dialect) -> tuple[str, ...]:
    """Return the statements that create the tables which all machines share."""
    tables = [HISTORY, PERMIT, LAYOUT]
    return (
        *(text_of(CreateTable(table), dialect.ddl).strip() for table in tables),
        *(
            text_of(CreateIndex(index), dialect.ddl)
            for table in tables
            for index in sorted(table.indexes, key=lambda index: str(index.name))
        ),
        *dialect.layout_ddl(),
    )


def checks(machine: Machine, scope: Scope) -> list[tuple[str, sa.ColumnElement[bool]]]:
    """Return the CHECKs: the kinds' closed sets, then the invariants, which must be TRUE."""
    stated: list[tuple[str, sa.ColumnElement[bool]]] = []
    for field in machine.fields.values():
        column = scope.column(field.name)
        allowed: sa.ColumnElement[bool]
        match field.kind:
            case Choice():
                texts = [sa.literal(text, column.type) for text in field.choices]
                allowed = scope.dialect.among(column, texts)
            case Boolean():
                allowed = column.in_([sa.literal(0, sa.Integer()), sa.literal(1, sa.Integer())])
                if scope.dialect.native_booleans:
                    continue
            case Instant():
                last = sa.literal(MAX_INSTANT, sa.BigInteger())
                allowed = column.between(sa.literal(0, sa.BigInteger()), last)
            case _:
                continue
        stated.append((short(f"{machine.table} {field.name}"), allowed))
    for invariant in machine.invariants:
        holds = condition(invariant.condition, scope).is_(sa.true())
        stated.append((short(f"{machine.table}: {invariant.name}"), holds))
    return stated
