"""One seeded mistake per check of states, columns and creations; each names the place."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import attrs
import pytest

from statemachine.errors import UnknownTransition
from statemachine.kinds import Boolean, Choice, Instant, Integer
from statemachine.machine import Creation, Machine, OnlyBy, Transition
from statemachine.machines import ALL
from statemachine.vocabulary import NOW, Add, Column, Equal, Greatest, Guard, IsNull, Param, Put
from tests.door import (
    DOOR,
    LEASE,
    MAKE,
    NEW,
    OPEN,
    OPENING,
    SHUT,
    SHUTTING,
    Door,
    Phase,
    Twins,
    door,
    guarded,
    moving,
    refused,
)
from tests.mutants import changed
from tests.order import ORDER


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


def test_equal_declarations_are_equal_and_survive_pickling() -> None:
    """A definition is data: a copy equals it and hashes alike, another one does not."""
    copies = [copy.deepcopy(ORDER), pickle.loads(pickle.dumps(ORDER)), changed(ORDER)]  # noqa: S301 - our own bytes

    assert copies == [ORDER] * 3
    assert {hash(ORDER)} == {hash(other) for other in copies}
    assert changed(ORDER, name="another") != ORDER


def test_kinds_of_columns_are_read_from_annotations() -> None:
    """Every annotation stands for one kind."""
    kinds = {name: field.kind for name, field in Machine(**DOOR).fields.items()}

    assert (kinds["opened_at"], kinds["locked"], kinds["turns"]) == (
        Instant(),
        Boolean(),
        Integer(maximum=10),
    )
