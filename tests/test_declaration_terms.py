"""One seeded mistake per check of what transitions read and write; each names the place."""

from __future__ import annotations

import pytest

from statemachine.kinds import Boolean, Choice, Duration, Integer, Prose, Text, Token
from statemachine.machine import Machine, Transition
from statemachine.vocabulary import (
    NOW,
    Add,
    And,
    Assignment,
    AtMost,
    Clear,
    Column,
    Condition,
    Deadline,
    Equal,
    Greatest,
    Guard,
    IsNull,
    Less,
    Literal,
    Not,
    NotNull,
    OneOf,
    Or,
    Param,
    Put,
    Set,
    SetOnce,
    SetOr,
)
from tests.door import (
    DOOR,
    LABEL,
    NEW,
    OPEN,
    OPENING,
    SHUT,
    SHUTTING,
    Colour,
    door,
    guarded,
    moving,
)


@pytest.mark.parametrize(
    ("assign", "said"),
    [
        ((Put(Column("lokced"), True),), "transition 'turn': unknown column 'lokced'"),
        ((SetOr(door.label, Param("l", Text(10), optional=True), Column("x")),), "column 'x'"),
        ((Put(door.locked, True), Put(door.locked, False)), "column 'locked': assigned twice"),
        ((Put(door.door_id, "a"),), "column 'door_id': the key never changes"),
        ((Put(door.phase, "open"),), "column 'phase': the state is written by dest alone"),
        ((Put(door.maker, "a"),), "column 'maker': it is immutable"),
        ((Put(Column("revision"), 2),), "column 'revision': the engine writes it"),
        ((Set(Column("updated_at"), NOW),), "column 'updated_at': the engine writes it"),
        ((Clear(door.turns),), "column 'turns': NULL into a required column"),
        ((Set(door.turns, Param("n", Integer(0, 10), optional=True)),), "'turns': NULL into a"),
        (
            (SetOr(door.turns, Param("n", Integer(0, 10), optional=True), Column("turns")),),
            None,
        ),
        ((Set(door.opened_at, NOW),), "column 'opened_at': it is written once"),
        ((Clear(door.opened_at),), "column 'opened_at': it is written once"),
        ((SetOnce(door.opened_at, NOW),), None),
        ((Set(door.label, LABEL),), "column 'label': it is clear only"),
        ((Clear(door.label),), None),
        ((Put(door.label, "x"),), None),
        ((Set(door.due_at, NOW),), "column 'due_at': it is written only by shut"),
        ((Put(door.label, "x" * 11),), "column 'label': 'xxxxxxxxxxx' is no value of Text"),
        ((Put(door.colour, "green"),), "column 'colour': 'green' is no value of Choice"),
        ((Put(door.colour, Colour.BLUE),), None),
        ((Put(door.turns, True),), "column 'turns': True is no value of Integer"),
        ((Put(door.turns, 11),), "column 'turns': 11 is no value of Integer"),
        ((Put(door.facts, "{ }"),), "column 'facts': '{ }' is no value of Json"),
        ((Put(door.facts, "{}"),), None),
        ((Add(door.label),), "column 'label': only an integer can be added to"),
        ((Add(door.opened_at),), "column 'opened_at': only an integer can be added to"),
        ((SetOnce(door.turns, Param("n", Integer(0, 10))),), "'turns': it is never NULL, so"),
        ((SetOr(door.note, Param("n", Prose(10)), NOW),), "'n' is always given; use Set"),
        ((Greatest(door.colour, Param("c", Choice(Colour))),), "'colour': only instants and"),
        ((Greatest(door.beat_at, Param("n", Integer())),), "'n' does not fit into Instant"),
        ((Set(door.turns, NOW),), "column 'turns': NOW does not fit into Integer"),
        ((Set(door.beat_at, Param("d", Duration())),), "parameter 'd' does not fit into Instant"),
        ((Set(door.beat_at, Deadline(Param("d", Duration()))),), None),
        ((Set(door.beat_at, Deadline(Param("d", Integer()))),), "NOW + parameter 'd' does not fit"),
        ((Set(door.turns, Deadline(Param("d", Duration()))),), "NOW + parameter 'd' does not fit"),
        ((Set(door.turns, Param("n", Integer(0, 11))),), "'n' does not fit into Integer"),
        ((Set(door.note, Param("n", Prose())),), "parameter 'n' does not fit into Prose"),
        ((Set(door.note, Param("n", Prose(cut_chars=9))),), None),
        ((Set(door.holder, Param("n", Text(max_chars=513))),), "'n' does not fit into Text"),
        ((Set(door.token, Param("token", Token())),), None),
        ((Set(door.token, Param("token", Text())),), "parameter 'token' does not fit into Token"),
        ((Set(door.locked, Param("l", Integer())),), "parameter 'l' does not fit into Boolean"),
        ((Set(door.holder, Param("sys_now", Text())),), "parameter 'sys_now': names with 'sys_'"),
        (
            (
                Set(door.holder, Param("who", Text())),
                Set(door.holder_kind, Param("who", Text(max_chars=5))),
            ),
            "parameter 'who' is used with two kinds",
        ),
    ],
    ids=range(45),
)
def test_a_mistake_in_what_a_transition_writes(
    assign: tuple[Assignment, ...], said: str | None
) -> None:
    """A column is written once, as its class allows, with what fits."""
    if said is None:
        turn = Transition("turn", (NEW, OPEN), None, assign=assign)
        machine = Machine(**{**DOOR, "transitions": (OPENING, SHUTTING, turn)})

        assert machine.transition("turn").assign == assign
    else:
        found = moving(*assign)

        assert found.startswith("transition 'turn': ")
        assert said in found


