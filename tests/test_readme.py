"""What the README shows works as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SCRIPTS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
LINKS = re.findall(r"\]\(([^)#:]+)\)", README)


def ran(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a script of the README in an empty directory, with warnings as errors."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_five_minutes(tmp_path: Path) -> None:
    """A new user's script reserves a run, claims it, begins it and finishes it."""
    said = ran(SCRIPTS[0], tmp_path)

    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines() == [
        "done {'text': 'Hello, Ada!'}",
        "False finish refused: 'greeting-1' is done",
        "1 None -> queued reserve",
        "2 queued -> starting claim",
        "3 starting -> running mark_running",
        "4 running -> done finish",
    ]


def test_worker_of_own_handlers(tmp_path: Path) -> None:
    """The worker that the README shows carries out the run that it reserves."""
    reserve, _ = SCRIPTS[0].split("    # A runner takes", 1)
    look = "print(store.runs.get('greeting-1').result)"
    said = ran(f"{reserve}\n{SCRIPTS[1]}    {look}\n", tmp_path)

    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout == "{'text': 'Hello, Ada!'}\n"


def test_own_machine_next_to_an_own_write(tmp_path: Path) -> None:
    """An order moves in the caller's transaction; a refusal does not spoil it."""
    said = ran(SCRIPTS[2], tmp_path)

    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines() == [
        "paid | pay refused: 'o-1' is paid",
        "paid ['place', 'pay']",
    ]


def test_asyncio(tmp_path: Path) -> None:
    """The asynchronous worker carries out what was reserved."""
    said = ran(SCRIPTS[3], tmp_path)

    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines() == ["['Hello, Ada!', 'Hello, Grace!']"]


@pytest.mark.parametrize("target", sorted(set(LINKS)))
def test_link_leads_somewhere(target: str) -> None:
    """Every file that the README links to is there."""
    assert (ROOT / target).exists()
