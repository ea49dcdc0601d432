"""Opening a store, and what it offers beside the typed faces."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, Self

from attrs import define, frozen

from persistence import layout
from persistence.borrowed import borrowed
from persistence.clock import Clock, SystemClock
from persistence.engine import Engine, actor_of, key_of, seconds_of
from persistence.history import events_after
from persistence.opening import BUSY_TIMEOUT, POOL_SIZE, access_of, backend_of
from persistence.stores.intents import IntentOperations, Intents
from persistence.stores.notifications import NotificationOperations, Notifications
from persistence.stores.rows import RowOperations, Rows
from persistence.stores.runs import RunOperations, Runs
from statemachine.errors import InvalidArgument
from statemachine.machines import ALL, NOTIFICATION, RUN_LAUNCH, TURN_INTENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from statemachine.machine import Machine
    from statemachine.outcome import Actor, Event, HostEvent


@frozen
class Page:
    """A stretch of the audit feed.

    Attributes:
        events: In commit order.

        cursor: Opaque; where the next page begins.
    """

    events: tuple[Event | HostEvent, ...]
    cursor: str


@define(eq=False)
class Store:
    """An open database.

    Attributes:
        engine: What runs operations.

        runs: The face of run launch.

        intents: The face of turn intents.

        notifications: The face of notifications.
    """

    engine: Engine
    runs: Runs
    intents: Intents
    notifications: Notifications

    @classmethod
    def over(cls, engine: Engine) -> Self:
        """Return the faces over an engine."""
        return cls(
            engine,
            Runs(RunOperations(engine, engine.program(RUN_LAUNCH)), engine),
            Intents(IntentOperations(engine, engine.program(TURN_INTENT)), engine),
            Notifications(NotificationOperations(engine, engine.program(NOTIFICATION)), engine),
        )

    def machine(self, machine: Machine) -> Rows:
        """Return the face of a machine that the store was opened with.

        Raises:
            InvalidArgument: It was not.
        """
        return Rows(self.row_operations(machine), self.engine)

    def row_operations(self, machine: Machine) -> RowOperations:
        """Return the operations of a machine that the store was opened with, without I/O.

        Raises:
            InvalidArgument: It was not.
        """
        if machine not in self.engine.machines:
            known = ", ".join(known.name for known in self.engine.machines)
            raise InvalidArgument("machine", f"one that the store was opened with: {known}")
        return RowOperations(self.engine, self.engine.program(machine))

    def on(self, connection: object) -> Self:
        """Return the same faces on a connection of the caller's, inside its transaction.

        Whatever may be refused leaves the caller's own writes alive. Nothing is committed, rolled
        back or retried that sqlatch did not begin. What it returns can be kept: each call is in
        whatever transaction the connection has then.

        Args:
            connection: `sqlite3.Connection`, `psycopg.Connection`, or a SQLAlchemy `Connection` or
                `Session` on one, to the store's database.

        Raises:
            InvalidArgument: Another kind of connection, or one in a pipeline.
        """
        return self.over(self.engine.on(borrowed(connection, self.engine.backend)))

    @property
    def clock(self) -> Clock:
        """The explicit clock, else the process's; on PostgreSQL without one, the server's rules."""
        return self.engine.clock or SystemClock()

    @property
    def project(self) -> str | None:
        """The project that the store is opened for; None: all of them."""
        return self.engine.project

    @property
    def journal_mode(self) -> str | None:
        """SQLite's journal mode that is in force, `wal` wherever that can be had; None: a server.

        Raises:
            StoreUnavailable: The database is gone.
        """
        return self.engine.backend.journal_mode

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Make several calls of this thread one transaction: all of them or none.

        On SQLite it takes the write lock first. Nested, it is a savepoint.

        Raises:
            StoreBusy, StoreUnavailable, CommitUnknown: Nothing of the block is stored (or, for
                the last, that is not known).
        """
        with self.engine.transaction():
            yield self

    def events_after(self, cursor: str | None = None, limit: int = 100) -> Page:
        """Return what was appended to the audit feed behind a cursor (None: the beginning).

        A reader that follows the cursors misses nothing and sees nothing twice. On PostgreSQL a
        long write transaction, of anybody, delays the feed.

        Args:
            cursor: From an earlier page.

            limit: 1 to 1,000.

        Raises:
            InvalidArgument: Not a cursor, or a limit out of bounds.
        """
        events, behind = self.engine.run(events_after(self.engine.backend.dialect, cursor, limit))
        return Page(tuple(events), behind)

    def wait_for_change(self, timeout: timedelta) -> bool:
        """Wait until somebody else has committed; False when nobody is known to have."""
        return self.engine.backend.wait_for_change(seconds_of(timeout, "timeout"))

    def close(self) -> None:
        """Close this process's connections; the store cannot be used afterwards.

        A statement that another thread runs just then ends first; its next one is told that the
        store is closed (`StoreUnavailable`).
        """
        self.engine.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> str:
        msg = "a store holds connections and cannot be pickled; open it again where it is needed"
        raise TypeError(msg)


def open_store(
    url: str,
    *,
    clock: Clock | None = None,
    durability: Literal["normal", "full"] = "normal",
    create: bool = True,
    read_only: bool = False,
    project: str | None = "default",
    machines: Sequence[Machine] = (),
    actor: Actor | None = None,
    busy_timeout: timedelta = BUSY_TIMEOUT,
    schema: str | None = None,
    pool_size: int = POOL_SIZE,
    through_pooler: bool = False,
) -> Store:
    """Open a database.

    Args:
        url: A path, `sqlite:///path` or `:memory:`; or `postgresql://…`.

        clock: Rules on either database; None: the process's on SQLite, the server's on PostgreSQL.

        durability: SQLite's `synchronous`: `normal` keeps every commit through a crash of the
            process, and may lose the last ones with the power; `full` keeps them then too.

        create: Make a missing file and a missing layout.

        read_only: Create nothing and write nothing.

        project: The project of creations, lists and `claim_next`; None: all of them.

        machines: Own machines, whose tables are created and verified beside the shipped ones; to a
            table that is there, `sqlatch ddl` prints what is to be added first.

        actor: Who calls, where a call does not say; None: this process.

        busy_timeout: How long to wait for another writer, 1 ms to 100 years.

        schema: PostgreSQL: the schema of the tables; None: the first of the search path.

        pool_size: PostgreSQL: most connections of this process, 1 to 1,000.

        through_pooler: PostgreSQL behind a proxy that pools transactions: nothing is prepared, no
            setting is kept (a wait for a lock is then the server's to bound), and changes are
            polled for.

    Raises:
        InvalidArgument: A value out of its bounds.

        SchemaMismatch: Another layout; nothing was changed.

        StoreUnavailable, StoreCorrupt, StoreBusy: The database cannot be used.
    """
    access = access_of(
        durability=durability,
        create=create and not read_only,
        read_only=read_only,
        busy_timeout=busy_timeout,
        schema=schema,
        pool_size=pool_size,
        through_pooler=through_pooler,
    )
    backend = backend_of(url, clock, access)
    engine = Engine(
        backend,
        clock,
        None if project is None else key_of(project, "project"),
        actor_of(actor),
        (*ALL, *machines),
    )
    try:
        with backend.session() as session:
            layout.ensure(session, engine.machines, backend.dialect, create=access.create)
        backend.settle()
    except BaseException:
        backend.close()
        raise
    return Store.over(engine)
