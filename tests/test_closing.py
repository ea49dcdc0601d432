"""A store that is closed while others are at work on it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta

import pytest

from persistence import Claim, Store
from statemachine.errors import StoreUnavailable
from tests.cases.launches import LEASE, queue
from tests.conftest import POSTGRESQL, SQLITE_FILE, SQLITE_MEMORY

SQLITE = pytest.mark.parametrize(
    "capabilities", [SQLITE_MEMORY, SQLITE_FILE], indirect=True, ids=lambda backend: backend.name
)

SYNCHRONOUS = """
import sys, threading
from persistence import open_store
from statemachine.errors import StoreUnavailable

for number in range(40):
    store, ended = open_store(sys.argv[1], pool_size=1), []

    def work(name, store=store, ended=ended):
        for turn in range(10_000):
            try:
                store.runs.reserve(run_id=f"{name}-{turn}", workflow="w", source_ref="s",
                                   source={}, definition_digest="d")
                store.runs.list()
            except StoreUnavailable as error:
                ended.append(str(error))
                return

    threads = [threading.Thread(target=work, args=(f"{number}-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    threads[0].join(0.02)
    store.close()
    for thread in threads:
        thread.join()
    assert len(ended) == 4, ended
print("all ended")
"""

IN_TRANSACTIONS = """
import sys, threading
from persistence import open_store
from statemachine.errors import StoreUnavailable

for number in range(60):
    store, ended = open_store(sys.argv[1], pool_size=8), []

    def work(name, store=store, ended=ended):
        for turn in range(10_000):
            try:
                with store.transaction():
                    store.runs.reserve(run_id=f"{name}-{turn}", workflow="w", source_ref="s",
                                       source={}, definition_digest="d")
                    store.runs.list()
                store.runs.reserve(call=f"{name}-{turn}", workflow="w", source_ref="s",
                                   source={}, definition_digest="d")
            except StoreUnavailable as error:
                ended.append(str(error))
                return

    threads = [threading.Thread(target=work, args=(f"{number}-{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    threads[0].join(0.01)
    store.close()
    for thread in threads:
        thread.join()
    assert len(ended) == 8, ended
print("all ended")
"""

ASYNCHRONOUS = """
import asyncio, sys
from persistence.aio import open_async_store

async def main():
    for number in range(40):
        store = await open_async_store(sys.argv[1])
        tasks = [asyncio.create_task(store.runs.reserve(
            run_id=f"{number}-{n}", workflow="w", source_ref="s", source={},
            definition_digest="d")) for n in range(6)]
        for _ in range(number % 8):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await store.close()
    print("all ended")

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "script",
    [SYNCHRONOUS, IN_TRANSACTIONS, ASYNCHRONOUS],
    ids=["threads", "threads in transactions", "cancelled tasks"],
)
@pytest.mark.parametrize(
    "capabilities", [SQLITE_FILE, POSTGRESQL], indirect=True, ids=lambda backend: backend.name
)
def test_the_driver_does_not_crash(script: str, database: str) -> None:
    """Whoever is at work then is told that the store is closed; no process dies of it."""
    done = subprocess.run(
        [sys.executable, "-c", script, database],
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=120,
    )

    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "all ended", "")


def test_a_closed_store_says_so(store: Store) -> None:
    """Whatever is asked of it then, also to wait, the answer is our own error."""
    store.close()
    calls: list[Callable[[], object]] = [
        store.runs.list,
        lambda: store.runs.get("r"),
        lambda: store.wait_for_change(timedelta(milliseconds=1)),
        lambda: store.transaction().__enter__(),
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable, match="the store is closed"):
            call()


@SQLITE
def test_a_transaction_ends_with_its_store(store: Store) -> None:
    """Who closes a store within a transaction of its own is told, whatever follows there."""

    def close(*then: Callable[[], object]) -> None:
        with store.transaction():
            store.close()
            for call in then:
                call()

    with pytest.raises(StoreUnavailable, match="the store is closed"):
        close(store.runs.list)


@SQLITE
def test_a_transaction_of_a_closed_store_is_not_committed(store: Store) -> None:
    """Nor is it taken for committed where nothing follows in it."""

    def close() -> None:
        with store.transaction():
            store.close()

    with pytest.raises(StoreUnavailable, match="the store is closed"):
        close()


@SQLITE
def test_a_signal_in_between_takes_no_rows(store: Store) -> None:
    """A handler that calls the store between two steps of a call leaves that call its answer."""
    for number in range(300):
        queue(store, f"r{number}")
    handled: list[object] = []
    before = signal.signal(signal.SIGALRM, lambda *_: handled.append(store.runs.get("r0")))
    signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
    try:
        taken = [store.runs.claim(f"r{n}", runner_id="w", lease=LEASE) for n in range(300)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    assert {type(claim) for claim in taken} == {Claim}
    assert handled
