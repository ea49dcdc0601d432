"""What the README shows works as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SCRIPTS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
BINDING = re.findall(r"^sqlatch (ddl .*?) > ", README, re.MULTILINE)
LINKS = re.findall(r"\]\(([^)#:]+)\)", README)


def ran(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a script of the README in a directory of its own, with warnings as errors."""
    return python(["-W", "error", "-c", script], directory)


def python(arguments: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Run Python there, with the packages of this checkout."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, *arguments],
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


def test_a_table_that_was_there(tmp_path: Path) -> None:
    """What `ddl` prints makes the machine's table of it, and a column of the user's own stays."""
    declared, _ = SCRIPTS[2].split("with open_store", 1)
    (tmp_path / "shop.py").write_text(declared)
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute(
            "CREATE TABLE orders (order_id TEXT PRIMARY KEY, state TEXT NOT NULL,"
            " basket TEXT NOT NULL, reminders INTEGER NOT NULL, note TEXT)"
        )
        shop.execute("INSERT INTO orders VALUES ('o-1', 'pending', 'b-1', 0, 'mine')")
    (command,) = BINDING
    printed = python(["-m", "persistence.cli", *shlex.split(command)], tmp_path)
    shop.executescript(printed.stdout)
    said = ran(SCRIPTS[3], tmp_path)
    noted = shop.execute("SELECT note FROM orders").fetchall()
    shop.close()

    assert (printed.returncode, said.returncode, said.stderr) == (0, 0, "")
    assert said.stdout.splitlines() == ["pending []", "[('pay', 2)]"]
    assert noted == [("mine",)]


def test_asyncio(tmp_path: Path) -> None:
    """The asynchronous worker carries out what was reserved."""
    said = ran(SCRIPTS[4], tmp_path)

    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines() == ["['Hello, Ada!', 'Hello, Grace!']"]


@pytest.mark.parametrize("target", sorted(set(LINKS)))
def test_link_leads_somewhere(target: str) -> None:
    """Every file that the README links to is there."""
    assert (ROOT / target).exists()
