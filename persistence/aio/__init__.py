"""The same store for asyncio: the operations are the same, awaited."""

from __future__ import annotations

from persistence.aio.store import AsyncStore, open_async_store
from persistence.aio.worker import AsyncLease, AsyncWorker, keep

__all__ = ["AsyncLease", "AsyncStore", "AsyncWorker", "keep", "open_async_store"]
