"""What it costs to import sqlatch, to open a store and to run a worker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import ROOT

_CPU = """
import resource
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_utime + usage.ru_stime)
"""

_OPEN = "import sys; from persistence import open_store; open_store(sys.argv[1])"

_YARDSTICKS = {"postgresql": "import sqlalchemy, psycopg", "sqlite-file": "import sqlalchemy"}
"""What takes 0.32 to 0.45 s of CPU where a store is opened in 0.8 s; more where that takes more."""

_WORKED = """
import json, sys
from pathlib import Path
from persistence import open_store
from persistence.hosts import Worker

store = open_store(sys.argv[1])
for number in range(50):
    store.runs.reserve(
        workflow="w", source_ref="s", source={}, definition_digest="d", input=[number] * 100
    )
Worker(store, {"w": lambda run, lease: {"ok": True}}, runner_id="w").run(until_empty=True)
peak = [l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmHWM")]
done = len(store.runs.list(statuses=["done"]))
print(json.dumps({"mebibytes": int(peak[0].split()[1]) / 1024, "done": done}))
"""


@pytest.fixture(params=sorted(_YARDSTICKS))
def kind(request: pytest.FixtureRequest) -> str:
    """The database in turn."""
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without a layout."""
    if kind == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "runs.db")


def _said(script: str, *arguments: str) -> str:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, check=True, capture_output=True, cwd=ROOT, text=True).stdout


def test_opening_is_cheap(kind: str, url: str) -> None:
    """To make and open a store costs at most four times what importing its libraries does.

    That is twice the 0.8 s of CPU which are meant; seconds alone would say how busy a machine is.
    """
    before = float(_said(_YARDSTICKS[kind] + _CPU))
    opening = float(_said(_OPEN + _CPU, url))
    after = float(_said(_YARDSTICKS[kind] + _CPU))

    assert opening < 4 * max(before, after)


def test_worker_is_small(url: str) -> None:
    """A worker process stays below 80 MiB."""
    used = json.loads(_said(_WORKED, url))

    assert used["done"] == 50
    assert used["mebibytes"] < 80


def test_nothing_is_loaded_that_is_not_used(tmp_path: Path) -> None:
    """To run launches on SQLite takes no server's driver, no renderer, no checker, no terminal."""
    script = (
        "import sys; from persistence import open_store; import persistence.hosts;"
        " open_store(sys.argv[1]); print(*sys.modules)"
    )
    loaded = _said(script, str(tmp_path / "runs.db"))

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
    assert idle & {*loaded.split()} == set()
