"""One seeded mistake per check; each is refused at import and names the place."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated, Any

import attrs
import pytest

from statemachine.errors import MachineError, UnknownTransition
from statemachine.kinds import Boolean, Choice, Duration, Instant, Integer, Json, Prose, Text, Token
from statemachine.machine import (
    Arm,
    Creation,
    Invariant,
    LeaseColumns,
    Machine,
    OnlyBy,
    Selection,
    Transition,
    Uniqueness,
)
from statemachine.machines import ALL
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
from tests.mutants import changed
from tests.order import ORDER


class Phase(enum.StrEnum):
    """The states of the machine that the mistakes are made in."""

    NEW = "new"
    OPEN = "open"
    SHUT = "shut"


class Colour(enum.StrEnum):
    """Some choice."""

    RED = "red"
    BLUE = "blue"


class Twins(enum.Enum):
    """Two members that are stored alike: one by name, one by value."""

    ONE = 1
    OTHER = "ONE"


@attrs.frozen(kw_only=True)
class Door:
    """A record with a column of each kind and class."""

    door_id: str
    phase: Phase
    maker: str
    label: Annotated[str, Text(max_chars=10)] | None = None
    note: Annotated[str, Prose(cut_chars=10)] | None = None
    facts: Annotated[Any, Json(100)] = None
    turns: Annotated[int, Integer(maximum=10)] = 0
    colour: Colour = Colour.RED
    locked: bool = False
    opened_at: datetime | None = None
    due_at: datetime | None = None
    holder: str | None = None
    holder_kind: str | None = None
    token: Annotated[str, Token()] | None = attrs.field(default=None, repr=False)
    generation: Annotated[int, Integer()] = 0
    taken_at: datetime | None = None
    beat_at: datetime | None = None
    until: datetime | None = None


NEW, OPEN, SHUT = Phase
door = attrs.fields(Door)
LABEL = Param("label", Text(max_chars=10))
MAKE = Creation(
    "make",
    NEW,
    (Set(door.door_id, Param("door_id", Text())), Set(door.maker, Param("maker", Text()))),
)
OPENING = Transition("open", (NEW,), OPEN)
SHUTTING = Transition("shut", (NEW, OPEN), SHUT)
FIRST = Arm(name="first", order=(door.door_id,))
LEASE = LeaseColumns(
    door.holder,
    door.holder_kind,
    door.token,
    door.generation,
    door.taken_at,
    door.beat_at,
    door.until,
)
DOOR: dict[str, Any] = {
    "name": "door",
    "record": Door,
    "table": "doors",
    "key": door.door_id,
    "state": door.phase,
    "initial": (NEW,),
    "final": (SHUT,),
    "creations": (MAKE,),
    "transitions": (OPENING, SHUTTING),
    "immutable": (door.maker,),
    "write_once": (door.opened_at,),
    "clear_only": (door.label,),
    "only_by": (OnlyBy((door.due_at,), ("shut",)),),
    "recorded": (door.locked,),
    "private": (door.facts,),
    "lease": LEASE,
}


def refused(**parts: Any) -> str:
    """Declare the door with other parts and return what is said against it."""
    with pytest.raises(MachineError) as caught:
        Machine(**{**DOOR, **parts})
    assert caught.value.machine == parts.get("name", "door")

    return f"{caught.value.place}: {caught.value.problem}"


def moving(*assign: Assignment, when: tuple[Guard, ...] = (), quiet: bool = False) -> str:
    """Let an internal transition `turn` write something; return what is said against it."""
    turn = Transition("turn", (NEW, OPEN), None, when=when, assign=assign, quiet=quiet)
    return refused(transitions=(OPENING, SHUTTING, turn))


def guarded(condition: Condition) -> str:
    """Guard the transition `turn`; return what is said against it."""
    return moving(when=(Guard("fit", condition),))


def test_the_machines_without_a_mistake_are_declared() -> None:
    """The mistakes below are mistakes against this machine, which is right."""
    door_machine = Machine(**DOOR)

    assert [machine.name for machine in (door_machine, ORDER, *ALL)][:2] == ["door", "order"]
    assert door_machine.states == ("new", "open", "shut")


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"name": "The Door"}, "'The Door': the machine's name must be a lower-case identifier"),
        ({"table": "a" * 41}, "the table's name must be a lower-case identifier of at most 40"),
        ({"table": "doors; drop"}, "'doors; drop': the table's name"),
        ({"key": Column("door")}, "key: unknown column 'door'; known: door_id, phase"),
        ({"state": Column("status")}, "state: unknown column 'status'"),
        ({"state": door.colour}, "initial: unknown state 'new'; known: red, blue"),
        ({"state": door.holder}, "column 'holder': the state column must be a whole enum"),
        ({"key": door.turns}, "column 'turns': the key must be a text"),
        ({"key": door.label}, "column 'label': the key must be a text and never NULL"),
        ({"immutable": (Column("mkaer"),)}, "immutable: unknown column 'mkaer'"),
        ({"write_once": (Column("x"),)}, "write_once: unknown column 'x'"),
        ({"clear_only": (Column("x"),)}, "clear_only: unknown column 'x'"),
        ({"only_by": (OnlyBy((Column("x"),), ("shut",)),)}, "only_by: unknown column 'x'"),
        ({"only_by": (OnlyBy((door.due_at,), ("shet",)),)}, "only_by: unknown transition 'shet'"),
        ({"recorded": (Column("x"),)}, "recorded: unknown column 'x'"),
        ({"private": (Column("x"),)}, "private: unknown column 'x'"),
        ({"recorded": (door.facts,)}, "column 'facts': a private column cannot be recorded"),
        ({"listed_by": (door.maker,)}, "listed_by: the order of lists must end in the key"),
        ({"immutable": (door.phase,)}, "column 'phase': it is listed as state and as immutable"),
        (
            {"immutable": (door.opened_at,)},
            "column 'opened_at': it is listed as immutable and as write_once",
        ),
        ({"write_once": (door.turns,)}, "column 'turns': a column that is written once starts"),
        ({"immutable": (Column("revision"),)}, "column 'revision': the engine writes it"),
        ({"initial": ("nwe",)}, "initial: unknown state 'nwe'"),
        ({"final": ("shut", "gone")}, "final: unknown state 'gone'"),
        ({"final": (SHUT, SHUT)}, "final state 'shut': the name is given 2 times"),
        ({"initial": (NEW, OPEN)}, "initial state 'open': no creation leads to it"),
        ({"initial": (OPEN,)}, "creation 'make': its dest 'new' is not declared as initial"),
        ({"initial": (), "creations": ()}, "creations: there is none"),
        ({"lease": attrs.evolve(LEASE, holder=Column("x"))}, "lease: unknown column 'x'"),
        ({"lease": attrs.evolve(LEASE, generation=door.label)}, "column 'label': the lease's gen"),
        ({"lease": attrs.evolve(LEASE, holder=door.maker)}, "column 'maker': a column of the lea"),
        ({"lease": attrs.evolve(LEASE, expires_at=door.label)}, "'label': this column of the lea"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_mistake_in_states_and_columns(parts: dict[str, Any], said: str) -> None:
    """Names, states and the classes of columns."""
    assert said in refused(**parts)


@pytest.mark.parametrize(
    ("transitions", "said"),
    [
        ((OPENING,), "state 'shut': no path leads to it"),
        ((SHUTTING,), "state 'open': no path leads to it"),
        ((OPENING, Transition("shut", (NEW,), SHUT)), "state 'open': it is not final, but no"),
        (
            (OPENING, SHUTTING, Transition("reopen", (SHUT,), OPEN)),
            "transition 'reopen': it leaves the final state 'shut'",
        ),
        ((Transition("open", (), OPEN),), "transition 'open': the source is missing"),
        ((Transition("open", ("knew",), OPEN),), "source of transition 'open': unknown state"),
        ((Transition("open", (NEW, NEW), OPEN),), "source of transition 'open' 'new': the name"),
        ((Transition("open", (NEW,), "opne"),), "dest of transition 'open': unknown state 'opne'"),
        ((Transition("open", (NEW,), ""),), "dest of transition 'open': unknown state ''"),
        ((OPENING, OPENING, SHUTTING), "transition or creation 'open': the name is given 2 times"),
        ((OPENING, Transition("make", (OPEN,), SHUT)), "transition or creation 'make'"),
        ((Transition("Open", (NEW,), OPEN),), "'Open': the name must be a lower-case identifier"),
        (
            (OPENING, Transition("shut", (NEW, OPEN), SHUT, quiet=True)),
            "transition 'shut': only an internal transition (dest None) can be quiet",
        ),
    ],
    ids=range(13),
)
def test_a_mistake_in_the_graph(transitions: tuple[Transition, ...], said: str) -> None:
    """Every state is on a way from a creation to a final state, and no name stands twice."""
    assert said in refused(transitions=transitions, only_by=())


def test_source_and_dest_swapped_are_named() -> None:
    """What a type checker finds, the declaration finds as well."""
    swapped = Transition("open", OPEN, (NEW,))  # type: ignore[arg-type]  # the seeded mistake

    assert "dest of transition 'open': unknown state (<Phase.NEW: 'new'>,)" in refused(
        transitions=(swapped, SHUTTING)
    )
    assert "unknown state" in refused(
        transitions=(Transition("open", "fresh", OPEN), SHUTTING)  # type: ignore[arg-type]  # a seeded mistake
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


def test_one_guard_name_has_one_meaning() -> None:
    """A refusal that names a guard must say one thing."""
    one, other = Guard("g", IsNull(door.label)), Guard("g", IsNull(door.note))
    turn = Transition("turn", (NEW,), None, when=(one,))
    spin = Transition("spin", (NEW,), None, when=(other,))

    assert "guard 'g': the name is given 2 times with different conditions" in refused(
        transitions=(OPENING, SHUTTING, turn, spin)
    )
    assert "guard of transition 'turn' 'g': the name is given 2 times" in moving(when=(one, one))


@pytest.mark.parametrize(
    ("creation", "said"),
    [
        (Creation("make", NEW, MAKE.assign[:1]), "column 'maker': required, without a default"),
        (Creation("make", NEW, MAKE.assign[1:]), "column 'door_id': the key is not assigned"),
        (Creation("make", "nwe", MAKE.assign), "dest of creation 'make': unknown state 'nwe'"),
        (Creation("make", NEW, (*MAKE.assign, Add(door.turns))), "'turns': there is no old row"),
        (
            Creation("make", NEW, (*MAKE.assign, Greatest(door.beat_at, NOW))),
            "column 'beat_at': there is no old row to read",
        ),
        (
            Creation("make", NEW, (*MAKE.assign, Put(door.phase, "new"))),
            "column 'phase': the state is written by dest alone",
        ),
        (
            Creation("make", NEW, MAKE.assign, identity=(Column("x"),)),
            "identity of creation 'make': unknown column 'x'",
        ),
    ],
    ids=range(7),
)
def test_a_mistake_in_a_creation(creation: Creation, said: str) -> None:
    """A new row has a key and all that is required."""
    assert said in refused(creations=(creation,))


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


def test_two_members_stored_alike_are_refused() -> None:
    """What is stored could not be told apart when it is read."""

    @attrs.frozen(kw_only=True)
    class Odd(Door):
        odd: Twins = Twins.ONE

    assert refused(record=Odd) == "column 'odd': two members of Twins are stored as 'ONE'"
    assert "parameter 't': two members of Twins" in guarded(
        Equal(Param("t", Choice(Twins)), Param("t", Choice(Twins)))
    )


def test_an_engine_column_is_shown_as_it_is_or_not_at_all() -> None:
    """A record may show the engine's columns, but not change what they are."""

    @attrs.frozen(kw_only=True)
    class Odd(Door):
        revision: str = "1"

    assert refused(record=Odd).startswith("column 'revision': the engine adds this column, as Int")


