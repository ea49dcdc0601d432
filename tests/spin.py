"""The model checker Spin, which reads what `statemachine.promela` writes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from attrs import frozen

from statemachine.machine import Machine
from statemachine.promela import to_promela
from tests.programs import missing

_WAY = re.compile(r"(\w+): (\w+) -> (\w+)")
_TAKEN = re.compile(r"(\w+): taken, (.*)")


@frozen
class Verified:
    """What Spin found out about a model.

    Attributes:
        ways: Each creation and transition that happened: name, source and dest, as the model names
            them.

        taken: The calls that a uniqueness rule refused, each with the rule's name.

        broken: What does not hold.

        states: How many different states were kept.

        errors: How many errors ended the search.

        story: What led to an error, when `story` was asked for.
    """

    ways: frozenset[tuple[str, str, str]]
    taken: frozenset[tuple[str, str]]
    broken: tuple[str, ...]
    states: int
    errors: int
    story: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """The creations and transitions that happened."""
        return frozenset(name for name, _, _ in self.ways)


def verify(machine: Machine, place: Path, *, rows: int = 1, story: bool = False) -> Verified:
    """Let Spin search a machine.

    Args:
        machine: The declaration.

        place: A directory to work in.

        rows: As for `to_promela`.

        story: Search breadth-first, and tell the shortest way to an error.
    """
    if shutil.which("spin") is None or shutil.which("cc") is None:
        missing("Spin and a C compiler (Debian packages spin, gcc and libc6-dev)")
    (place / "model.pml").write_text(to_promela(machine, rows=rows))
    # It says on standard output what it does not understand, and exits with 0 at times.
    assert _run(place, "spin", "-a", "model.pml").strip() == ""
    order = ("-DBFS",) if story else ()
    _run(place, "cc", "-O1", "-w", "-DSAFETY", "-DNOREDUCE", "-DPRINTF", *order, "-opan", "pan.c")
    lines = [line.strip() for line in _run(place, "./pan", "-m1000000").splitlines()]
    assert not [line for line in lines if "too small" in line or "out of memory" in line]
    told = dict.fromkeys(lines)
    ways = [_WAY.fullmatch(line) for line in told]
    taken = [_TAKEN.fullmatch(line) for line in told]
    summary = "\n".join(told)
    errors = int(_number(r"errors: (\d+)", summary))
    told_so = _run(place, "spin", "-t", "model.pml").splitlines() if errors and story else []
    return Verified(
        ways=frozenset((way[1], way[2], way[3]) for way in ways if way),
        taken=frozenset((one[1], one[2]) for one in taken if one),
        broken=tuple(line.removeprefix("broken: ") for line in told if line.startswith("broken")),
        states=int(_number(r"(\d+) states, stored", summary)),
        errors=errors,
        # Made within one second, the model is "newer" to Spin than the trail that was found in it.
        story=tuple(line.strip() for line in told_so if ": " in line and "is newer" not in line),
    )


def _run(place: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=place, capture_output=True, check=True, encoding="utf-8")
    return done.stdout


def _number(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, text
    return found[1]
