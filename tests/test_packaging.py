"""The built wheel is whole, and nobody else claims our import names."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import pytest

from tests.programs import ROOT

NAMES = ("persistence", "statemachine")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the repository as users get it."""
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(directory), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = directory.glob("*.whl")
    return built


def test_no_other_installed_distribution_claims_our_names() -> None:
    """python-statemachine owns the first name on PyPI; the two cannot share an environment."""
    installed = packages_distributions()
    # An editable install lists no packages, so its name may be absent; another's may not be there.
    claims = {name: set(installed.get(name, ())) - {"sqlatch"} for name in NAMES}
    known = [
        d.metadata["Name"] for d in distributions() if d.metadata["Name"] == "python-statemachine"
    ]

    assert claims == {name: set() for name in NAMES}
    assert known == []


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_its_types_and_nothing_else(wheel: Path) -> None:
    """What is in the repository's two packages is what users get."""
    held = {
        name
        for name in zipfile.ZipFile(wheel).namelist()
        if not name.startswith("sqlatch-")  # metadata
    }

    ours = {
        str(path.relative_to(ROOT))
        for name in NAMES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == ours
    assert {f"{name}/py.typed" for name in NAMES} <= held


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """Outside the repository, with nothing but what the wheel asks for."""
    environment, elsewhere = tmp_path / "environment", tmp_path / "elsewhere"
    elsewhere.mkdir()
    venv.create(environment, with_pip=True)
    programs = environment / "bin"
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COVERAGE", "COV_"))
    }

    def run(program: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(programs / program), *arguments],
            check=True,
            capture_output=True,
            cwd=elsewhere,
            encoding="utf-8",
            env=clean,
        )
        return done.stdout

    run("python", "-m", "pip", "install", "--quiet", str(wheel))
    where = run("python", "-c", "import persistence, statemachine; print(persistence.__file__)")
    drawn = run("python", "-m", "statemachine", "diagrams")
    helped = run("sqlatch", "--help")

    assert Path(where.strip()).is_relative_to(environment)
    assert "diagrams/README.md" in drawn
    assert "run" in helped
