"""A machine with a column of each kind and class, to make mistakes in."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated, Any

import attrs
import pytest

from statemachine.errors import MachineError
from statemachine.kinds import Integer, Json, Prose, Text, Token
from statemachine.machine import Arm, Creation, LeaseColumns, Machine, OnlyBy, Transition
from statemachine.vocabulary import Assignment, Condition, Guard, Param, Set


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
