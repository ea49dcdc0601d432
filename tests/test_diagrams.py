"""diagrams/ is what the declarations give: generated, committed, verified, never edited."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from statemachine.__main__ import main, stale
from statemachine.machines import ALL
from statemachine.render.gallery import GENERATED
from tests.programs import ROOT, graphviz, mermaid

DIAGRAMS = ROOT / "diagrams"
COMMENTS = {
    ".mmd": f"%% {GENERATED}",
    ".dot": f"// {GENERATED}",
    ".svg": f"<!-- {GENERATED} -->",
    ".md": f"<!-- {GENERATED} -->",
}


def text_of(suffix: str) -> list[str]:
    """Return the text of every committed file of this suffix."""
    return [path.read_text("utf-8") for path in sorted(DIAGRAMS.glob(f"*{suffix}"))]


def test_the_committed_files_are_what_the_declarations_give() -> None:
    """After a change of a machine: `python -m statemachine diagrams`, and read the difference."""
    assert stale(DIAGRAMS) == []


def test_each_machine_has_its_four_files_and_the_page_shows_them() -> None:
    """The index embeds the picture and links the rest."""
    stems = [machine.name for machine in ALL]
    expected = {f"{stem}{suffix}" for stem in stems for suffix in COMMENTS} | {"README.md"}
    index = (DIAGRAMS / "README.md").read_text("utf-8")

    assert {path.name for path in DIAGRAMS.iterdir()} == expected
    assert [name for name in sorted(expected - {"README.md"}) if f"({name})" not in index] == []
    assert index.count("```mermaid\nstateDiagram-v2\n") == len(ALL)


def test_each_file_begins_by_saying_that_it_is_generated() -> None:
    """In the comment syntax of its format, so that nobody edits it."""
    first = {path.name: path.read_text("utf-8").split("\n")[0] for path in DIAGRAMS.iterdir()}

    assert first == {name: COMMENTS[Path(name).suffix] for name in first}


def test_the_committed_files_are_read_by_the_programs_of_their_formats() -> None:
    """With the comment on their first line, too."""
    read = mermaid(*text_of(".mmd"))
    drawn = [graphviz(text) for text in text_of(".dot")]
    pictures = [ET.fromstring(text) for text in text_of(".svg")]

    assert len(read) == len(drawn) == len(pictures) == len(ALL)


def test_check_names_what_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` exits 1 and names each file that is missing, edited or left over."""
    main(["diagrams", "--to", str(tmp_path)])
    capsys.readouterr()
    (tmp_path / "run_launch.svg").write_text("edited")
    (tmp_path / "run_launch.dot").unlink()
    (tmp_path / "gone_machine.md").write_text("left over")

    code = main(["diagrams", "--check", "--to", str(tmp_path)])

    named = [line.split(";")[0] for line in capsys.readouterr().err.splitlines()]
    names = ("run_launch.dot", "run_launch.svg", "gone_machine.md")
    assert code == 1
    assert named == [f"stale: {tmp_path / name}" for name in names]
    assert (tmp_path / "run_launch.svg").read_text() == "edited"


def test_diagrams_writes_what_is_stale_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second run has nothing to do; what belongs to no machine is removed."""
    main(["diagrams", "--to", str(tmp_path)])
    (tmp_path / "gone_machine.md").write_text("left over")
    capsys.readouterr()

    code = main(["diagrams", "--to", str(tmp_path)])

    assert code == 0
    assert capsys.readouterr().out == f"removed {tmp_path / 'gone_machine.md'}\n"
    assert main(["diagrams", "--check", "--to", str(tmp_path)]) == 0


def test_the_bytes_are_the_same_under_each_hash_seed(tmp_path: Path) -> None:
    """No set and no hash decides an order: another process draws the same."""
    for seed in ("0", "1", "4294967295"):
        subprocess.run(
            [sys.executable, "-m", "statemachine", "diagrams", "--to", str(tmp_path / seed)],
            check=True,
            capture_output=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )

    drawn = [
        {path.name: path.read_bytes() for path in sorted((tmp_path / seed).iterdir())}
        for seed in ("0", "1", "4294967295")
    ]
    committed = {path.name: path.read_bytes() for path in sorted(DIAGRAMS.iterdir())}
    assert drawn == [committed] * 3
