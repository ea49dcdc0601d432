"""PostgreSQL for asyncio: the same conversation, on psycopg's asynchronous connections."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from attrs import define, field
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from persistence.backends.postgresql_wire import Pause, Rows, Send, Talk, Wire
from statemachine.errors import StoreClosed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from persistence.backends.postgresql import Postgres, PostgresqlBackend
    from persistence.operation import Reply

_T = TypeVar("_T")
Driver = psycopg.AsyncConnection[tuple[Any, ...]]


@define(eq=False)
class AsyncPostgresqlSession:
    """One connection, driven by asyncio."""

    _cursor: psycopg.AsyncRawCursor[tuple[Any, ...]]
    _wire: Wire

    @classmethod
    def on(cls, driver: Driver, now: Callable[[], int] | None) -> AsyncPostgresqlSession:
        """Return a session on an open connection."""
        return cls(psycopg.AsyncRawCursor(driver, row_factory=tuple_row), Wire.on(driver, now))

    async def execute(
        self, sql: str, params: Mapping[str, object], *, fragile: bool = False
    ) -> Reply:
        """Run a statement; answers all rows and the explicit clock's reading, as `Wire` says."""
        return await self._talk(self._wire.execute(sql, params, fragile=fragile))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Run a block as one transaction; nested: as a savepoint."""
        await self._talk(self._wire.begin())
        try:
            yield
        except BaseException:
            await self._talk(self._wire.undo())
            raise
        await self._talk(self._wire.commit())

    async def _talk(self, talk: Talk[_T]) -> _T:
        try:
            step = next(talk)
            while True:
                step = await self._step(talk, step)
        except StopIteration as stop:
            outcome: _T = stop.value
            return outcome
        except _Ended as end:
            return end.value  # type: ignore[no-any-return]  # what the talk answered

    async def _step(self, talk: Talk[_T], step: Send | Pause) -> Send | Pause:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return _sent(talk, ())
        try:
            await self._cursor.execute(*step.bound())
            rows: Rows = () if self._cursor.rownumber is None else await self._cursor.fetchall()
        except psycopg.Error as error:
            return _thrown(talk, error)
        return _sent(talk, rows)


class _Ended(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def _sent(talk: Talk[_T], rows: Rows) -> Send | Pause:
    try:
        return talk.send(rows)
    except StopIteration as stop:
        raise _Ended(stop.value) from None


def _thrown(talk: Talk[_T], error: psycopg.Error) -> Send | Pause:
    try:
        return talk.throw(error)
    except StopIteration as stop:
        raise _Ended(stop.value) from None


class Pooled(Driver):
    """A connection of the pool, with the session that is driven on it."""

    session: AsyncPostgresqlSession | None = None


def _cancellations() -> int:
    """Return how often the present task was told to end."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


@define(eq=False)
class AsyncPostgresqlBackend:
    """A PostgreSQL database, through an asynchronous pool.

    Attributes:
        backend: The synchronous one, which says how the database is reached.
    """

    backend: PostgresqlBackend
    _pool: AsyncConnectionPool[Pooled] | None = field(default=None, init=False)
    _opening: asyncio.Lock = field(factory=asyncio.Lock, init=False)

    @property
    def _place(self) -> Postgres:
        return self.backend.place

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncPostgresqlSession]:
        """Lend a connection of the pool."""
        pool = await self._opened()
        asked = _cancellations()
        try:
            driver = await pool.getconn(timeout=self._place.busy_seconds)
        except PoolTimeout as error:
            raise await asyncio.to_thread(self.backend.unreachable) from error
        except PoolClosed as error:
            raise StoreClosed from error
        try:
            if _cancellations() > asked:  # Python 3.11's `wait_for`, in the pool, swallows it
                raise asyncio.CancelledError
            if driver.session is None:
                driver.session = AsyncPostgresqlSession.on(driver, self.backend.now)
            yield driver.session
        finally:
            broken = driver.closed or driver.broken
            await pool.putconn(driver)
            if broken:
                await pool.check()  # whatever broke it may have broken the idle ones too

    async def _opened(self) -> AsyncConnectionPool[Pooled]:
        async with self._opening:
            self.backend.check_open()
            if self._pool is None:
                pool: AsyncConnectionPool[Pooled] = AsyncConnectionPool(
                    self._place.url,
                    connection_class=Pooled,
                    kwargs=dict(self._place.settings),
                    configure=self._configure,
                    min_size=0,
                    max_size=self._place.pool_size,
                    open=False,
                )
                await pool.open()
                self._pool = pool
            return self._pool

    async def _configure(self, driver: Driver) -> None:
        for statement in self._place.setup:
            await driver.execute(statement.encode())

    async def wait_for_change(self, seconds: float) -> bool:
        """Wait for a notification on a thread of its own, which keeps its listening connection."""
        return await asyncio.to_thread(self.backend.wait_for_change, seconds)

    async def close(self) -> None:
        """Close every connection."""
        async with self._opening:
            await asyncio.to_thread(self.backend.close)
        if self._pool is not None:
            await self._pool.close()
