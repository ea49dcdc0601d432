"""SQLite's errors as ours: mapped once, at the edge."""

from __future__ import annotations

import sqlite3

from persistence.operation import Clash
from persistence.refusal import REPEATED
from statemachine.errors import (
    IllegalTransition,
    SchemaMismatch,
    SqlatchError,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreUnavailable,
)

_PRIMARY = 0xFF
_LASTING = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOTADB,
)
_LAYOUT = (
    "no such table",
    "no such column",
    "no such trigger",
    "has no column named",
    "already exists",
)


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether another connection is in the way, for now.

    A snapshot that another writer has overtaken is: for good.
    """
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY_SNAPSHOT:
        return False
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_lasting(error: sqlite3.Error) -> bool:
    """Tell whether the connection is of no use any more, also once the cause is gone."""
    return _code(error) in _LASTING


def is_dooming(error: sqlite3.Error) -> bool:
    """Tell whether SQLite may have given up the open transaction, or should."""
    return is_lasting(error) or _code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM)


def translated(error: sqlite3.Error) -> SqlatchError:
    """Return our error for SQLite's, to be raised with it as the cause."""
    text = str(error)
    if text.startswith("sqlatch:"):
        return _ours(text)
    if isinstance(error, sqlite3.ProgrammingError) and "closed database" in text:
        return StoreClosed()
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(f"another writer holds the database: {text}")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreCorrupt(f"the file is damaged or no database: {text}")
        case sqlite3.SQLITE_CONSTRAINT:
            return _constraint(error, text)
        case sqlite3.SQLITE_ERROR if any(part in text for part in _LAYOUT):
            return SchemaMismatch((text,), "Run `sqlatch doctor` to see what the database has.")
        case sqlite3.SQLITE_FULL:
            return StoreUnavailable(f"the disk is full: {text}")
        case _:
            return StoreUnavailable(f"the database failed: {text}")


def _ours(text: str) -> SqlatchError:
    _, kind, rest = text.split(":", 2)
    match kind:
        case "unique" | "exists":
            return Clash(rest)
        case "call":
            return Clash(REPEATED)
        case _:
            return IllegalTransition(rest)


def _constraint(error: sqlite3.Error, text: str) -> SqlatchError:
    if error.sqlite_errorcode in (
        sqlite3.SQLITE_CONSTRAINT_UNIQUE,
        sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
    ):
        return Clash(text.rpartition(": ")[2])
    return IllegalTransition(f"the database refused the row: {text}")


def _code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & _PRIMARY
