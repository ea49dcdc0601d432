"""SQLite's side of the compiler."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.elements import Grouping

from persistence.backends.sqlite_catalog import CATALOG, row_number, unfit
from persistence.dialect import Placeholder, Types
from persistence.schema import HISTORY, LAYOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from persistence.rules import Guardrails, Rule, Slot

_LISTED = 3


class SqliteDialect:
    """How SQLite says it."""

    name = "sqlite"
    statements: sa.Dialect = sqlite.dialect(paramstyle="named")
    ddl: sa.Dialect = statements
    row_locks = False
    arrays = False
    server_clock = False
    native_booleans = False
    adds_checks = False
    types = Types(  # by SQLite's own rules of affinity
        text="(?!.*INT).*(?:CHAR|CLOB|TEXT).*", whole=((".*INT.*", 2**63),), flag=".*INT.*|BOOL.*"
    )
    feed_order = ("seq",)

    def same(
        self, left: sa.ColumnElement[Any], right: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """IS NOT DISTINCT FROM came with SQLite 3.39; IS was always there."""
        return left.op("IS", is_comparison=True, return_type=sa.Boolean())(right)

    def among(
        self, column: sa.ColumnElement[Any], values: Sequence[sa.ColumnElement[Any]]
    ) -> sa.ColumnElement[bool]:
        """SQLite builds a table for a list of three, in each statement that meets it anew."""
        if len(values) < _LISTED:
            return column.in_(values)
        return Grouping(sa.or_(*(column == value for value in values)))

    def greatest(self, *terms: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """SQLite's max() is NULL where one of its arguments is."""
        return sa.func.coalesce(sa.func.max(*terms), *terms)

    def clock(self) -> sa.ColumnElement[int]:
        """SQLite runs in the caller's process: the caller's clock is the only one."""
        raise NotImplementedError

    def likely(self, condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
        """Where SQLite expects few rows, it sorts what an index has in order."""
        return sa.func.likely(condition)

    def listed(self, column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
        """A list is one parameter, as JSON: SQLite has no arrays."""
        values = sa.func.json_each(Placeholder(name, sa.Text())).table_valued("value")
        return column.in_(sa.select(values.c.value))

    def as_list(self, values: Sequence[str]) -> object:
        """Return the list as JSON text."""
        return json.dumps(list(values), ensure_ascii=False) if values else "[]"

    def json_text(self, value: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
        """Return a text as JSON."""
        return sa.func.json_quote(value)

    def guard_ddl(self, rails: Guardrails) -> tuple[str, ...]:
        """Return the triggers; RAISE(ABORT) holds under OR REPLACE and OR IGNORE too."""
        table, on = rails.machine.table, _quote(rails.machine.table)
        key, column = rails.machine.key.name, _quote(rails.machine.key.name)
        rowid = row_number(rails.machine.fields)
        exists = (
            f"SELECT CASE WHEN EXISTS (SELECT 1 FROM {on} WHERE {column} = NEW.{column})"
            f" THEN RAISE(ABORT, 'sqlatch:exists:{key}') END;"
        )
        slots = [
            f"SELECT CASE WHEN {slot.entered} AND {slot.taken}"
            f" THEN RAISE(ABORT, {_text(f'sqlatch:unique:{slot.name}')}) END;"
            for slot in rails.slots
        ]
        insert = rails.insert
        return (
            _trigger(
                f"{table}_{insert.name}",
                f"BEFORE INSERT ON {on}",
                f"SELECT CASE WHEN {insert.broken}"
                f" THEN RAISE(ABORT, 'sqlatch:illegal:{insert.message}') END;"
                f" {exists} {' '.join(slots)}",
            ),
            _unchosen(table, rowid),
            _refusing(
                f"{table}_numbered",
                f"AFTER INSERT ON {on}",
                f"NEW.{rowid} < 1",
                "illegal:rowid: not to be chosen",
            ),
            _refusing(
                f"{table}_rowid",
                f"BEFORE UPDATE ON {on}",
                f"NEW.{rowid} <> OLD.{rowid}",
                f"illegal:{key}: immutable",
            ),
            *(self._update(table, rule) for rule in rails.update),
            *(self._slot(table, slot) for slot in rails.slots),
            self._delete(table, rails.machine.name),
            self._append(table, "INSERT", rails, "NULL", rails.born),
            self._append(table, "UPDATE OF revision", rails, rails.source, rails.changes),
            self._genuine(rails),
        )

    def _update(self, table: str, rule: Rule) -> str:
        event = f"BEFORE UPDATE OF {_columns(rule.columns)} ON {_quote(table)}"
        return _refusing(f"{table}_{rule.name}", event, rule.broken, f"illegal:{rule.message}")

    def _slot(self, table: str, slot: Slot) -> str:
        """The unique index alone would let OR REPLACE delete the row in the way."""
        event = f"BEFORE UPDATE OF {_columns(slot.columns)} ON {_quote(table)}"
        when = f"{slot.entered} AND {slot.taken}"
        return _refusing(f"{slot.name}_slot", event, when, f"unique:{slot.name}")

    def _delete(self, table: str, machine: str) -> str:
        when = f"NOT EXISTS (SELECT 1 FROM sqlatch_permit WHERE machine = '{machine}')"
        message = "illegal:rows are deleted by retention only"
        return _refusing(f"{table}_kept", f"BEFORE DELETE ON {_quote(table)}", when, message)

    def _append(self, table: str, event: str, rails: Guardrails, source: str, changes: str) -> str:
        columns = _columns([name for name, _ in rails.history])
        values = ", ".join(value for _, value in rails.history)
        name = event.partition(" ")[0].lower()
        when = " WHEN NEW.revision <> OLD.revision" if name == "update" else ""
        return _trigger(
            f"{table}_history_{name}",
            f"AFTER {event} ON {_quote(table)}{when}",
            f"INSERT INTO {HISTORY.name} ({columns}, source, changes)"
            f" VALUES ({values}, {source}, {changes});",
        )

    def _genuine(self, rails: Guardrails) -> str:
        """SQLite has no trigger depth: a history row must match its row's present revision."""
        machine = rails.machine
        table = _quote(machine.table)
        when = (
            f"NEW.machine = '{machine.name}' AND NOT EXISTS (SELECT 1 FROM {table} r"
            f' WHERE r.{_quote(machine.key.name)} = NEW."key" AND r.revision = NEW.revision'
            " AND (NEW.event IS NOT NULL AND NEW.transition IS NULL AND NEW.source IS NULL"
            " AND NEW.dest IS NULL AND NEW.generation IS NULL AND json_valid(NEW.changes)"
            " OR NEW.event IS NULL AND r.last_transition = NEW.transition"
            f" AND r.last_call = NEW.call AND r.{_quote(machine.state.name)} = NEW.dest"
            " AND r.updated_at = NEW.at))"
        )
        name, event = f"{machine.table}_history_genuine", f"BEFORE INSERT ON {HISTORY.name}"
        return _refusing(name, event, when, "illegal:no such step was made")

    def settled(self, tx: sa.ColumnElement[int]) -> sa.ColumnElement[bool] | None:
        """One writer at a time: the sequence is the commit order."""
        del tx
        return None

    def catalog(self) -> str:
        """SQLite keeps the very text of its DDL; the columns are listed so that each is named."""
        return CATALOG

    def gathered(
        self, names: sa.ColumnElement[str], values: sa.ColumnElement[str]
    ) -> sa.ColumnElement[str]:
        """Return a JSON object, which is text."""
        return sa.func.json_group_object(names, values)

    def unfit(self, table: str, columns: Iterable[str], catalog: Mapping[str, str]) -> list[str]:
        """Much is told by the table's text alone."""
        return unfit(table, columns, catalog)

    def layout_lock(self) -> str | None:
        """BEGIN IMMEDIATE is lock enough."""
        return None

    def call_lock(self) -> str | None:
        """BEGIN IMMEDIATE is lock enough."""
        return None

    def layout_ddl(self) -> tuple[str, ...]:
        """Return the history's own guards."""
        name, fixed = HISTORY.name, "illegal:history is append-only"
        repeated = (
            f"EXISTS (SELECT 1 FROM {name} WHERE machine = NEW.machine AND call = NEW.call"
            ' AND "key" = NEW."key")'
        )
        unknown = f"NOT EXISTS (SELECT 1 FROM {LAYOUT.name} WHERE part = NEW.machine)"
        barred = "NOT EXISTS (SELECT 1 FROM sqlatch_permit WHERE machine = OLD.machine)"
        insert = f"BEFORE INSERT ON {name}"
        return (
            _refusing(f"{name}_once", insert, repeated, "call:repeated"),
            _refusing(f"{name}_known", insert, f"{unknown} OR NEW.tx <> 0", fixed),
            _unchosen(name, "seq"),
            _refusing(f"{name}_fixed", f"BEFORE UPDATE ON {name}", "TRUE", fixed),
            _refusing(f"{name}_kept", f"BEFORE DELETE ON {name}", barred, fixed),
        )

    def set_apart(self, schema: str) -> tuple[str, ...]:
        """A database in memory is empty, and seen by nobody else."""
        del schema
        return ()

    def set_clock(self, now: int) -> tuple[str, ...]:
        """The caller's clock is the only one."""
        del now
        return ()


def _quote(name: str) -> str:
    return SqliteDialect.ddl.identifier_preparer.quote(name)


def _columns(names: Sequence[str]) -> str:
    return ", ".join(_quote(name) for name in names)


def _text(constant: str) -> str:
    return "'" + constant.replace("'", "''") + "'"


def _trigger(name: str, event: str, body: str) -> str:
    return f"CREATE TRIGGER {_quote(name)} {event} BEGIN {body} END"


def _unchosen(table: str, column: str) -> str:
    """Refuse a chosen row number: one that is taken, or that is in the way of all later rows.

    Before an insert SQLite shows -1 for a number that is not given; -1 itself is caught afterwards.
    """
    event, message = f"BEFORE INSERT ON {_quote(table)}", f"illegal:{column}: not to be chosen"
    return _refusing(f"{table}_unchosen", event, f"NEW.{column} <> -1", message)


def _refusing(name: str, event: str, when: str, message: str) -> str:
    return _trigger(
        name, f"{event} WHEN {when}", f"SELECT RAISE(ABORT, {_text(f'sqlatch:{message}')});"
    )


SQLITE = SqliteDialect()
