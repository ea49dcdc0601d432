"""Every command is documented: by its help, and in the README."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from persistence.cli.app import COMMANDS, app
from tests.cli.conftest import Call
from tests.cli.programs import ROOT

NAMES = [name for name, _ in COMMANDS]


def command_of(name: str) -> Any:
    """Return a command as it stands behind the command line."""
    group: Any = typer.main.get_command(app)
    return group.commands[name]


@pytest.mark.parametrize("name", NAMES)
def test_command_has_help(call: Call, name: str) -> None:
    """A command says what it does, and what each of its options means."""
    said = call(name, "--help")
    parameters = [one for one in command_of(name).params if not getattr(one, "hidden", False)]

    assert said.code == 0
    assert len((command_of(name).help or "").split()) >= 4
    for parameter in parameters:
        assert getattr(parameter, "help", ""), f"{name}: {parameter.name}"


@pytest.mark.parametrize("name", NAMES)
def test_command_is_in_the_readme(name: str) -> None:
    """The README's command reference has every command."""
    readme = (Path(ROOT) / "README.md").read_text()
    _, reference = readme.split("## Commands", 1)

    assert re.search(rf"^\| `{name}\b", reference, re.MULTILINE)


def test_no_command_shows_the_help(call: Call) -> None:
    """`sqlatch` alone shows every command."""
    said = call()

    assert all(re.search(rf"\b{name}\b", said.out + said.err) for name in NAMES)
