"""What a call does to a row, on a machine of a user's own and on a leased one."""

from __future__ import annotations

import enum
import threading
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Annotated, Any

import attrs
import pytest

from statemachine.admission import admit_params
from statemachine.errors import InvalidArgument, UnknownTransition
from statemachine.interpret import holds
from statemachine.kinds import Boolean, Duration, Instant, Integer, Plain, Text, Token
from statemachine.machine import Creation, LeaseColumns, Machine, Transition
from statemachine.outcome import Actor, Event, LostLease, Moved, Reason, Refused
from statemachine.simulate import create, decide
from statemachine.vocabulary import (
    NOW,
    Add,
    AtMost,
    Deadline,
    Equal,
    Guard,
    IsNull,
    Less,
    Or,
    Param,
    Set,
    SetOr,
)
from tests.order import ORDER

CLERK = Actor("clerk", "ann")
PLACED = create(ORDER, "place", {"order_id": "o1", "basket": "b1"}, 100, actor=CLERK, call="c0")


def moved(outcome: Moved | Refused) -> Moved:
    """Return the outcome, which must be a move."""
    assert isinstance(outcome, Moved), str(outcome)

    return outcome


def refused(outcome: Moved | Refused) -> Refused:
    """Return the outcome, which must be a refusal."""
    assert isinstance(outcome, Refused)

    return outcome


def test_a_creation_fills_in_defaults_and_tells_of_it() -> None:
    """A new row has every column, revision 1, and a first event without a source."""
    assert PLACED.row == {
        "order_id": "o1",
        "state": "pending",
        "basket": "b1",
        "reminders": 0,
        "paid_at": None,
        "parcel": None,
        "coupon": None,
        "revision": 1,
        "last_transition": "place",
        "last_actor_kind": "clerk",
        "last_actor": "ann",
        "last_call": "c0",
        "updated_at": 100,
    }
    assert PLACED.event == Event(
        machine="order",
        key="o1",
        revision=1,
        transition="place",
        source=None,
        dest="pending",
        actor=CLERK,
        generation=None,
        call="c0",
        at=100,
        changes={},
    )


def test_a_move_changes_the_row_and_leaves_the_old_one() -> None:
    """The old row is not written to; the new one has the next revision and the call's facts."""
    before = MappingProxyType(dict(PLACED.row))
    paid = moved(decide(ORDER, before, "pay", {}, 200, actor=CLERK, call="c1"))

    assert dict(paid.row) == {
        **PLACED.row,
        "state": "paid",
        "paid_at": 200,
        "revision": 2,
        "last_transition": "pay",
        "last_call": "c1",
        "updated_at": 200,
    }
    assert paid.event is not None
    assert (paid.event.source, paid.event.dest, paid.event.at) == ("pending", "paid", 200)
    assert before == PLACED.row


def test_a_clock_that_steps_back_does_not_take_updated_at_along() -> None:
    """updated_at, and the event's time with it, never falls; what is assigned NOW may."""
    paid = moved(decide(ORDER, PLACED.row, "pay", {}, 50))

    assert paid.event is not None
    assert (paid.row["updated_at"], paid.event.at, paid.row["paid_at"]) == (100, 100, 50)


@pytest.mark.parametrize(
    ("row", "transition", "expected", "said"),
    [
        (None, "pay", (Reason.MISSING, None, None), "pay refused: there is no such row"),
        ({}, "ship", (Reason.STATE, "pending", None), "ship refused: 'o1' is pending"),
        (
            {"reminders": 3},
            "remind",
            (Reason.GUARD, "pending", "patient"),
            "remind refused: 'o1' is pending, but not 'patient'",
        ),
    ],
)
def test_a_refusal_is_falsy_and_says_why(
    row: dict[str, Plain] | None,
    transition: str,
    expected: tuple[Reason, str | None, str | None],
    said: str,
) -> None:
    """No row, another state, or the guard that failed."""
    given = None if row is None else {**PLACED.row, **row}
    no = refused(decide(ORDER, given, transition, {"parcel": "p"}, 200))

    assert not no
    assert (no.reason, no.state, no.guard) == expected
    assert no.lost is None
    assert str(no) == said


def test_an_internal_transition_stays_where_it_is() -> None:
    """It writes, and history tells of it, from a state to the same."""
    reminded = moved(decide(ORDER, PLACED.row, "remind", {}, 200))

    assert reminded.event is not None
    assert (reminded.row["state"], reminded.row["reminders"]) == ("pending", 1)
    assert (reminded.event.source, reminded.event.dest) == ("pending", "pending")


