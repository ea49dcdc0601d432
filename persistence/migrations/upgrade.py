"""Bringing a database to this version's layout; safe when several processes begin at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from attrs import frozen

from persistence.backends.sqlite import SqliteBackend
from persistence.layout import has_layout
from persistence.layout_record import VERSION
from persistence.opening import Access, backend_of
from statemachine.errors import StoreUnavailable

if TYPE_CHECKING:
    from persistence.backends.postgresql import PostgresqlBackend

VERSION_TABLE = "sqlatch_version"
_HEAD = f"{VERSION:04}"


@frozen
class Migrated:
    """What a migration did.

    Attributes:
        before: The layout that was found; None: none at all.

        after: The layout now.
    """

    before: str | None
    after: str


def migrate(url: str) -> Migrated:
    """Bring a database to this version's layout, whole or not at all.

    Args:
        url: As for `open_store`; a missing SQLite file is created.

    Returns:
        The layout before and after; equal when there was nothing to do.

    Raises:
        SchemaMismatch: A table of our name is in the way.

        StoreUnavailable, StoreCorrupt, StoreBusy: The database cannot be used.
    """
    backend = backend_of(url, None, Access(durable=True, wait=60.0))
    try:
        with backend.session():  # files, modes and WAL are the backend's matter
            pass
        with _transaction(backend, url) as connection:
            return _upgrade(connection, backend)
    except sa.exc.DBAPIError as error:
        msg = f"the database cannot be migrated: {error.orig}"
        raise StoreUnavailable(msg) from error
    finally:
        backend.close()


def _upgrade(connection: sa.Connection, backend: SqliteBackend | PostgresqlBackend) -> Migrated:
    session = backend.borrow(connection.connection.driver_connection)
    assert session is not None
    lock = backend.dialect.layout_lock()
    if lock is not None:
        session.execute(lock, {})
    config = Config(
        attributes={"connection": connection, "session": session, "dialect": backend.dialect}
    )
    config.set_main_option("script_location", str(Path(__file__).parent))
    before = _version(connection)
    if before is None and has_layout(session, backend.dialect):
        # `open_store` made it, from the same declarations.
        before = _HEAD
        command.stamp(config, _HEAD)
    command.upgrade(config, "head")
    return Migrated(before, _version(connection) or _HEAD)


def _version(connection: sa.Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()


@contextmanager
def _transaction(backend: SqliteBackend | PostgresqlBackend, url: str) -> Iterator[sa.Connection]:
    """Open a SQLAlchemy connection in one transaction that holds the write lock from its start."""
    if isinstance(backend, SqliteBackend):
        engine = sa.create_engine(
            "sqlite://", creator=lambda: backend.driver(wait=60.0), poolclass=sa.StaticPool
        )
        sa.event.listen(engine, "begin", lambda c: c.exec_driver_sql("BEGIN IMMEDIATE"))
    else:
        scheme, _, rest = url.partition("://")
        del scheme
        engine = sa.create_engine(f"postgresql+psycopg://{rest}", poolclass=sa.NullPool)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()
