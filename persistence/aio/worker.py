"""Leases and the worker for asyncio: renewals run on a thread, whatever the loop is doing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from persistence.hosts import LeaseKeeper, Worker
from persistence.hosts.worker import MAX_TOGETHER

if TYPE_CHECKING:
    from persistence.aio.store import AsyncStore
    from persistence.hosts import Lease
    from persistence.hosts.verdict import Handler, Verdict
    from persistence.stores.claims import Claim
    from statemachine.kinds import JsonValue
    from statemachine.machines import Run


@frozen
class AsyncLease:
    """A lease as an asynchronous handler sees it.

    Attributes:
        lease: The lease itself; `held`, `cancel_requested` and `stop_requested` are answered
            locally, at no cost.
    """

    lease: Lease

    @property
    def claim(self) -> Claim:
        """The claim as last renewed: what holders' calls take."""
        return self.lease.claim

    @property
    def held(self) -> bool:
        """Whether it is surely still held."""
        return self.lease.held

    @property
    def cancel_requested(self) -> bool:
        """Whether a cancellation was requested, as of the last renewal."""
        return self.lease.cancel_requested

    @property
    def stop_requested(self) -> bool:
        """Whether the worker is stopping: park as soon as the work allows."""
        return self.lease.stop_requested

    async def check(self) -> None:
        """Make sure of the lease, against the store: to be called before a consequential write.

        Raises:
            LeaseLost: It is not held any more; stop the work and write nothing more.
        """
        await asyncio.to_thread(self.lease.check)


AsyncHandler: TypeAlias = "Callable[[Run, AsyncLease], Awaitable[JsonValue | Verdict]]"


@asynccontextmanager
async def keep(
    keeper: LeaseKeeper, lease: Lease, *, on_lost: Callable[[Lease], None] | None = None
) -> AsyncIterator[AsyncLease]:
    """Renew a lease until the block is left; on the keeper's thread, so a busy loop loses nothing.

    Args:
        keeper: Of the store's `sync.runs`.

        lease: From `keeper.lease(claim, sent_at=…)`.

        on_lost: Told once, in the loop, when it is lost.
    """
    loop = asyncio.get_running_loop()

    def lost(lease: Lease) -> None:
        if on_lost is not None:
            loop.call_soon_threadsafe(on_lost, lease)

    with keeper.keep(lease, on_lost=lost):
        yield AsyncLease(lease)


class AsyncWorker:
    """The detached host for coroutines: claims, renewals and ends happen on threads.

    A handler that blocks the loop therefore delays other handlers, but loses no lease.

    Args:
        store: An open store.

        handlers: By workflow name; each is awaited in the loop that called `run`.

        runner_id: Name of this worker, unique among all that are running; a key.

        lease, renew_every, poll: As for `Worker`.

        concurrency: Most runs, or batches, at a time.

        together: Most runs of a batch, 1 to 100, while they are short, as for `Worker`; those of
            one batch are awaited one after the other.
    """

    def __init__(
        self,
        store: AsyncStore,
        handlers: Mapping[str, AsyncHandler],
        *,
        runner_id: str,
        lease: timedelta = timedelta(seconds=30),
        renew_every: timedelta = timedelta(seconds=10),
        poll: timedelta = timedelta(seconds=3),
        concurrency: int = 8,
        together: int = MAX_TOGETHER,
    ) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker = Worker(
            store.sync,
            {workflow: self._bridge(handler) for workflow, handler in handlers.items()},
            runner_id=runner_id,
            lease=lease,
            renew_every=renew_every,
            poll=poll,
            concurrency=concurrency,
            together=together,
        )

    async def run(self, *, until_empty: bool = False) -> None:
        """Work until stopped, or until nothing is left; cancelled, it stops gracefully first.

        Args:
            until_empty: As for `Worker.run`.

        Raises:
            SqlatchError: The database is damaged, or was out of reach for too long.
        """
        self._loop = asyncio.get_running_loop()
        work = asyncio.create_task(asyncio.to_thread(self._worker.run, until_empty=until_empty))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            self.stop()
            await work
            raise

    def stop(self) -> None:
        """Claim nothing more, and let the handlers see `stop_requested`."""
        self._worker.stop()

    def _bridge(self, handler: AsyncHandler) -> Handler:
        def carry_out(run: Run, lease: Lease) -> JsonValue | Verdict:
            assert self._loop is not None
            waiting = asyncio.run_coroutine_threadsafe(
                _awaited(handler, run, AsyncLease(lease)), self._loop
            )
            try:
                return waiting.result()
            except CancelledError as error:
                msg = "the handler was cancelled"
                raise RuntimeError(msg) from error

        return carry_out


async def _awaited(handler: AsyncHandler, run: Run, lease: AsyncLease) -> JsonValue | Verdict:
    return await handler(run, lease)