def test_misuse_is_an_error_not_a_refusal() -> None:
    """An unknown name or a missing parameter is the caller's mistake."""
    with pytest.raises(UnknownTransition, match="'order': pya: not declared"):
        decide(ORDER, PLACED.row, "pya", {}, 1)
    with pytest.raises(UnknownTransition, match="plaec: not declared"):
        create(ORDER, "plaec", {}, 1)
    with pytest.raises(InvalidArgument, match="parcel must be given"):
        decide(ORDER, None, "ship", {}, 1)
    with pytest.raises(InvalidArgument, match="basket must be given"):
        create(ORDER, "place", {"order_id": "o1"}, 1)


class Light(enum.StrEnum):
    """The states of the leased machine."""

    OFF = "off"
    ON = "on"
    GONE = "gone"


@attrs.frozen(kw_only=True)
class Lamp:
    """A leased record of a user's own, with columns of its own names."""

    lamp_id: str
    light: Light
    left: Annotated[int, Integer()] = 1
    right: Annotated[int, Integer()] = 2
    who: str | None = None
    kind: str | None = None
    secret: Annotated[str, Token()] | None = attrs.field(default=None, repr=False)
    fence: Annotated[int, Integer()] = 0
    since: datetime | None = None
    beat: datetime | None = None
    until: datetime | None = None


lamp = attrs.fields(Lamp)
OFF, ON, GONE = Light
WHO, SECRET, FENCE = Param("who", Text()), Param("secret", Token()), Param("fence", Integer())
HELD = Guard("mine", Equal(lamp.secret, SECRET))
SAME_FENCE = Guard("fence", Equal(FENCE, lamp.fence))
LIVE = Guard("live", Less(NOW, lamp.until))
LAMP = Machine(
    name="lamp",
    record=Lamp,
    table="lamps",
    key=lamp.lamp_id,
    state=lamp.light,
    initial=(OFF,),
    final=(GONE,),
    creations=(Creation("make", OFF, (Set(lamp.lamp_id, Param("lamp_id", Text())),)),),
    transitions=(
        Transition(
            "take",
            (OFF, ON),
            ON,
            when=(Guard("free", Or(IsNull(lamp.until), AtMost(lamp.until, NOW))),),
            assign=(
                Set(lamp.who, WHO),
                Set(lamp.kind, Param("kind", Text())),
                Set(lamp.secret, SECRET),
                Set(lamp.since, NOW),
                Set(lamp.until, Deadline(Param("time", Duration()))),
                Add(lamp.fence),
            ),
        ),
        Transition(
            "beat", (ON,), None, when=(HELD, LIVE), assign=(Set(lamp.beat, NOW),), quiet=True
        ),
        Transition(
            "swap",
            (ON,),
            None,
            assign=(
                SetOr(lamp.left, Param("left", Integer(), optional=True), lamp.right),
                SetOr(lamp.right, Param("right", Integer(), optional=True), lamp.left),
            ),
        ),
        Transition("drop", (ON,), GONE, when=(HELD, SAME_FENCE)),
    ),
    recorded=(lamp.left, lamp.who),
    lease=LeaseColumns(
        lamp.who, lamp.kind, lamp.secret, lamp.fence, lamp.since, lamp.beat, lamp.until
    ),
)
TAKEN = moved(
    decide(
        LAMP,
        create(LAMP, "make", {"lamp_id": "l1"}, 10).row,
        "take",
        {"who": "ann", "kind": "clerk", "secret": "s1", "time": 5},
        10,
        actor=Actor("clerk", "boss"),
    )
)


def test_assignments_read_the_old_row() -> None:
    """As in SQL, two columns can be exchanged."""
    swapped = moved(decide(LAMP, TAKEN.row, "swap", {"left": None, "right": None}, 11))

    assert (swapped.row["left"], swapped.row["right"]) == (2, 1)


def test_history_names_the_recorded_columns_that_changed() -> None:
    """Others, and those that kept their value, are not in it."""
    swapped = moved(decide(LAMP, TAKEN.row, "swap", {"left": 1, "right": 9}, 11))

    assert TAKEN.event is not None
    assert swapped.event is not None
    assert TAKEN.event.changes == {"who": "ann"}
    assert swapped.event.changes == {}
    assert (TAKEN.event.generation, swapped.event.generation) == (1, 1)


