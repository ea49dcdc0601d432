"""The database's layout: created whole, verified at each opening, never changed in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from persistence.fit import is_there, lacking, misfits, unlike_a_table
from persistence.layout_record import (
    VERSION,
    catalog_of,
    digest,
    is_laid_out,
    recorded_in,
    recording,
)
from persistence.schema import machine_ddl, shared_ddl
from statemachine.errors import SchemaMismatch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from persistence.dialect import Dialect
    from persistence.layout_record import Record
    from persistence.operation import Reply
    from statemachine.machine import Machine

SHARED_PART = "sqlatch"

_BINDING = (
    " `sqlatch ddl MODULE:NAME --db URL` prints what is to be added to a table of your own,"
    " or says why it cannot be bound."
)


class Session(Protocol):
    """A connection, as far as the layout needs one."""

    def execute(self, sql: str, params: Mapping[str, object], *, fragile: bool = False) -> Reply:
        """Run a statement."""

    def script(self, statements: Sequence[str]) -> None:
        """Run statements without parameters."""

    def transaction(self) -> AbstractContextManager[None]:
        """Run a block as one transaction."""


def ensure(
    session: Session, machines: Sequence[Machine], dialect: Dialect, *, create: bool
) -> None:
    """Verify the layout, and make what is missing where that is asked for.

    Safe when several processes begin at once: one makes it, the others find it made.

    Raises:
        SchemaMismatch: Something is missing, extra or different; says what, and what to do.
    """
    parts = parts_of(machines, dialect)
    if create and _missing(session, parts, dialect):
        with session.transaction():
            lock = dialect.layout_lock()
            if lock is not None:
                session.execute(lock, {})
            missing = _missing(session, parts, dialect)
            catalog = catalog_of(session, dialect)
            there = [m for m in machines if m.name not in missing or is_there(m, catalog)]
            if there or len(missing) < len(parts):
                _verify(session, there, dialect)
            install(session, {part: parts[part] for part in missing}, dialect, version=VERSION)
    _verify(session, machines, dialect)


def parts_of(machines: Sequence[Machine], dialect: Dialect) -> dict[str, tuple[str, ...]]:
    """Return the statements that make each part of the layout."""
    parts = {SHARED_PART: shared_ddl(dialect)}
    return parts | {machine.name: machine_ddl(machine, dialect) for machine in machines}


def has_layout(session: Session, dialect: Dialect) -> bool:
    """Tell whether the database has any layout of sqlatch."""
    return is_laid_out(catalog_of(session, dialect))


def install(
    session: Session, parts: Mapping[str, tuple[str, ...]], dialect: Dialect, *, version: int
) -> None:
    """Make parts of a layout, and record each with what the database made of it."""
    for part, ddl in parts.items():
        session.script((*ddl, recording(part, ddl, dialect, version=version)))


def _missing(session: Session, parts: Mapping[str, tuple[str, ...]], dialect: Dialect) -> list[str]:
    if not has_layout(session, dialect):
        return list(parts)
    recorded = recorded_in(session, dialect)
    return [part for part in parts if part not in recorded]


def _verify(session: Session, machines: Sequence[Machine], dialect: Dialect) -> None:
    catalog = catalog_of(session, dialect)
    recorded = recorded_in(session, dialect) if is_laid_out(catalog) else {}
    users = [machine for machine in machines if is_users(machine, catalog, recorded)]
    found = [_unbound(machine, catalog) for machine in users if machine.name not in recorded]
    advice = "Nothing was changed."
    if is_laid_out(catalog):
        ours = parts_of([machine for machine in machines if machine not in users], dialect)
        found += [f"{part} is missing" for part in ours if part not in recorded]
        found += differences(catalog, recorded, machines, dialect)
        advice += " Run `sqlatch migrate`, or restore what was altered."
    else:
        found.append("the database has no sqlatch layout")
        advice += " Run `sqlatch init`, or open it with create=True." if not users else ""
    if found:
        raise SchemaMismatch(tuple(found), advice + _BINDING if users else advice)


def is_users(machine: Machine, catalog: Mapping[str, str], recorded: Mapping[str, Record]) -> bool:
    """Tell whether the machine's table is there, and none that sqlatch made."""
    ours = any(f"table {machine.table}" in record.made for record in recorded.values())
    return is_there(machine, catalog) and not ours


def _unbound(machine: Machine, catalog: Mapping[str, str]) -> str:
    unlike = unlike_a_table(machine, catalog)
    if unlike is not None:
        return unlike
    names = ", ".join(field.name for field in lacking(machine, catalog)) or "triggers"
    return f"table {machine.table} is there, but not bound to {machine.name}: it lacks {names}"


def differences(
    catalog: Mapping[str, str],
    recorded: Mapping[str, Record],
    machines: Sequence[Machine],
    dialect: Dialect,
) -> list[str]:
    """Return what differs from what is recorded and declared, one sentence each."""
    found = []
    parts = parts_of(machines, dialect)
    for part, record in recorded.items():
        if part in parts and (record.version, record.digest) != (VERSION, digest(parts[part])):
            found.append(f"{part} has layout {record.version} of another declaration")
        for name, definition in record.made.items():
            if name not in catalog:
                found.append(f"{name} is missing")
            elif catalog[name] != definition:
                found.append(f"{name} is different")
    for machine in machines:
        if machine.name in recorded and is_users(machine, catalog, recorded):
            columns = [f"column {machine.table}.{f.name}" for f in lacking(machine, catalog)]
            known = recorded[machine.name].made
            found += [f"{name} is missing" for name in columns if name not in known]
            found += misfits(machine, dialect, catalog)
    return found + _foreign(catalog, recorded)


def _foreign(catalog: Mapping[str, str], recorded: Mapping[str, Record]) -> list[str]:
    """Return what nobody declared upon our tables, and what could undo what ours hold.

    An index of one's own that makes nothing unique is nobody's business; nor is anything on a
    table that a user made.
    """
    known = {name for record in recorded.values() for name in record.made}
    tables = {name.partition(" ")[2].lower() for name in known if name.startswith("table ")}
    found = []
    for name, definition in catalog.items():
        kind, _, place = name.partition(" ")
        harmless = kind == "index" and "UNIQUE" not in definition.upper().split("(")[0]
        if place.partition(".")[0] in tables and name not in known and not harmless:
            found.append(f"{name} is extra")
    return found
