"""One seeded mistake per check of rules and selections; each names the place."""

from __future__ import annotations

from typing import Any

import pytest

from statemachine.kinds import Text
from statemachine.machine import Arm, Invariant, Selection, Transition, Uniqueness
from statemachine.vocabulary import NOW, AtMost, Column, Equal, IsNull, Less, Param, Set
from tests.door import FIRST, LABEL, NEW, OPENING, SHUTTING, door, refused


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            {"invariants": (Invariant("i", Equal(door.label, LABEL)),)},
            "invariant 'i': it may read the row alone",
        ),
        (
            {"invariants": (Invariant("i", AtMost(door.until, NOW)),)},
            "invariant 'i': it may read the row alone",
        ),
        ({"invariants": (Invariant("i", IsNull(Column("x"))),)}, "invariant 'i': unknown column"),
        ({"invariants": (Invariant("i", IsNull(door.label)),) * 2}, "invariant 'i': the name is"),
        (
            {"uniqueness": (Uniqueness("u", (Column("x"),), IsNull(door.label)),)},
            "uniqueness rule 'u': unknown column 'x'",
        ),
        ({"uniqueness": (Uniqueness("u", (), IsNull(door.label)),)}, "rule 'u': it names no col"),
        (
            {"uniqueness": (Uniqueness("u", (door.label,), Less(door.until, NOW)),)},
            "uniqueness rule 'u': it may read the row alone",
        ),
        (
            {"uniqueness": (Uniqueness("u", (door.label,), IsNull(door.label)),) * 2},
            "uniqueness rule 'u': the name is given 2 times",
        ),
        (
            {"selections": (Selection(name="s", transition="opn", arms=(FIRST,)),)},
            "selection 's': unknown transition 'opn'",
        ),
        ({"selections": (Selection(name="s", transition="open", arms=()),)}, "'s': it has no arm"),
        (
            {"selections": (Selection(name="s", transition="open", arms=(FIRST,)),) * 2},
            "selection 's': the name is given 2 times",
        ),
        (
            {"selections": (Selection(name="s", transition="open", arms=(FIRST, FIRST)),)},
            "arm 'first' of selection 's': the name is given twice",
        ),
        (
            {"selections": (Selection(name="s", transition="open", arms=(FIRST,), vacant=("u",)),)},
            "selection 's': unknown uniqueness rule 'u'",
        ),
    ],
    ids=range(13),
)
def test_a_mistake_in_a_rule(parts: dict[str, Any], said: str) -> None:
    """Rules read rows alone; selections name what exists."""
    assert said in refused(**parts)


@pytest.mark.parametrize(
    ("arm", "said"),
    [
        (Arm(name="a", order=(door.until,)), "its order must end in the key"),
        (Arm(name="a", order=()), "its order must end in the key"),
        (Arm(name="a", order=(Column("x"), door.door_id)), "unknown column 'x'"),
        (
            Arm(name="a", fixed=(AtMost(door.until, NOW),), order=(door.door_id,)),
            "it may read the row alone",
        ),
        (
            Arm(name="a", by=(Equal(door.label, "x"),), order=(door.door_id,)),
            "by must compare a column with a parameter",
        ),
        (
            Arm(name="a", when=(Less(door.turns, NOW),), order=(door.door_id,)),
            "cannot be ordered by NOW",
        ),
    ],
    ids=range(6),
)
def test_a_mistake_in_an_arm(arm: Arm, said: str) -> None:
    """An arm is what one partial index can serve."""
    found = refused(selections=(Selection(name="s", transition="open", arms=(arm,)),))

    assert found.startswith("arm 'a' of selection 's': ")
    assert said in found


def test_a_selection_and_its_transition_agree_on_parameters() -> None:
    """One call gives the parameters of both."""
    turn = Transition("turn", (NEW,), None, assign=(Set(door.holder, Param("who", Text())),))
    who = Equal(door.holder, Param("who", Text(max_chars=3)))
    arm = Arm(name="a", by=(who,), order=(door.door_id,))
    said = refused(
        transitions=(OPENING, SHUTTING, turn),
        selections=(Selection(name="s", transition="turn", arms=(arm,)),),
    )

    assert said == "selection 's': parameter 'who' is used with two kinds"
