"""Many rows of a machine in every state, made on the database itself from a few."""

from __future__ import annotations

from persistence.scratch import Scratch
from statemachine.kinds import Instant, Plain, Text
from statemachine.machine import Machine
from statemachine.valuations import cells

_DRAW = {
    "sqlite": (
        "WITH RECURSIVE several(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM several WHERE n < {0})"
    ),
    "postgresql": "WITH several(n) AS (SELECT generate_series(1, {0}))",
}


def crowd(scratch: Scratch, rows: int) -> None:
    """Fill a table with at least so many rows: every state, leased and not, with and without.

    Each copy has a key and slots of its own, and instants a little later than the one before.
    """
    machine = scratch.program.machine
    templates = _templates(machine)
    for template in templates:
        scratch.put(template)
    copies = rows // len(templates) + 1
    names = list(machine.fields)
    draw = _DRAW[scratch.program.dialect.name].format(copies)
    columns = ", ".join(_copied(machine, name) for name in names)
    sql = (
        f"INSERT INTO {machine.table} ({', '.join(names)})"
        f" {draw} SELECT {columns} FROM {machine.table}, several"
    )
    with scratch.engine.backend.session() as session:
        session.script((sql,))


def _templates(machine: Machine) -> list[dict[str, Plain]]:
    """Return rows that differ in state and in which columns are NULL."""
    found: dict[tuple[object, ...], dict[str, Plain]] = {}
    for cell in cells(machine):
        shape = tuple(value is None for value in cell.row.values())
        found.setdefault((cell.row[machine.state.name], *shape), dict(cell.row))
    for number, row in enumerate(found.values()):
        for name in _apart(machine):
            if row[name] is not None:
                row[name] = f"{row[name]}{number}"
        row["last_call"] = f"call {number}"
    return list(found.values())


def _apart(machine: Machine) -> list[str]:
    """Return the text columns in which no two rows may agree."""
    slots = [column.name for rule in machine.uniqueness for column in rule.columns]
    names = [machine.key.name, *slots]
    return [n for n in dict.fromkeys(names) if isinstance(machine.fields[n].kind, Text)]


def _copied(machine: Machine, name: str) -> str:
    kind = machine.fields[name].kind
    if name in (*_apart(machine), "last_call"):
        return f"{name} || 'x' || n"
    if isinstance(kind, Instant):
        return f"{name} + n"
    return name