def test_the_actor_of_a_held_move_is_the_holder() -> None:
    """Who presents the token is who the row says, whatever the call claims."""
    dropped = moved(
        decide(LAMP, TAKEN.row, "drop", {"secret": "s1", "fence": 1}, 99, actor=Actor("x", "y"))
    )

    assert dropped.event is not None
    assert dropped.event.actor == Actor("clerk", "ann")
    assert TAKEN.event is not None
    assert TAKEN.event.actor == Actor("clerk", "boss")


def test_a_quiet_move_leaves_no_trace_but_what_it_writes() -> None:
    """Neither revision nor history, nor the last call's facts."""
    beaten = moved(decide(LAMP, TAKEN.row, "beat", {"secret": "s1"}, 12, call="quiet"))

    assert beaten.event is None
    assert beaten.row == {**TAKEN.row, "beat": 12}


@pytest.mark.parametrize(
    ("params", "guard", "lost"),
    [
        ({"secret": "s2", "fence": 1}, "mine", LostLease(1, 1, "ann")),
        ({"secret": "s2", "fence": 0}, "mine", LostLease(0, 1, "ann")),
        ({"secret": "s1", "fence": 0}, "fence", None),
    ],
)
def test_the_first_guard_that_fails_is_named(
    params: dict[str, Plain], guard: str, lost: LostLease | None
) -> None:
    """In declared order; one that reads the token tells of the lost lease."""
    no = refused(decide(LAMP, TAKEN.row, "drop", params, 11))

    assert (no.reason, no.guard, no.lost) == (Reason.GUARD, guard, lost)


def test_an_own_lease_that_expired_is_not_lost() -> None:
    """As long as nobody took it, the holder is told that it is not live, no more."""
    no = refused(decide(LAMP, TAKEN.row, "beat", {"secret": "s1"}, 15))

    assert (no.guard, no.lost) == ("live", None)
    assert str(no) == "beat refused: 'l1' is on, but not 'live'"


def test_a_machine_of_ones_own_is_used_by_many_threads() -> None:
    """The library's machine holds nothing of a call."""
    found: list[int] = []

    def remind(times: int) -> None:
        row: dict[str, Plain] = {**PLACED.row, "order_id": f"o{times}"}
        for _ in range(300):
            outcome = decide(ORDER, {**row, "reminders": times % 3}, "remind", {}, 1)
            found.append(int(moved(outcome).row["reminders"] or 0) - times % 3)

    threads = [threading.Thread(target=remind, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [1] * 1800


PARAMS = (
    Param("name", Text(max_chars=3)),
    Param("waits", Boolean()),
    Param("at", Instant(), optional=True),
)


def test_arguments_become_plain_values() -> None:
    """An optional one that is left out, or None, is NULL."""
    expected: dict[str, Plain] = {"name": "ann", "waits": True, "at": None}

    assert admit_params(PARAMS, {"waits": True, "name": "ann"}) == expected
    assert admit_params(PARAMS, {"waits": True, "name": "ann", "at": None}) == expected
    assert admit_params((Param("time", Duration()),), {"time": timedelta(seconds=1)}) == {
        "time": 1000
    }


@pytest.mark.parametrize(
    ("values", "field", "bound"),
    [
        ({"waits": True}, "name", "given"),
        ({"name": "ann", "waits": None}, "waits", "True or False"),
        ({"name": "anne", "waits": True}, "name", "text of 1 to 3 characters"),
        ({"name": "ann", "waits": 1}, "waits", "True or False"),
        ({"name": "ann", "waits": True, "ta": 1}, "ta", "one of the parameters name, waits, at"),
    ],
)
def test_a_wrong_argument_is_named(values: dict[str, Any], field: str, bound: str) -> None:
    """Unknown, missing, or out of its bounds."""
    with pytest.raises(InvalidArgument) as caught:
        admit_params(PARAMS, values)

    assert caught.value.field == field
    assert bound in caught.value.bound


def test_a_shipped_order_keeps_its_invariants() -> None:
    """A walk through the whole machine."""
    paid = moved(decide(ORDER, PLACED.row, "pay", {}, 200))
    shipped = moved(decide(ORDER, paid.row, "ship", {"parcel": "p1"}, 300))

    assert shipped.row["state"] == "shipped"
    assert [holds(i.condition, shipped.row, {}, 300) for i in ORDER.invariants] == [True] * 3
