"""Public means `__all__`: sorted, and everything there can be imported."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys

import pytest

from tests.programs import ROOT

ROOTS = ("persistence", "statemachine")
PUBLIC = (*ROOTS, "persistence.aio", "persistence.hosts", "statemachine.testing")
RUN_NOT_IMPORTED = ("__main__", "env")
"""Scripts: `python -m` runs the one, Alembic the other, within a migration alone."""


@pytest.mark.parametrize("root", PUBLIC)
def test_the_public_names_are_sorted_and_there(root: str) -> None:
    """A reader finds a name at once, and each name is real."""
    module = importlib.import_module(root)

    # Constants, classes, functions, as ruff sorts them.
    order = sorted(set(module.__all__), key=lambda n: (not n.isupper(), n[0].islower(), n))
    assert list(module.__all__) == order
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


@pytest.mark.parametrize("root", PUBLIC)
def test_what_a_root_imports_it_exports(root: str) -> None:
    """Nothing is public by accident, and type checkers see what users see."""
    place = ROOT.joinpath(*root.split("."), "__init__.py")
    tree = ast.parse(place.read_text("utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module not in {"__future__", "typing"}
        for alias in node.names
    }
    module = importlib.import_module(root)

    assert imported - set(module.__all__) == set()


@pytest.mark.parametrize("root", ROOTS)
def test_every_module_imports_and_has_a_docstring(root: str) -> None:
    """No module is broken while no test happens to import it."""
    files = sorted((ROOT / root).rglob("*.py"))
    paths = [path for path in files if path.stem not in RUN_NOT_IMPORTED]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    modules = {name: importlib.import_module(name.removesuffix(".__init__")) for name in names}

    assert [name for name, module in modules.items() if not module.__doc__] == []


@pytest.mark.parametrize("root", ROOTS)
def test_no_module_takes_the_place_of_a_public_name(root: str) -> None:
    """A name means the same whatever was imported before: a submodule becomes an attribute."""
    taken = [path.stem for path in (ROOT / root).iterdir() if path.suffix in ("", ".py")]

    assert [name for name in importlib.import_module(root).__all__ if name in taken] == []


def test_importing_a_root_loads_no_database() -> None:
    """The pytest plugin and the command's help wait for nothing that they do not use."""
    script = "import sys, persistence.pytest_plugin; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, cwd=ROOT)

    assert done.stdout.split() == [b"False"]


def test_a_name_that_is_not_public_is_said_so() -> None:
    """As by any module."""
    with pytest.raises(AttributeError, match="'persistence' has no attribute 'open_shop'"):
        importlib.import_module("persistence").open_shop  # noqa: B018 - the look is the test
