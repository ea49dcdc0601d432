"""SQLite for asyncio: the driver blocks, so each connection has a thread of its own."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define, field

from statemachine.errors import StoreClosed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from persistence.engine import Backend
    from persistence.operation import Reply

_T = TypeVar("_T")

LANES = 4
"""Connections of one store: writers wait for one another anyway."""


@define(eq=False)
class Lane:
    """One thread with the connection that belongs to it."""

    _backend: Backend
    _thread: ThreadPoolExecutor = field(
        factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="sqlatch-lane"), init=False
    )
    _last: asyncio.Future[Any] | None = field(default=None, init=False)
    _begun_here: list[ExitStack] = field(factory=list, init=False)

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run something blocking on the lane; it ends there even where the waiting is cancelled."""
        doing = self._begun(work)
        awaited = asyncio.shield(doing)
        try:
            return await awaited
        except asyncio.CancelledError:
            # It may have failed before the cancellation came, and be heard of by nobody either.
            for future in (doing, awaited):
                future.add_done_callback(_forgotten)
            raise

    def _begun(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        loop = asyncio.get_running_loop()
        try:
            doing = loop.run_in_executor(self._thread, work)
        except RuntimeError as error:  # the thread takes nothing more
            raise StoreClosed from error
        self._last = doing
        return doing

    def when_idle(self, call: Callable[[], None]) -> None:
        """Call something once all is done that was begun, also what nobody waits for any more."""
        if self._last is None or self._last.done():
            call()
        else:
            self._last.add_done_callback(lambda _: call())

    async def execute(
        self, sql: str, params: Mapping[str, object], *, fragile: bool = False
    ) -> Reply:
        """Run a statement; as the synchronous session does."""
        return await self.run(partial(self._execute, sql, params, fragile))

    def _execute(
        self,
        sql: str,
        params: Mapping[str, object],
        fragile: bool,  # noqa: FBT001 - passed on
    ) -> Reply:
        with self._backend.session() as session:
            return session.execute(sql, params, fragile=fragile)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Run a block as one transaction; the thread's connection holds it between the calls."""
        held = ExitStack()
        try:
            await self.run(partial(self._begin, held))
        except asyncio.CancelledError:
            with suppress(StoreClosed):  # it has ended it by itself
                self._begun(held.close).add_done_callback(_forgotten)  # it begins all the same
            raise
        try:
            yield
        except BaseException as error:
            with suppress(StoreClosed):  # why the block ended says more, and a task's end most
                await self.run(partial(held.__exit__, type(error), error, error.__traceback__))
            raise
        await self.run(partial(held.__exit__, None, None, None))

    def _begin(self, held: ExitStack) -> None:
        with ExitStack() as stack:
            session = stack.enter_context(self._backend.session())
            stack.enter_context(session.transaction())
            stack.callback(self._begun_here.remove, held)
            held.push(stack.pop_all())
            self._begun_here.append(held)

    def _give_up(self) -> None:
        """Undo the transactions that are open: nobody can end them on another thread."""
        closed = StoreClosed()
        for held in reversed(self._begun_here.copy()):
            with suppress(StoreClosed):
                held.__exit__(StoreClosed, closed, None)

    def close(self) -> None:
        """Let the thread end what was begun on it, and end."""
        self._thread.submit(self._give_up)
        self._thread.shutdown()


def _forgotten(done: asyncio.Future[Any]) -> None:
    """Look at the end of what nobody waits for: asyncio would log an error that is nobody's."""
    if not done.cancelled():
        done.exception()


@define(eq=False)
class AsyncSqliteBackend:
    """A SQLite database, on lanes.

    Attributes:
        backend: The synchronous backend, whose connections belong to threads.
    """

    backend: Backend
    _lanes: asyncio.LifoQueue[Lane] = field(factory=asyncio.LifoQueue, init=False)
    _all: list[Lane] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._all = [Lane(self.backend) for _ in range(LANES)]
        for lane in self._all:
            self._lanes.put_nowait(lane)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Lane]:
        """Lend a lane.

        Raises:
            StoreClosed: It is.
        """
        if not self._all:
            raise StoreClosed
        lane = await self._lanes.get()
        try:
            yield lane
        finally:
            lane.when_idle(partial(self._lanes.put_nowait, lane))

    async def wait_for_change(self, seconds: float) -> bool:
        """Wait on a thread of its own, so that no lane is blocked."""
        return await asyncio.to_thread(self.backend.wait_for_change, seconds)

    async def close(self) -> None:
        """Let the threads end what was begun, also what nobody waits for; close the connections."""
        lanes, self._all = self._all, []
        await asyncio.gather(*(asyncio.to_thread(lane.close) for lane in lanes))
        await asyncio.to_thread(self.backend.close)
