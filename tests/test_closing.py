"""A store that is closed while others are at work on it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import POSTGRESQL, SQLITE_FILE

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


@pytest.mark.parametrize("script", [SYNCHRONOUS, ASYNCHRONOUS], ids=["threads", "cancelled tasks"])
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
