"""Runs operations for asyncio: the same generators, each statement awaited."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from attrs import define, field

from persistence.operation import Answer
from statemachine.errors import CommitUnknown, SqlatchError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from persistence.engine import Engine
    from persistence.operation import Operation, Reply

_T = TypeVar("_T")


class AsyncSession(Protocol):
    """A connection that one task uses at a time."""

    async def execute(
        self, sql: str, params: Mapping[str, object], *, fragile: bool = False
    ) -> Reply:
        """Run a statement; answers all rows and the explicit clock's reading."""

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Run a block as one transaction; nested: as a savepoint."""


class AsyncBackend(Protocol):
    """A database, awaited."""

    def session(self) -> AbstractAsyncContextManager[AsyncSession]:
        """Lend a connection."""

    async def wait_for_change(self, seconds: float) -> bool:
        """Wait until somebody else has committed; False when nobody did in time."""

    async def close(self) -> None:
        """Close the connections."""


@define(eq=False)
class AsyncEngine:
    """Runs operations on an asynchronous backend.

    Attributes:
        core: Validates, compiles and names callers.

        backend: The database.
    """

    core: Engine
    backend: AsyncBackend
    _held: ContextVar[tuple[asyncio.Task[Any] | None, AsyncSession] | None] = field(
        factory=lambda: ContextVar("sqlatch_session", default=None), init=False
    )

    async def run(self, operation: Operation[_T]) -> _T:
        """Run an operation, each statement on its own or in the task's open transaction."""
        async with self._session() as session:
            return await _run(operation, session)

    async def run_whole(self, operation: Operation[_T], call: str | None = None) -> _T:
        """Run an operation as one transaction; as `Engine.run_whole`."""
        try:
            async with self._session() as session, session.transaction():
                return await _run(operation, session)
        except CommitUnknown as unknown:
            unknown.call = call
            raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Run a block as one transaction of the calling task; nested: as a savepoint."""
        async with self._session() as session:
            mark = self._held.set((asyncio.current_task(), session))
            try:
                async with session.transaction():
                    yield
            finally:
                self._held.reset(mark)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[AsyncSession]:
        """Lend the task's own connection; a task that it started takes another."""
        held = self._held.get()
        if held is not None and held[0] is asyncio.current_task():
            yield held[1]
            return
        async with self.backend.session() as session:
            yield session


async def _run(operation: Operation[_T], session: AsyncSession) -> _T:
    try:
        query = next(operation)
        while True:
            try:
                rows, now = await session.execute(
                    query.statement.sql, query.params, fragile=query.fragile
                )
            except SqlatchError as error:
                query = operation.throw(error)
            else:
                query = operation.send(Answer(rows, now))
    except StopIteration as stop:
        outcome: _T = stop.value
        return outcome
