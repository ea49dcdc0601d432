"""Every row of a machine, looked at in memory: invariants, leases, instants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from attrs import define, field

from persistence.binds import LIMIT_BIND
from persistence.cli.durability import MAX_SKEW_MS, moment
from persistence.cli.findings import Finding
from persistence.cli.printing import instant_of
from persistence.dialect import Key, Placeholder, Whole
from persistence.operation import Query
from persistence.reading import AFTER_BIND
from statemachine.interpret import meaning
from statemachine.kinds import Choice, Json, Prose, Text, Token

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from persistence import Store
    from persistence.compile import Program
    from persistence.operation import Operation
    from statemachine.kinds import Row
    from statemachine.machine import Machine

PAGE = 1_000
_NAMED = 5


@define
class _Seen:
    """What the rows of a machine have shown so far; keys by what is wrong with them."""

    rows: int = 0
    broken: dict[str, list[str]] = field(factory=dict)
    expired: list[str] = field(factory=list)
    newest: int = 0


def examined(store: Store, machine: Machine) -> Sequence[Finding]:
    """Read every row of a machine in pages, and return what is to be said of them."""
    program = store.engine.program(machine)
    now = moment(store.engine.backend)
    rules = [(rule.name, meaning(rule.condition)) for rule in machine.invariants]
    seen = _Seen()
    for row in _rows(store, program):
        key = str(row[machine.key.name])
        seen.rows += 1
        column = _unreadable(machine, row)
        if column is not None:
            seen.broken.setdefault(f"{column} holds what it can", []).append(key)
            continue
        seen.newest = max(seen.newest, int(row["updated_at"] or 0))
        for name, holds in rules:
            if holds(row, {}, now) is not True:
                seen.broken.setdefault(name, []).append(key)
        if _expired(machine, row, now):
            seen.expired.append(key)
    return _told(machine, seen, now)


def _unreadable(machine: Machine, row: Row) -> str | None:
    """Return a column whose value is none of its kind's: no rule can be asked of such a row."""
    for name, declared in machine.fields.items():
        value = row[name]
        if value is None:
            continue
        match declared.kind:
            case Choice():
                sound = value in declared.kind.texts
            case Text() | Prose() | Json() | Token():
                sound = isinstance(value, str)
            case _:
                sound = isinstance(value, int)
        if not sound:
            return name
    return None


def _told(machine: Machine, seen: _Seen, now: int) -> Sequence[Finding]:
    found = [
        Finding(
            f"rows of {machine.name}",
            f"{_some(keys)}: not true: {name}",
            "Somebody wrote past the triggers: see its history, and restore the row.",
        )
        for name, keys in seen.broken.items()
    ]
    if not found:
        kept = f"{seen.rows} rows, {len(machine.invariants)} invariants kept"
        found.append(Finding(f"rows of {machine.name}", kept))
    if machine.lease is not None:
        advice = "Their holders are gone or late: start workers, which take them up."
        told = f"{_some(seen.expired)} of {seen.rows} rows" if seen.expired else "none"
        about = f"expired leases of {machine.name}"
        found.append(Finding(about, told, advice if seen.expired else ""))
    if seen.newest > now + MAX_SKEW_MS:
        told = f"last moved at {instant_of(seen.newest)}; it is {instant_of(now)}"
        advice = "The clock was set back: leases last longer by that much; set it right."
        found.append(Finding(f"instants of {machine.name}", told, advice))
    return found


def _some(keys: list[str]) -> str:
    named = ", ".join(keys[:_NAMED])
    return f"{len(keys)} ({named}{', …' if len(keys) > _NAMED else ''})"


def _expired(machine: Machine, row: Row, now: int) -> bool:
    if machine.lease is None or row[machine.state.name] in machine.final:
        return False
    until = row[machine.lease.expires_at.name]
    return until is not None and int(until) <= now


def _rows(store: Store, program: Program) -> Iterator[Row]:
    key = program.machine.key.name
    after: str | None = None
    while True:
        page = store.engine.run(_page(program, after))
        yield from page
        if len(page) < PAGE:
            return
        after = str(page[-1][key])


def _page(program: Program, after: str | None) -> Operation[list[Row]]:
    """Read behind a key, whether or not its row is there still."""
    key = program.table.c[program.machine.key.name]
    query = sa.select(*program.answer()).order_by(key).limit(Placeholder(LIMIT_BIND, Whole()))
    if after is not None:
        query = query.where(key > Placeholder(AFTER_BIND, Key()))
    answer = yield Query(program.statement(query), {LIMIT_BIND: PAGE, AFTER_BIND: after})
    return [program.row(row) for row in answer.rows]
