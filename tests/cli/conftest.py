"""The command in this process, on a database file of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from attrs import frozen

from persistence.cli.app import app
from persistence.cli.exits import guarded


@frozen
class Said:
    """How the command ended, and what it said.

    Attributes:
        code: Exit code.

        out: Standard output.

        err: Standard error.
    """

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The printed JSON document."""
        return json.loads(self.out)


Call: TypeAlias = Callable[..., Said]


@pytest.fixture
def db(tmp_path: Path) -> str:
    """Path of a database file that does not exist yet."""
    return str(tmp_path / "test.db")


@pytest.fixture
def call(db: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command with arguments."""
    monkeypatch.setenv("SQLATCH_DB", db)

    def run(*args: str) -> Said:
        with pytest.raises(SystemExit) as ended:
            guarded(lambda: app(args, prog_name="sqlatch"))
        out, err = capsys.readouterr()
        return Said(int(ended.value.code or 0), out, err)

    return run