def test_a_column_written_once_may_be_set_where_a_guard_demands_null() -> None:
    """What is NULL as the transition's guard wants it is not written twice."""
    when = (Guard("unopened", And(IsNull(door.opened_at), Equal(door.locked, False))),)
    either = (Guard("unopened", Or(IsNull(door.opened_at), Equal(door.locked, False))),)
    assign = (Set(door.opened_at, NOW),)
    turn = Transition("turn", (NEW,), None, when=when, assign=assign)

    assert Machine(**{**DOOR, "transitions": (OPENING, SHUTTING, turn)}).transition("turn") == turn
    assert "'opened_at': it is written once" in moving(*assign, when=either)


def test_a_quiet_transition_writes_nothing_that_history_records() -> None:
    """History would not tell of it."""
    said = moving(Put(door.locked, True), quiet=True)

    assert said == (
        "transition 'turn': column 'locked': a quiet transition cannot write a recorded column"
    )


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (Equal(Column("trns"), 1), "unknown column 'trns'"),
        (Not(IsNull(Column("trns"))), "unknown column 'trns'"),
        (Equal(door.turns, "1"), "'1' is no value of column 'turns' (Integer"),
        (Equal(door.turns, True), "True is no value of column 'turns'"),
        (Equal(door.colour, "green"), "'green' is no value of column 'colour'"),
        (OneOf(door.colour, ("red", "green")), "'green' is no value of column 'colour'"),
        (OneOf(door.colour, ()), "no value is given for column 'colour'"),
        (Equal(Literal(1), Literal(1)), "it compares two constants"),
        (Equal(door.turns, door.opened_at), "column 'turns' (Integer(minimum=0, maximum=10)) can"),
        (Less(NOW, door.turns), "NOW (Instant()) cannot be ordered by column 'turns'"),
        (Equal(door.label, Param("c", Choice(Colour))), "cannot be equal to parameter 'c'"),
        (Less(door.colour, Param("c", Choice(Colour))), "cannot be ordered by parameter 'c'"),
        (AtMost(door.locked, Param("l", Boolean())), "cannot be ordered by parameter 'l'"),
        (AtMost(door.opened_at, Param("d", Duration())), "cannot be ordered by parameter 'd'"),
        (Equal(door.label, Param("sys_call", Text())), "parameter 'sys_call': names with"),
    ],
    ids=range(15),
)
def test_a_mistake_in_a_guard(condition: Condition, said: str) -> None:
    """A condition names columns that exist and compares what can be compared."""
    found = guarded(condition)

    assert "transition 'turn'" in found
    assert said in found


@pytest.mark.parametrize(
    "conditions",
    [
        (IsNull(door.label), NotNull(door.label)),
        (Equal(door.colour, Colour.RED), Equal(door.colour, Colour.BLUE)),
        (Less(door.turns, 5), Less(6, door.turns)),
        (Less(door.turns, 0),),
        (AtMost(door.until, NOW), Less(NOW, door.until)),
        (Less(Deadline(Param("d", Duration())), door.until), Less(door.until, NOW)),
        (Equal(door.phase, SHUT),),
        (IsNull(door.turns),),
        (Less(door.taken_at, door.until), Less(door.until, door.taken_at)),
        (Not(Or(IsNull(door.label), NotNull(door.label))),),
    ],
    ids=range(10),
)
def test_guards_that_nothing_can_satisfy(conditions: tuple[Condition, ...]) -> None:
    """A transition that can never happen is a mistake."""
    when = tuple(Guard(f"g{number}", condition) for number, condition in enumerate(conditions))

    assert moving(when=when).startswith("transition 'turn': no row and call can satisfy its guards")
