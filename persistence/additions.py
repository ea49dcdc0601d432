"""What is to be added to a database, and to tables that users made; nothing is changed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from persistence.bound import binding_ddl, value_before
from persistence.fit import is_there, lacking, misfits, unlike_a_table
from persistence.layout import differences, is_users, parts_of
from persistence.layout_record import (
    catalog_of,
    forgetting,
    is_laid_out,
    name_made,
    names_made,
    recorded_in,
    recording,
)
from persistence.rows_before import none_against, rows_against
from statemachine.errors import SchemaMismatch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from persistence.dialect import Dialect
    from persistence.layout import Session
    from statemachine.machine import Machine

_ADVICE = "Nothing was printed that could be run: bring table and declaration together first."


def whole(machines: Sequence[Machine], dialect: Dialect) -> dict[str, tuple[str, ...]]:
    """Return the statements that make and record each part of a layout, by part."""
    parts = parts_of(machines, dialect)
    return {part: (*ddl, recording(part, ddl, dialect)) for part, ddl in parts.items()}


def is_fresh(session: Session, machines: Sequence[Machine], dialect: Dialect) -> bool:
    """Tell whether the database has neither a layout nor a table of these machines."""
    catalog = catalog_of(session, dialect)
    return not is_laid_out(catalog) and not any(is_there(m, catalog) for m in machines)


def additions(
    session: Session, machines: Sequence[Machine], dialect: Dialect, now: int
) -> dict[str, tuple[str, ...]]:
    """Return, by part, the statements without which a store of these machines does not open.

    Args:
        session: A connection; it only reads.

        machines: The machines.

        dialect: The database.

        now: When rows that are there are said to have moved last, in milliseconds since the epoch.

    Raises:
        SchemaMismatch: What is there cannot be added to; says all that is in the way.
    """
    catalog = catalog_of(session, dialect)
    recorded = recorded_in(session, dialect) if is_laid_out(catalog) else {}
    users = {
        m.name: _Table(m, dialect, catalog) for m in machines if is_users(m, catalog, recorded)
    }
    added: dict[str, tuple[str, ...]] = {}
    problems = [problem for table in users.values() for problem in table.problems(session)]
    for part, declared in parts_of(machines, dialect).items():
        made, provided = declared, None
        if part in users:
            made = users[part].ddl(now)
            provided = none_against(users[part].machine, dialect)
        absent = [one for one in made if name_made(one) not in {None, *catalog}]
        record = recording(part, made, dialect, declared=declared, provided=provided)
        if part not in recorded:
            problems += [f"{name} is in the way" for name in names_made(made) if name in catalog]
            added[part] = (*made, record)
        elif absent:
            added[part] = (*absent, forgetting(part, dialect), record)
    missing = {f"{name} is missing" for some in added.values() for name in names_made(some)}
    known = [machine for machine in machines if machine.name in recorded]
    problems += [d for d in differences(catalog, recorded, known, dialect) if d not in missing]
    if problems:
        raise SchemaMismatch(tuple(dict.fromkeys(problems)), _ADVICE)
    return added


@frozen
class _Table:
    """A table that a user made, and the machine that it is to be bound to."""

    machine: Machine
    dialect: Dialect
    catalog: Mapping[str, str]

    def ddl(self, now: int) -> tuple[str, ...]:
        return binding_ddl(self.machine, self.dialect, lacking(self.machine, self.catalog), now)

    def problems(self, session: Session) -> list[str]:
        machine, absent = self.machine, lacking(self.machine, self.catalog)
        found = misfits(machine, self.dialect, self.catalog)
        if unlike_a_table(machine, self.catalog) is not None:
            return found
        found += [
            f"column {machine.table}.{field.name} is missing, and its record gives no default"
            for field in absent
            if not field.nullable and value_before(field, 0) is None
        ]
        # Rows are looked at as what they should be: text compared with an integer is an error.
        return found or rows_against(session, machine, self.dialect, absent)
