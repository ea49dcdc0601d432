"""A machine that needs every part of the language, with names that other languages mistake."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated

import attrs

from statemachine.kinds import Instant, Integer, Json, Text
from statemachine.machine import Creation, Invariant, Machine, Transition
from statemachine.vocabulary import (
    NOW,
    Add,
    And,
    AtMost,
    Clear,
    Equal,
    Greatest,
    Guard,
    IsNull,
    Less,
    Not,
    NotEqual,
    NotNull,
    OneOf,
    Or,
    Param,
    Put,
    Set,
    SetOnce,
    SetOr,
    implies,
)


class Mood(enum.StrEnum):
    """States whose names would end a comment, a text or a format."""

    CALM = "calm */ do"
    TENSE = 'tense "%d'
    TENSER = "tense ?%d\\"
    OVER = "over\n§"


@attrs.frozen(kw_only=True)
class Gauge:
    """What is gauged."""

    name: str
    do: Mood
    len: Annotated[int, Integer()] = 0
    byte: Annotated[int, Integer()] | None = None
    chan: str | None = None
    mtype: Annotated[str, Json(99)] = '"a"'
    bit: bool = False
    run: datetime | None = None
    timeout: datetime | None = None
    never: str = "nobody"


CALM, TENSE, TENSER, OVER = Mood
gauge = attrs.fields(Gauge)
_OWNER = Param("owner", Text())

GAUGE = Machine(
    name="gauge",
    record=Gauge,
    table="gauges",
    key=gauge.name,
    state=gauge.do,
    initial=(CALM,),
    final=(OVER,),
    creations=(
        Creation(
            "make",
            CALM,
            (
                Set(gauge.name, Param("name", Text())),
                Set(gauge.chan, Param("grade", Text(), optional=True)),
            ),
        ),
    ),
    transitions=(
        Transition(
            "rise",
            (CALM, TENSE),
            None,
            when=(Guard("below", Less(gauge.len, 4)),),
            assign=(Add(gauge.len, 2), Put(gauge.bit, True)),
        ),
        Transition(
            "sink",
            (CALM, TENSE),
            None,
            when=(Guard("above", Less(2, gauge.len)),),
            assign=(Add(gauge.len, -1), Greatest(gauge.byte, Param("peak", Integer(1, 3)))),
        ),
        Transition(
            "stir",
            (CALM,),
            TENSE,
            when=(
                Guard("set", Equal(gauge.bit, True)),
                Guard("steep", Less(Param("slope", Integer()), gauge.len)),
            ),
            assign=(SetOnce(gauge.run, NOW), Put(gauge.mtype, "null")),
        ),
        Transition(
            "strain",
            (TENSE,),
            TENSER,
            when=(
                Guard("graded", And(Less("a", gauge.chan), AtMost(gauge.chan, "b"))),
                Guard("peaked", Equal(gauge.byte, 2)),
            ),
            assign=(SetOr(gauge.timeout, Param("until", Instant(), optional=True), gauge.run),),
        ),
        Transition(
            "relax",
            (TENSER,),
            CALM,
            when=(Guard("past", Less(gauge.timeout, NOW)),),
            assign=(Clear(gauge.timeout), Clear(gauge.run), Put(gauge.bit, False)),
        ),
        Transition(
            "hand_on",
            (TENSER,),
            None,
            when=(Guard("to another", NotEqual(gauge.never, _OWNER)),),
            assign=(Set(gauge.never, _OWNER),),
        ),
        Transition(
            "end",
            (CALM, TENSE, TENSER),
            OVER,
            when=(
                Guard("noted", Or(NotEqual(gauge.mtype, '"a"'), Not(OneOf(gauge.never, ("x",))))),
                Guard("level", Not(Less(gauge.len, 1))),
            ),
        ),
        Transition("idle", (CALM,), OVER, when=(Guard("dead", Equal(gauge.mtype, '"b"')),)),
    ),
    invariants=(
        Invariant(
            'a "%d" of */ is\\ told', implies(Equal(gauge.do, TENSE), Equal(gauge.mtype, "null"))
        ),
        Invariant("a strained one ends", Or(NotNull(gauge.timeout), NotEqual(gauge.do, TENSER))),
        Invariant("a peak is none or three at most", Or(IsNull(gauge.byte), AtMost(gauge.byte, 3))),
    ),
)
