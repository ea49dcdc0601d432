"""Opening a store for asyncio."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, Self

from attrs import define

from persistence.aio.engine import AsyncBackend, AsyncEngine
from persistence.aio.faces import AsyncIntents, AsyncNotifications, AsyncRows, AsyncRuns
from persistence.aio.sqlite import AsyncSqliteBackend
from persistence.backends.sqlite import SqliteBackend
from persistence.engine import seconds_of
from persistence.history import events_after
from persistence.opening import BUSY_TIMEOUT, POOL_SIZE
from persistence.store import Page, Store, open_store
from persistence.stores.intents import IntentOperations
from persistence.stores.notifications import NotificationOperations
from persistence.stores.runs import RunOperations
from statemachine.machines import NOTIFICATION, RUN_LAUNCH, TURN_INTENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import timedelta
    from types import TracebackType

    from persistence.clock import Clock
    from statemachine.machine import Machine
    from statemachine.outcome import Actor


@define(eq=False)
class AsyncStore:
    """An open database, for asyncio.

    Attributes:
        sync: The same database, opened synchronously; for threads, such as a lease keeper's.

        engine: What runs operations.

        runs, intents, notifications: The faces; each call is awaited.
    """

    sync: Store
    engine: AsyncEngine
    runs: AsyncRuns
    intents: AsyncIntents
    notifications: AsyncNotifications

    @classmethod
    def over(cls, sync: Store, engine: AsyncEngine) -> Self:
        """Return the faces over an engine."""
        core = engine.core
        return cls(
            sync,
            engine,
            AsyncRuns(RunOperations(core, core.program(RUN_LAUNCH)), engine),
            AsyncIntents(IntentOperations(core, core.program(TURN_INTENT)), engine),
            AsyncNotifications(NotificationOperations(core, core.program(NOTIFICATION)), engine),
        )

    def machine(self, machine: Machine) -> AsyncRows:
        """Return the face of a machine that the store was opened with.

        Raises:
            InvalidArgument: It was not.
        """
        return AsyncRows(self.sync.row_operations(machine), self.engine)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Make several calls of this task one transaction, as `Store.transaction` does.

        Raises:
            StoreBusy, StoreUnavailable, CommitUnknown: As there.
        """
        async with self.engine.transaction():
            yield self

    async def events_after(self, cursor: str | None = None, limit: int = 100) -> Page:
        """Return what was appended to the audit feed behind a cursor, as `Store.events_after`.

        Raises:
            InvalidArgument: Not a cursor, or a limit out of bounds.
        """
        dialect = self.engine.core.backend.dialect
        events, behind = await self.engine.run(events_after(dialect, cursor, limit))
        return Page(tuple(events), behind)

    async def wait_for_change(self, timeout: timedelta) -> bool:  # noqa: ASYNC109 - as `Store`'s
        """Wait until somebody else has committed; False when nobody is known to have."""
        return await self.engine.backend.wait_for_change(seconds_of(timeout, "timeout"))

    async def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""
        await self.engine.backend.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


async def open_async_store(
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
) -> AsyncStore:
    """Open a database for asyncio; arguments and errors are those of `open_store`."""
    sync = await asyncio.to_thread(
        partial(
            open_store,
            url,
            clock=clock,
            durability=durability,
            create=create,
            read_only=read_only,
            project=project,
            machines=machines,
            actor=actor,
            busy_timeout=busy_timeout,
            schema=schema,
            pool_size=pool_size,
            through_pooler=through_pooler,
        )
    )
    return AsyncStore.over(sync, AsyncEngine(sync.engine, _awaited(sync)))


def _awaited(sync: Store) -> AsyncBackend:
    backend = sync.engine.backend
    if isinstance(backend, SqliteBackend):
        return AsyncSqliteBackend(backend)
    # psycopg costs a quarter of a second to import, and SQLite needs none of it.
    from persistence.aio.postgresql import AsyncPostgresqlBackend  # noqa: PLC0415 - as said
    from persistence.backends.postgresql import PostgresqlBackend  # noqa: PLC0415 - likewise

    assert isinstance(backend, PostgresqlBackend), backend
    return AsyncPostgresqlBackend(backend)