def test_a_record_is_an_attrs_class_with_kinds() -> None:
    """Columns come from the annotations."""

    @attrs.frozen(kw_only=True)
    class Odd(Door):
        weight: float = 1.0

    assert "weight: no column kind for <class 'float'>" in refused(record=Odd)
    assert "the record must be an attrs class" in refused(record=Phase)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """A misspelt transition is a mistake of the caller, not a refusal."""
    with pytest.raises(UnknownTransition, match="'order': pya: not declared; known: pay, remind"):
        ORDER.transition("pya")
    with pytest.raises(UnknownTransition, match="plaec: not declared; known: place"):
        ORDER.creation("plaec")
    with pytest.raises(UnknownTransition, match="next: not declared; known: "):
        ORDER.selection("next")


def test_a_machine_equals_itself_alone() -> None:
    """Two declarations may look alike and yet differ in what they are kept for."""
    twin = changed(ORDER)

    assert (twin == ORDER, ORDER == ORDER) == (False, True)  # noqa: PLR0124  # the requirement


def test_kinds_of_columns_are_read_from_annotations() -> None:
    """Every annotation stands for one kind."""
    kinds = {name: field.kind for name, field in Machine(**DOOR).fields.items()}

    assert (kinds["opened_at"], kinds["locked"], kinds["turns"]) == (
        Instant(),
        Boolean(),
        Integer(maximum=10),
    )
