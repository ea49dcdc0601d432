"""The database's layout: created whole, verified at each opening, never changed in silence."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Protocol

import sqlalchemy as sa

from persistence.compile import Statement
from persistence.dialect import Dialect, Placeholder, text_of
from persistence.schema import LAYOUT, machine_ddl, shared_ddl
from statemachine.errors import SchemaMismatch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from statemachine.machine import Machine

VERSION = 1
"""The layout of this version of sqlatch."""

SHARED_PART = "sqlatch"


class Session(Protocol):
    """A connection, as far as the layout needs one."""

    def execute(
        self, sql: str, params: Mapping[str, object], *, fragile: bool = False
    ) -> tuple[Sequence[Sequence[Any]], int | None]:
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
            if len(missing) < len(parts):
                there = {part: ddl for part, ddl in parts.items() if part not in missing}
                _verify(session, there, dialect)
            install(session, {part: parts[part] for part in missing}, dialect, version=VERSION)
    _verify(session, parts, dialect)


def parts_of(machines: Sequence[Machine], dialect: Dialect) -> dict[str, tuple[str, ...]]:
    """Return the statements that make each part of the layout."""
    parts = {SHARED_PART: shared_ddl(dialect)}
    return parts | {machine.name: machine_ddl(machine, dialect) for machine in machines}


def has_layout(session: Session, dialect: Dialect) -> bool:
    """Tell whether the database has any layout of sqlatch."""
    return _has_layout(_catalog(session, dialect))


def install(
    session: Session, parts: Mapping[str, tuple[str, ...]], dialect: Dialect, *, version: int
) -> None:
    """Make parts of a layout, and record each with what the database made of it."""
    for part, ddl in parts.items():
        _make(session, part, ddl, dialect, version=version)


def _make(
    session: Session, part: str, ddl: tuple[str, ...], dialect: Dialect, *, version: int
) -> None:
    before = _catalog(session, dialect)
    session.script(ddl)
    made = {k: v for k, v in _catalog(session, dialect).items() if before.get(k) != v}
    session.execute(
        _record(dialect).sql,
        {"part": part, "version": version, "digest": _digest(ddl), "catalog": json.dumps(made)},
    )


def _record(dialect: Dialect) -> Statement:
    columns = {c.name: Placeholder(c.name, c.type) for c in LAYOUT.c}
    return Statement(text_of(sa.insert(LAYOUT).values(columns), dialect.statements))


def _catalog(session: Session, dialect: Dialect) -> dict[str, str]:
    rows, _ = session.execute(dialect.catalog(), {})
    return {row[0]: row[1] for row in rows}


def _recorded(session: Session, dialect: Dialect) -> dict[str, tuple[int, str, str]]:
    columns = (LAYOUT.c.part, LAYOUT.c.version, LAYOUT.c.digest, LAYOUT.c.catalog)
    rows, _ = session.execute(text_of(sa.select(*columns), dialect.statements), {})
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


def _missing(session: Session, parts: Mapping[str, tuple[str, ...]], dialect: Dialect) -> list[str]:
    if not _has_layout(_catalog(session, dialect)):
        return list(parts)
    recorded = _recorded(session, dialect)
    return [part for part in parts if part not in recorded]


def _has_layout(catalog: Mapping[str, str]) -> bool:
    return f"table {LAYOUT.name}" in catalog


def _digest(ddl: tuple[str, ...]) -> str:
    return hashlib.sha256("\n".join(ddl).encode()).hexdigest()


def _verify(session: Session, parts: Mapping[str, tuple[str, ...]], dialect: Dialect) -> None:
    catalog = _catalog(session, dialect)
    if not _has_layout(catalog):
        problem = "the database has no sqlatch layout"
        raise SchemaMismatch((problem,), "Run `sqlatch init`, or open it with create=True.")
    recorded = _recorded(session, dialect)
    differences = [f"{part} is missing" for part in parts if part not in recorded]
    for part, (version, digest, made) in recorded.items():
        if part in parts and (version, digest) != (VERSION, _digest(parts[part])):
            differences.append(f"{part} has layout {version} of another declaration")
        for name, definition in json.loads(made).items():
            if name not in catalog:
                differences.append(f"{name} is missing")
            elif catalog[name] != definition:
                differences.append(f"{name} is different")
    differences += _foreign(catalog, recorded)
    if differences:
        advice = "Nothing was changed. Run `sqlatch migrate`, or restore what was altered."
        raise SchemaMismatch(tuple(differences), advice)


def _foreign(catalog: Mapping[str, str], recorded: Mapping[str, tuple[int, str, str]]) -> list[str]:
    """Return what nobody declared upon the tables, and what could undo what ours hold.

    An index of one's own that makes nothing unique is nobody's business.
    """
    known = {name for _, _, made in recorded.values() for name in json.loads(made)}
    tables = {name.partition(" ")[2].lower() for name in known if name.startswith("table ")}
    found = []
    for name, definition in catalog.items():
        kind, _, place = name.partition(" ")
        harmless = kind == "index" and "UNIQUE" not in definition.upper().split("(")[0]
        if place.partition(".")[0] in tables and name not in known and not harmless:
            found.append(f"{name} is extra")
    return found
