"""The stories of `tests/machines`, told of a machine with a mistake."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import statemachine
from statemachine import machines
from statemachine.machine import Machine

HERE = Path(__file__).parent / "machines"
TELLERS = ("story", "told")


def failing_story(intact: Machine, mutant: Machine) -> str | None:
    """Return the name of the first story of a machine that is not true of its mutant."""
    with declared(intact, mutant):
        for teller in TELLERS:
            _fresh(teller)
        for path in sorted(HERE.glob(f"test_{intact.name}*.py")):
            try:
                module = _fresh(path.stem)
            except Exception:  # noqa: BLE001 - whatever a story that is told at import stumbles over
                return f"{path.stem}: the beginning"
            for name, story in _stories(module):
                for values in _parametrized(story):
                    try:
                        story(**values)
                    except Exception:  # noqa: BLE001 - a story fails by any error, its own or ours
                        return name
    return None


@contextmanager
def declared(intact: Machine, mutant: Machine) -> Iterator[None]:
    """Put a mutant wherever the shipped machine is imported from."""
    name = intact.name.upper()
    owner = importlib.import_module(f"statemachine.machines.{intact.name}")
    places = (statemachine, machines, owner)
    for place in places:
        setattr(place, name, mutant)
    try:
        yield
    finally:
        for place in places:
            setattr(place, name, intact)
        for module in (*TELLERS, *(path.stem for path in HERE.glob(f"test_{intact.name}*.py"))):
            _fresh(module)


def _fresh(name: str) -> ModuleType:
    return importlib.reload(importlib.import_module(f"tests.machines.{name}"))


def _stories(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    for name, value in list(vars(module).items()):
        if name.startswith("test_") and isinstance(value, FunctionType):
            yield name, value


def _parametrized(story: FunctionType) -> Iterator[dict[str, Any]]:
    """Yield the values of a story's parameters, as pytest would give them."""
    choices: list[list[dict[str, Any]]] = []
    for mark in getattr(story, "pytestmark", []):
        assert mark.name == "parametrize", mark.name
        names, given = mark.args
        names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
        single = len(names) == 1
        choices.append([dict(zip(names, (one,) if single else one, strict=True)) for one in given])
    for chosen in itertools.product(*choices):
        yield {name: value for part in chosen for name, value in part.items()}
