"""How a database is opened: what the caller allows, and the backend that a URL names."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from attrs import frozen

from persistence.backends.sqlite import SqliteBackend, path_of
from persistence.clock import Clock, milliseconds
from persistence.engine import seconds_of
from statemachine.errors import InvalidArgument
from statemachine.kinds import Integer, Text, admit

if TYPE_CHECKING:
    from persistence.backends.postgresql import PostgresqlBackend

BUSY_TIMEOUT = timedelta(seconds=5)
POOL_SIZE = 32
_SCHEMA = Text(max_chars=63, pattern="[A-Za-z_][A-Za-z0-9_]*")


@frozen(kw_only=True)
class Access:
    """What a caller allows, and how it reaches the database; the fields are `open_store`'s.

    Attributes:
        durable: Whether the durability is `full`.

        wait: The busy timeout, in seconds.
    """

    durable: bool = False
    create: bool = True
    read_only: bool = False
    wait: float = BUSY_TIMEOUT.total_seconds()
    schema: str | None = None
    pool_size: int = POOL_SIZE
    through_pooler: bool = False


def access_of(
    *,
    durability: str,
    create: bool,
    read_only: bool,
    busy_timeout: timedelta,
    schema: str | None,
    pool_size: int,
    through_pooler: bool,
) -> Access:
    """Validate `open_store`'s arguments.

    Raises:
        InvalidArgument: A value out of its bounds.
    """
    if durability not in ("normal", "full"):
        raise InvalidArgument("durability", "normal or full")
    return Access(
        durable=durability == "full",
        create=create,
        read_only=read_only,
        wait=seconds_of(busy_timeout, "busy_timeout"),
        schema=None if schema is None else str(admit(_SCHEMA, schema, "schema")),
        pool_size=int(admit(Integer(1, 1_000), pool_size, "pool_size") or 0),
        through_pooler=through_pooler,
    )


def on_server(url: str) -> bool:
    """Tell whether a URL names a PostgreSQL database."""
    return url.startswith(("postgresql://", "postgres://"))


def backend_of(url: str, clock: Clock | None, access: Access) -> SqliteBackend | PostgresqlBackend:
    """Return the backend that a URL names.

    Raises:
        InvalidArgument: Another scheme.

        StoreUnavailable: The file does not exist, or cannot be created.
    """
    if not isinstance(url, str) or not url:  # type: ignore[redundant-expr]  # callers without types
        raise InvalidArgument("url", "a path or a URL")
    explicit = None if clock is None else (lambda: milliseconds(clock))
    if on_server(url):
        # psycopg costs a quarter of a second to import, and SQLite needs none of it.
        from persistence.backends.postgresql import Postgres, PostgresqlBackend  # noqa: PLC0415 - as said

        place = Postgres(
            url,
            access.wait,
            access.read_only,
            access.schema,
            access.pool_size,
            prepare=not access.through_pooler,
            session_state=not access.through_pooler,
        )
        return PostgresqlBackend(place, explicit)
    if "://" in url and not url.startswith("sqlite:///"):
        raise InvalidArgument("url", "a path, sqlite:///path, :memory: or postgresql://…")
    return SqliteBackend(
        path_of(url),
        access.durable,
        access.create,
        access.read_only,
        access.wait,
        explicit,
    )
