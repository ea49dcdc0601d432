"""A database to try a machine in: its real tables and triggers, of which nothing stays."""

from __future__ import annotations

import secrets
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from attrs import define, evolve

from persistence import history
from persistence.compile import Program, Statement
from persistence.dialect import Key, Placeholder, text_of
from persistence.engine import Engine
from persistence.opening import Access, backend_of, on_server
from persistence.rules import guardrails
from persistence.schema import HISTORY, LAYOUT, PERMIT, shared_ddl, table_ddl
from statemachine.examples import NOW_MS
from statemachine.kinds import EPOCH
from statemachine.outcome import Actor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from persistence.dialect import Dialect
    from persistence.operation import Operation
    from statemachine.kinds import Row
    from statemachine.machine import Machine
    from statemachine.outcome import Event

_T = TypeVar("_T")


class Undo(Exception):
    """Ends a block whose writes are not wanted."""


@define
class _Hands:
    """A clock whose hands are set."""

    ms: int = NOW_MS

    def now(self) -> datetime:
        return EPOCH + timedelta(milliseconds=self.ms)


@define(eq=False)
class Scratch:
    """One machine's tables, within a transaction that is never committed.

    Attributes:
        engine: Runs operations there.

        program: The machine's statements, as compiled for the real database.
    """

    engine: Engine
    program: Program
    _hands: _Hands
    _put: Statement
    _clear: tuple[Statement, ...]

    def at(self, now: int) -> None:
        """Set the clock, or what the server takes for its clock; milliseconds since the epoch."""
        if now == self._hands.ms:
            return
        self._hands.ms = now
        with self.engine.backend.session() as session:
            session.script(self.program.dialect.set_clock(now))

    def put(self, row: Row) -> None:
        """Insert a whole row in any state; CHECKs, unique indexes and history triggers hold.

        Raises:
            SqlatchError: The database refused it.
        """
        self._execute(self._put.sql, row)

    def run(self, operation: Operation[_T]) -> _T:
        """Run an operation, in a savepoint of its own.

        Raises:
            SqlatchError: What it raised; what it wrote is undone.
        """
        with self.engine.transaction():
            return self.engine.run(operation)

    def empty(self, key: object) -> tuple[Row | None, list[Event]]:
        """Delete everything; return what there was of a row, and its steps, oldest first.

        Cheaper than `undone`: after a rollback the driver for PostgreSQL prepares anew.
        """
        stored = [self.program.row(row) for row in self._execute(self._clear[0].sql, {})]
        steps = sorted(self._execute(self._clear[1].sql, {}), key=lambda step: int(step[0]))
        events = [history.event_of(step[1:]) for step in steps]
        name = self.program.machine.key.name
        return (
            next((row for row in stored if row[name] == key), None),
            [event for event in events if event.key == key],
        )

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Run a block, and undo what it wrote; what it deleted costs nothing from then on."""
        with suppress(Undo), self.engine.transaction():
            yield
            raise Undo

    def _execute(self, sql: str, params: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        with self.engine.backend.session() as session:
            return session.execute(sql, params)[0]


@contextmanager
def scratch(
    machine: Machine,
    url: str | None = None,
    *,
    server_clock: bool = False,
    any_row: bool = True,
) -> Iterator[Scratch]:
    """Lend a database with nothing but a machine's tables in it; all of it is undone afterwards.

    Args:
        machine: Whose tables.

        url: `postgresql://…`: a schema of its own there, seen by nobody; else SQLite, in memory.

        server_clock: Compile for the server's clock, which is then set by `Scratch.at` alone.

        any_row: Let rows in that no creation makes; updates are guarded in any case.

    Raises:
        SqlatchError: The database cannot be used.
    """
    hands = _Hands()
    ruling = None if server_clock else hands
    private = url is None or not on_server(url)
    backend = backend_of(":memory:" if private else str(url), ruling, Access())
    engine = Engine(backend, ruling, None, Actor("check", "scratch"), (machine,))
    program = engine.program(machine)
    try:
        if private:
            # Within the transaction each savepoint's end would make SQLite read its schema anew.
            _lay_out(engine, program, any_row=any_row)
        with suppress(Undo), engine.transaction():
            if not private:
                _lay_out(engine, program, any_row=any_row)
            yield _scratch(engine, program, hands)
            raise Undo
    finally:
        backend.close()


def _lay_out(engine: Engine, program: Program, *, any_row: bool) -> None:
    machine, dialect = program.machine, program.dialect
    with engine.backend.session() as session:
        session.script(dialect.set_apart(f"sqlatch_scratch_{secrets.token_hex(8)}"))
        session.script(dialect.set_clock(NOW_MS))
        session.script((*shared_ddl(dialect), *table_ddl(machine, dialect)))
        session.script(_guards(machine, dialect, any_row=any_row))


def _guards(machine: Machine, dialect: Dialect, *, any_row: bool) -> tuple[str, ...]:
    rails = guardrails(machine, dialect)
    if any_row:
        rails = evolve(rails, insert=evolve(rails.insert, broken="FALSE"))
    return dialect.guard_ddl(rails)


def _scratch(engine: Engine, program: Program, hands: _Hands) -> Scratch:
    table, dialect = program.table, program.dialect.statements
    values = {column.name: Placeholder(column.name, column.type) for column in table.c}
    put = Statement(text_of(sa.insert(table).values(values), dialect))
    name = sa.literal(program.machine.name, Key())
    permit = sa.insert(PERMIT).values(machine=name)
    known = sa.insert(LAYOUT).values(
        part=name, version=sa.literal(0), digest=sa.literal(""), catalog=sa.literal("{}")
    )
    rows = sa.delete(table).returning(*(table.c[name] for name in program.names))
    steps = sa.delete(HISTORY).returning(*(HISTORY.c[name] for name in ("seq", *history.COLUMNS)))
    clear = Statement(text_of(rows, dialect)), Statement(text_of(steps, dialect))
    with engine.backend.session() as session:
        session.execute(text_of(known, dialect), {})
        session.execute(text_of(permit, dialect), {})
    return Scratch(engine, program, hands, put, clear)
