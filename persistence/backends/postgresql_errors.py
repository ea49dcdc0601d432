"""PostgreSQL's errors as ours: mapped once, at the edge."""

from __future__ import annotations

import psycopg
from psycopg import errors

from persistence.operation import EXPIRED, Clash
from statemachine.errors import (
    IllegalTransition,
    SchemaMismatch,
    SqlatchError,
    StoreBusy,
    StoreUnavailable,
)

_ILLEGAL = "SQ001"


def is_transient(error: psycopg.Error) -> bool:
    """Tell whether the same statement may succeed when it is run again at once."""
    return isinstance(error, errors.SerializationFailure | errors.DeadlockDetected)


def translated(error: psycopg.Error) -> SqlatchError:
    """Return our error for the driver's, to be raised with it as the cause."""
    text = error.diag.message_primary or str(error).strip()
    match error:
        case errors.UniqueViolation():
            return Clash(error.diag.constraint_name or "")
        case errors.DivisionByZero():
            return Clash(EXPIRED)
        case errors.CheckViolation() | errors.NotNullViolation():
            error.args = (text,)  # its detail is the whole row, private columns too
            return IllegalTransition(f"the database refused the row: {text}")
        case psycopg.IntegrityError() | errors.RaiseException():  # of what a user put there
            return IllegalTransition(f"the database refused the row: {text}")
        case _ if error.sqlstate == _ILLEGAL:
            return IllegalTransition((error.diag.message_primary or text).split(":", 2)[-1])
        case errors.LockNotAvailable() | errors.QueryCanceled():
            return StoreBusy(f"a lock was not to be had in time; try again: {text}")
        case errors.SerializationFailure() | errors.DeadlockDetected():
            return StoreBusy(f"another transaction was in the way; try again: {text}")
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.UndefinedFunction():
            return SchemaMismatch((text,), "Run `sqlatch doctor` to see what the database has.")
        case errors.InvalidSchemaName():
            return SchemaMismatch((text,), "Make the schema first: CREATE SCHEMA <its name>.")
        case errors.DuplicateTable() | errors.DuplicateObject() | errors.DuplicateFunction():
            return SchemaMismatch((text,), "Run `sqlatch doctor` to see what the database has.")
        case _:
            return StoreUnavailable(f"the database failed: {text}")
