"""PostgreSQL's side of the compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import psycopg

from persistence.dialect import Placeholder, TextList, Types
from persistence.schema import HISTORY, LAYOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from persistence.rules import Guardrails, Rule


class PostgresqlDialect:
    """How PostgreSQL says it."""

    name = "postgresql"
    statements: sa.Dialect = psycopg.dialect()  # type: ignore[no-untyped-call]  # untyped there
    ddl: sa.Dialect = postgresql.base.PGDialect(paramstyle="named")  # type: ignore[no-untyped-call]  # same
    row_locks = True
    arrays = True
    server_clock = True
    native_booleans = True
    adds_checks = True
    types = Types(
        text=r"text|character varying(?:\((\d+)\))?",
        whole=(("bigint", 2**63), ("integer", 2**31), ("smallint", 2**15)),
        flag="boolean",
    )
    feed_order = ("tx", "seq")

    def same(
        self, left: sa.ColumnElement[Any], right: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """Return "the two are equal, or both NULL"."""
        operator = left.op("IS NOT DISTINCT FROM", is_comparison=True, return_type=sa.Boolean())
        return operator(right)

    def among(
        self, column: sa.ColumnElement[Any], values: Sequence[sa.ColumnElement[Any]]
    ) -> sa.ColumnElement[bool]:
        """A list of constants is one array."""
        return column.in_(values)

    def greatest(self, *terms: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """PostgreSQL's GREATEST ignores NULLs."""
        return sa.func.greatest(*terms)

    def clock(self) -> sa.ColumnElement[int]:
        """clock_timestamp(), unlike now(), moves within a transaction."""
        return sa.literal_column(
            "floor(extract(epoch from clock_timestamp()) * 1000)::bigint", sa.BigInteger()
        )

    def likely(self, condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
        """The planner counts rows itself."""
        return condition

    def listed(self, column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
        """A list is one array parameter."""
        return column == sa.func.any(Placeholder(name, TextList()))

    def as_list(self, values: Sequence[str]) -> object:
        """Return the list itself: the driver sends arrays."""
        return list(values)

    def json_text(self, value: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
        """Return a text as JSON."""
        return sa.cast(sa.func.to_json(value), sa.Text())

    def guard_ddl(self, rails: Guardrails) -> tuple[str, ...]:
        """Return the trigger functions: one call a row costs less than a WHEN for each rule."""
        machine, table = rails.machine, rails.machine.table
        return (
            _function(f"{table}_guard_insert", _refusals((rails.insert,)) + " RETURN NEW;"),
            _function(f"{table}_guard_update", _refusals(rails.update) + " RETURN NEW;"),
            _function(
                f"{table}_guard_delete",
                f"IF NOT EXISTS (SELECT 1 FROM sqlatch_permit WHERE machine = '{machine.name}')"
                f" THEN {_raise('rows are deleted by retention only')} END IF; RETURN OLD;",
            ),
            _function(f"{table}_append_insert", _append(rails, "NULL", rails.born)),
            _function(f"{table}_append_update", _append(rails, rails.source, rails.changes)),
            _trigger(f"{table}_guard_insert", "BEFORE INSERT", table),
            _trigger(f"{table}_guard_update", "BEFORE UPDATE", table),
            _trigger(f"{table}_guard_delete", "BEFORE DELETE", table),
            _trigger(f"{table}_append_insert", "AFTER INSERT", table),
            _trigger(
                f"{table}_append_update",
                "AFTER UPDATE",
                table,
                when="WHEN (NEW.revision <> OLD.revision)",
            ),
            _truncate(table),
            # A transition may be committed between the reading of a revision and this.
            _function(
                f"{table}_guard_event",
                f"IF NEW.machine = '{machine.name}' AND NOT EXISTS (SELECT 1 FROM {_quote(table)} r"
                f" WHERE r.{_quote(machine.key.name)} = NEW.key"
                " AND NEW.revision BETWEEN 1 AND r.revision)"
                f" THEN {_raise('no such step was made')} END IF; RETURN NEW;",
            ),
            _trigger(
                f"{table}_guard_event",
                "BEFORE INSERT",
                HISTORY.name,
                when=_FROM_OUTSIDE,
            ),
        )

    def settled(self, tx: sa.ColumnElement[int]) -> sa.ColumnElement[bool] | None:
        """Neither sequence nor transaction id alone is commit order: wait for the older ones."""
        horizon = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
        return tx < sa.literal_column(horizon, sa.BigInteger())

    def catalog(self) -> str:
        """Return columns, constraints, indexes, triggers and functions of the schema."""
        return _CATALOG

    def gathered(
        self, names: sa.ColumnElement[str], values: sa.ColumnElement[str]
    ) -> sa.ColumnElement[str]:
        """Return a JSON object's text."""
        return sa.cast(sa.func.json_object_agg(names, values), sa.Text())

    def unfit(self, table: str, columns: Iterable[str], catalog: Mapping[str, str]) -> list[str]:
        """The columns say all."""
        del table, columns, catalog
        return []

    def layout_lock(self) -> str | None:
        """CREATE TABLE of two processes at once would fail in one of them."""
        return "SELECT pg_advisory_xact_lock(hashtext('sqlatch'), hashtext(current_schema()))"

    def call_lock(self) -> str | None:
        """Two that take a next row lock different ones, and no index knows that they are one."""
        return "SELECT pg_advisory_xact_lock(hashtextextended(%(machine)s || ' ' || %(call)s, 0))"

    def layout_ddl(self) -> tuple[str, ...]:
        """Return the history's own guards."""
        name = HISTORY.name
        return (
            f"ALTER TABLE {name} ALTER COLUMN tx SET DEFAULT (pg_current_xact_id()::text::bigint)",
            f"CREATE INDEX {name}_feed ON {name} (tx, seq)",
            _function("sqlatch_refuse", _raise("history is append-only")),
            _function(
                "sqlatch_guard_history",
                "IF NOT EXISTS (SELECT 1 FROM sqlatch_permit WHERE machine = OLD.machine)"
                f" THEN {_raise('history is append-only')} END IF; RETURN OLD;",
            ),
            _function(
                "sqlatch_append_event",
                "IF NEW.transition IS NOT NULL OR NEW.event IS NULL OR NEW.source IS NOT NULL"
                " OR NEW.dest IS NOT NULL OR NEW.generation IS NOT NULL"
                " OR NEW.tx <> pg_current_xact_id()::text::bigint"
                f" OR NEW.seq <> currval(pg_get_serial_sequence('{name}', 'seq'))"
                f" OR NOT EXISTS (SELECT 1 FROM {LAYOUT.name} WHERE part = NEW.machine)"
                " OR NEW.changes::json IS NULL"
                f" THEN {_raise('no such step was made')} END IF; RETURN NEW;",
            ),
            _trigger(
                f"{name}_genuine",
                "BEFORE INSERT",
                name,
                when=_FROM_OUTSIDE,
                function="sqlatch_append_event",
            ),
            _trigger(f"{name}_fixed", "BEFORE UPDATE", name, function="sqlatch_refuse"),
            _trigger(f"{name}_kept", "BEFORE DELETE", name, function="sqlatch_guard_history"),
            _truncate(name),
        )

    def set_apart(self, schema: str) -> tuple[str, ...]:
        """A schema of its own; named before the system's, it also replaces the clock."""
        return (
            f"CREATE SCHEMA {schema}",
            f"SET LOCAL search_path = {schema}, pg_catalog",
            (
                "CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql AS"
                f" 'SELECT to_timestamp(current_setting(''{_HANDS}'')::float8 / 1000)'"
            ),
        )

    def set_clock(self, now: int) -> tuple[str, ...]:
        """Set the replaced clock, until the transaction ends."""
        return (f"SELECT set_config('{_HANDS}', '{now}', true)",)


_HANDS = "sqlatch.now"

_CATALOG = """
WITH ours AS (
    SELECT c.oid, c.relname FROM pg_class c
    WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relkind = 'r')
SELECT 'table ' || relname AS name, '' AS definition, relname::text AS place FROM ours
UNION ALL
SELECT 'relation ' || c.relname, CASE c.relkind WHEN 'v' THEN 'a view'
    WHEN 'm' THEN 'a materialized view' WHEN 'f' THEN 'a foreign table'
    WHEN 'p' THEN 'a partitioned table' ELSE 'inherited by other tables' END, c.relname
FROM pg_class c WHERE c.relnamespace = quote_ident(current_schema())::regnamespace
    AND (c.relkind IN ('v', 'm', 'f', 'p')
        OR c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid))
UNION ALL
SELECT 'column ' || o.relname || '.' || a.attname, concat_ws(', ',
    format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'NOT NULL' END,
    CASE WHEN c.collname <> 'default' THEN 'COLLATE ' || c.collname END,
    CASE WHEN NOT c.collisdeterministic THEN 'NONDETERMINISTIC' END,
    NULLIF('IDENTITY ' || a.attidentity::text, 'IDENTITY '),
    CASE WHEN a.attgenerated <> '' THEN 'GENERATED' END,
    'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid)), o.relname
FROM ours o JOIN pg_attribute a ON a.attrelid = o.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_collation c ON c.oid = a.attcollation
    LEFT JOIN pg_attrdef d ON d.adrelid = o.oid AND d.adnum = a.attnum
UNION ALL
SELECT 'constraint ' || o.relname || '.' || c.conname, pg_get_constraintdef(c.oid, true), o.relname
FROM ours o JOIN pg_constraint c ON c.conrelid = o.oid AND c.contype <> 'n'
UNION ALL
SELECT 'index ' || o.relname || '.' || n.relname,
    pg_get_indexdef(i.indexrelid, 0, true)
    || CASE WHEN i.indisvalid AND i.indisready THEN '' ELSE ' INVALID' END, o.relname
FROM ours o JOIN pg_index i ON i.indrelid = o.oid JOIN pg_class n ON n.oid = i.indexrelid
UNION ALL
SELECT 'trigger ' || o.relname || '.' || t.tgname,
    pg_get_triggerdef(t.oid, true) || CASE WHEN t.tgenabled = 'O' THEN '' ELSE ' DISABLED' END,
    o.relname
FROM ours o JOIN pg_trigger t ON t.tgrelid = o.oid AND NOT t.tgisinternal
UNION ALL
SELECT 'rule ' || o.relname || '.' || r.rulename, pg_get_ruledef(r.oid, true), o.relname
FROM ours o JOIN pg_rewrite r ON r.ev_class = o.oid
UNION ALL
SELECT 'function ' || p.proname, p.prosrc, NULL
FROM pg_proc p WHERE p.pronamespace = quote_ident(current_schema())::regnamespace
ORDER BY 1
"""

_FROM_OUTSIDE = "WHEN (pg_trigger_depth() = 0)"
"""Our own triggers append the steps; every other insert into the history comes from outside."""


def _quote(name: str) -> str:
    return PostgresqlDialect.ddl.identifier_preparer.quote(name)


def _function(name: str, body: str) -> str:
    return (
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS"
        f" $sqlatch$ BEGIN {body} END $sqlatch$"
    )


def _trigger(name: str, event: str, table: str, *, when: str = "", function: str = "") -> str:
    return (
        f"CREATE TRIGGER {_quote(name)} {event} ON {_quote(table)} FOR EACH ROW {when}"
        f" EXECUTE FUNCTION {function or name}()"
    )


def _truncate(table: str) -> str:
    return (
        f"CREATE TRIGGER {table}_not_truncated BEFORE TRUNCATE ON {_quote(table)}"
        " FOR EACH STATEMENT EXECUTE FUNCTION sqlatch_refuse()"
    )


def _raise(message: str) -> str:
    return f"RAISE EXCEPTION 'sqlatch:illegal:{message}' USING ERRCODE = 'SQ001';"


def _refusals(rules: tuple[Rule, ...]) -> str:
    return " ".join(f"IF {rule.broken} THEN {_raise(rule.message)} END IF;" for rule in rules)


def _append(rails: Guardrails, source: str, changes: str) -> str:
    quote = PostgresqlDialect.ddl.identifier_preparer.quote
    columns = ", ".join(quote(name) for name, _ in rails.history)
    values = ", ".join(value for _, value in rails.history)
    return (
        f"INSERT INTO {HISTORY.name} ({columns}, source, changes)"
        f" VALUES ({values}, {source}, {changes}); {_announce(rails)} RETURN NULL;"
    )


def _announce(rails: Guardrails) -> str:
    """Wake who listens, only where it helps: commits that notify wait for one another."""
    if rails.takeable is None:
        return ""
    channel = "'sqlatch_' || md5(TG_TABLE_SCHEMA)"
    return f"IF {rails.takeable} THEN PERFORM pg_notify({channel}, ''); END IF;"


POSTGRESQL = PostgresqlDialect()
