"""The command `sqlatch`, run as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ARGV = (sys.executable, "-m", "persistence.cli")
ROOT = str(Path(__file__).parents[2])


def environment(db: Path | str, **more: str) -> dict[str, str]:
    """Return the environment of a command on a database."""
    path = os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH"))))
    return os.environ | {"SQLATCH_DB": str(db), "PYTHONPATH": path} | more


def sqlatch(
    *args: str, db: Path | str, cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*ARGV, *args],
        env=environment(db, **env),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def start(*args: str, db: Path | str) -> subprocess.Popen[bytes]:
    """Start the command in a process group of its own."""
    return subprocess.Popen(
        [*ARGV, *args],
        env=environment(db),
        process_group=0,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def launch_file(path: Path, launches: Sequence[Mapping[str, Any]]) -> str:
    """Write a launch file; return its path."""
    path.write_text("".join(json.dumps(launch) + "\n" for launch in launches))
    return str(path)


def eventually(holds: Callable[[], bool], *, seconds: float = 20.0) -> bool:
    """Wait until it holds."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
