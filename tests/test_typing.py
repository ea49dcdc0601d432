"""Types are part of the interface: what a type checker says of a declaration with a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

from tests.programs import ROOT

HEAD = """\
import attrs
from statemachine import NOW, Equal, Guard, Param, Put, Refused, Run, RunStatus, Set, Text
from statemachine import RUN_LAUNCH, Moved, Transition, decide

run = attrs.fields(Run)
"""


def checked(line: str, folder: Path) -> str:
    """Return what mypy says of a declaration that ends in this line; empty: nothing."""
    source = folder / "declaration.py"
    source.write_text(HEAD + line + "\n", "utf-8")
    shared = ROOT / ".mypy_cache"
    said, errors, _ = api.run(
        [
            "--strict",
            "--no-error-summary",
            "--hide-error-context",
            f"--cache-dir={shared}",
            str(source),
        ]
    )
    assert errors == ""

    return "\n".join(line.partition(": ")[2] for line in said.splitlines())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('Transition("go", (RunStatus.QUEUED,), RunStatus.STARTING)', ""),
        ("Put(run.waiting, False)", ""),
        ("Put(run.wating, False)", 'has no attribute "wating"'),
        ('Guard("paused", Equal(run.pause, True))', 'has no attribute "pause"'),
        (
            'Transition("go", RunStatus.QUEUED, (RunStatus.STARTING,))',
            'Argument 2 to "Transition" has incompatible type',
        ),
        (
            'Transition("go", RunStatus.QUEUED, (RunStatus.STARTING,))',
            'Argument 3 to "Transition" has incompatible type',
        ),
        (
            'Transition("go", (RunStatus.QUEUD,), None)',
            '"type[RunStatus]" has no attribute "QUEUD"',
        ),
        ("Put(run.waiting, None)", 'Argument 2 to "Put" has incompatible type "None"'),
        ("Set(run.waiting, True)", 'Argument 2 to "Set" has incompatible type "bool"'),
        ('Guard("late", NOW)', 'Argument 2 to "Guard" has incompatible type "Now"'),
        ('Param("who", str)', 'Argument 2 to "Param" has incompatible type "type[str]"'),
        ('Param("who", Text(max_char=3))', 'Unexpected keyword argument "max_char"'),
        ('decide(RUN_LAUNCH, {}, "wake", {}, 0).row', 'has no attribute "row"'),
        (
            (
                'outcome: Moved | Refused = decide(RUN_LAUNCH, {}, "wake", {}, 0)\n'
                "if isinstance(outcome, Moved): outcome.row"
            ),
            "",
        ),
    ],
    ids=range(14),
)
def test_a_type_checker_finds_mistakes_of_a_declaration(
    line: str, said: str, tmp_path: Path
) -> None:
    """A misspelt column or state, source and dest swapped, a value where a term belongs."""
    found = checked(line, tmp_path)

    assert said in found
    assert (said == "") == (found == "")
