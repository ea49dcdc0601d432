"""What it costs to import sqlatch, to open a store and to run a worker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.programs import ROOT

_OPENED = """
import json, resource, sys
from datetime import timedelta
from pathlib import Path
from persistence import open_store

def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    peak = [l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmHWM")]
    return usage.ru_utime + usage.ru_stime, int(peak[0].split()[1]) / 1024

store = open_store(sys.argv[1])
seconds, _ = used()
opened = sorted(sys.modules)

from persistence.hosts import Worker
for number in range(50):
    store.runs.reserve(
        workflow="w", source_ref="s", source={}, definition_digest="d", input=[number] * 100
    )
Worker(store, {"w": lambda run, lease: {"ok": True}}, runner_id="w").run(until_empty=True)
_, mebibytes = used()
done = len(store.runs.list(statuses=["done"]))
print(json.dumps({"seconds": seconds, "mebibytes": mebibytes, "modules": opened, "done": done}))
"""


@pytest.fixture(params=["sqlite-file", "postgresql"])
def used(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """What a process used that opened a store, and then worked."""
    url = str(tmp_path / "runs.db")
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    command = [sys.executable, "-c", _OPENED, url]
    done = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_opening_is_cheap(used: dict[str, Any]) -> None:
    """A process that opens a store pays at most 0.8 s of CPU; here with room for a busy machine."""
    assert used["seconds"] < 2 * 0.8


def test_worker_is_small(used: dict[str, Any]) -> None:
    """A worker process stays below 80 MiB."""
    assert used["done"] == 50
    assert used["mebibytes"] < 80


def test_nothing_is_loaded_that_is_not_used(tmp_path: Path) -> None:
    """To run launches on SQLite takes no server's driver, no renderer, no checker, no terminal."""
    script = (
        "import sys; from persistence import open_store; import persistence.hosts;"
        " open_store(sys.argv[1]); print(*sys.modules)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "runs.db")]
    done = subprocess.run(command, check=True, capture_output=True, cwd=ROOT, text=True)

    idle = {
        "alembic",
        "hypothesis",
        "persistence.backends.postgresql",
        "psycopg",
        "rich",
        "sqlalchemy.dialects.postgresql",
        "statemachine.exploration",
        "statemachine.render",
        "typer",
    }
    assert idle & {*done.stdout.split()} == set()
