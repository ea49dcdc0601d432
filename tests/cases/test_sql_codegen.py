"""Cases about the SQL that is generated: names, NULL, and order.

A renamed column (GEN-01) at opening and at first use: `tests/test_layout_mismatch.py`.
"""

from __future__ import annotations

import enum
from datetime import datetime, timedelta
from typing import Annotated

import attrs
import pytest

from persistence import Claim, ManualClock, Store, open_store
from statemachine import Moved, Reason, Refused
from statemachine.errors import UniquenessConflict
from statemachine.kinds import Instant, Integer, Plain, Text
from statemachine.machine import Creation, Invariant, Machine, Transition, Uniqueness
from statemachine.simulate import decide
from statemachine.vocabulary import (
    NOW,
    Add,
    And,
    AtMost,
    Condition,
    Equal,
    Guard,
    IsNull,
    Less,
    Not,
    NotEqual,
    NotNull,
    OneOf,
    Or,
    Param,
    Set,
)
from tests.cases.launches import LEASE, queue, start, take
from tests.conftest import START, Capabilities
from tests.raw import Raw


class State(enum.StrEnum):
    """Where a probe stands."""

    OPEN = "open"
    SHUT = "shut"


@attrs.frozen(kw_only=True)
class Probe:
    """A row whose every column may be NULL; some are named like keywords or like their values."""

    probe_id: str
    state: State
    owner: str | None = None
    order: Annotated[int, Integer()] | None = None
    due: datetime | None = None
    count: Annotated[int, Integer()] = 0


probe = attrs.fields(Probe)
WHO = Param("who", Text())
NUMBER = Param("number", Integer())

CONDITIONS: dict[str, Condition] = {
    "equals a constant": Equal(probe.owner, "a"),
    "equals its own name": Equal(probe.owner, "owner"),
    "equals a parameter": Equal(probe.owner, WHO),
    "differs from a constant": NotEqual(probe.owner, "b"),
    "differs from a parameter": NotEqual(probe.owner, WHO),
    "is none that is not equal": Not(Equal(probe.owner, "a")),
    "in": OneOf(probe.owner, ("a", "b")),
    "not in": Not(OneOf(probe.owner, ("a", "b"))),
    "in its own name": OneOf(probe.owner, ("owner", "order")),
    "before now": Less(probe.due, NOW),
    "after now": Less(NOW, probe.due),
    "not before now": Not(Less(probe.due, NOW)),
    "at most now": AtMost(probe.due, NOW),
    "less than a constant": Less(probe.order, 5),
    "at most a parameter": AtMost(probe.order, NUMBER),
    "not at most a parameter": Not(AtMost(probe.order, NUMBER)),
    "null": IsNull(probe.owner),
    "not null": NotNull(probe.owner),
    "null or equal": Or(IsNull(probe.owner), Equal(probe.owner, "a")),
    "equal or less": Or(Equal(probe.owner, "a"), Less(probe.order, 5)),
    "equal and less": And(Equal(probe.owner, "a"), Less(probe.order, 5)),
    "neither": Not(Or(Equal(probe.owner, "a"), Less(probe.order, 5))),
    "not both": Not(And(Equal(probe.owner, "a"), Less(probe.order, 5))),
    "two columns": Less(probe.order, probe.count),
}

PROBE = Machine(
    name="probe",
    record=Probe,
    table="probes",
    key=probe.probe_id,
    state=probe.state,
    initial=(State.OPEN,),
    final=(State.SHUT,),
    creations=(
        Creation(
            "make",
            State.OPEN,
            (
                Set(probe.probe_id, Param("id", Text())),
                Set(probe.owner, Param("owner", Text(), optional=True)),
                Set(probe.order, Param("order", Integer(), optional=True)),
                Set(probe.due, Param("due", Instant(), optional=True)),
            ),
        ),
    ),
    transitions=(
        *(
            Transition(
                name.replace(" ", "_"),
                (State.OPEN,),
                None,
                when=(Guard(name, condition),),
                assign=(Add(probe.count),),
            )
            for name, condition in CONDITIONS.items()
        ),
        Transition("shut", (State.OPEN,), State.SHUT),
    ),
    immutable=(probe.probe_id, probe.owner, probe.order, probe.due),
)

OWNERS = (None, "a", "b", "owner", "order", "A")
ORDERS = (None, 0, 4, 5, 6)
DUES = (None, START - timedelta(seconds=1), START, START + timedelta(seconds=1))


def test_gen_02_every_operator_means_the_same_of_null_everywhere(
    database: str, capabilities: Capabilities, clock: ManualClock
) -> None:
    """GEN-02: the reference, SQLite and PostgreSQL agree on every cell, NULL among them."""
    now = int(clock.now().timestamp() * 1000)
    with open_store(database, clock=clock, machines=[PROBE]) as store:
        rows = store.machine(PROBE)
        raw = Raw(store, database, capabilities)
        given: dict[str, Plain] = {"who": "a", "number": 5}
        moved: dict[str, int] = dict.fromkeys(CONDITIONS, 0)
        cells = 0
        for number, (owner, order) in enumerate((o, n) for o in OWNERS for n in ORDERS):
            due = DUES[number % len(DUES)]
            key = f"p{number}"
            rows.create("make", {"id": key, "owner": owner, "order": order, "due": due})
            plain: dict[str, Plain] = raw.row("probes", "probe_id", key)
            for name in CONDITIONS:
                transition = PROBE.transition(name.replace(" ", "_"))
                values = {param.name: given[param.name] for param in transition.params}
                expected = decide(PROBE, plain, transition.name, values, now)
                answer = rows.apply(transition.name, key, values)
                cells += 1
                if isinstance(expected, Moved):
                    moved[name] += 1
                    plain = {**expected.row}
                    assert not isinstance(answer, Refused), (name, owner, order, due)
                    assert answer.count == expected.row["count"]
                else:
                    assert answer == expected, (name, owner, order, due)

    assert cells == len(OWNERS) * len(ORDERS) * len(CONDITIONS)
    assert all(0 < passed < len(OWNERS) * len(ORDERS) for passed in moved.values()), moved


def test_gen_01_a_text_that_is_a_columns_name_is_a_text(database: str, clock: ManualClock) -> None:
    """GEN-01: a guard that compares with `owner` or `order` compares with the word."""
    with open_store(database, clock=clock, machines=[PROBE]) as store:
        rows = store.machine(PROBE)
        for number, owner in enumerate(("a", "owner", None)):
            rows.create("make", {"id": f"p{number}", "owner": owner})

        answers = [bool(rows.apply("equals_its_own_name", f"p{number}")) for number in range(3)]

    assert answers == [False, True, False]


def test_gen_02_a_running_run_without_an_expiry_cannot_be(
    store: Store, database: str, capabilities: Capabilities
) -> None:
    """GEN-02: no sweep would ever find it, so an invariant forbids it."""
    queue(store)
    start(store)
    raw = Raw(store, database, capabilities)

    said = raw.refusal("UPDATE runs SET lease_expires_at = NULL WHERE run_id = 'r'")

    assert said is not None
    assert "the lease is whole or absent" in said


MIXED = ("B", "a", "A", "b.1", "b-1", "b_1", "a1", "a10", "a2", "Z", "b")


def test_gen_04_equal_rows_are_taken_in_the_order_of_their_ids(store: Store) -> None:
    """GEN-04: by code point, on every database alike; nothing is left behind."""
    for run_id in MIXED:
        queue(store, run_id)

    taken = []
    while isinstance(claim := store.runs.claim_next("w", LEASE), Claim):
        taken.append(claim.run_id)

    assert taken == sorted(MIXED)
    assert [run.run_id for run in store.runs.list()] == sorted(MIXED)
    newest = [run.run_id for run in store.runs.list(newest_first=True)]
    assert newest == sorted(MIXED, reverse=True)


def test_gen_04_claim_many_takes_the_same_order(store: Store) -> None:
    """GEN-04: a batch is the same rows in the same order."""
    for run_id in MIXED:
        queue(store, run_id)

    claims = store.runs.claim_many("w", LEASE, limit=100)

    assert [claim.run_id for claim in claims] == sorted(MIXED)


def test_gen_04_times_come_before_ids(store: Store, clock: ManualClock) -> None:
    """GEN-04: availability, then creation, then id."""
    soon = clock.now() + timedelta(seconds=5)
    queue(store, "d", available_at=soon)
    clock.advance(timedelta(seconds=1))
    queue(store, "c", available_at=soon)
    queue(store, "a", available_at=soon)
    queue(store, "z")
    clock.instant = soon

    taken = [claim.run_id for claim in store.runs.claim_many("w", LEASE, limit=10)]

    assert taken == ["z", "d", "a", "c"]


def test_gen_04_what_has_no_expiry_is_swept_too(store: Store, clock: ManualClock) -> None:
    """GEN-04: runs without a lease come in the order of their ids, and the expired ones as well."""
    for run_id in ("held", "b", "a"):
        queue(store, run_id)
        assert store.runs.park(take(store, run_id), waiting=True)
        control = store.runs.claim_for_control(run_id, holder="c", lease=LEASE)
        assert isinstance(control, Claim)
        assert store.runs.request_cancel(run_id)
        if run_id != "held":
            assert store.runs.release_control(control)
    queue(store, "worn", max_attempts=1)
    start(store, "worn")
    clock.advance(LEASE)

    ended = [run.run_id for run in store.runs.reap_due()]

    assert ended == ["worn", "a", "b", "held"]


@pytest.mark.parametrize("word", ["key", "order", "group", "select", "user", "rowid"])
def test_gen_01_reserved_words_are_columns_like_any_other(word: str, database: str) -> None:
    """GEN-01: table and columns may be named as SQL pleases, and are not taken for texts."""
    record = attrs.make_class(
        "Word",
        {
            "index": attrs.field(type=str),
            "when": attrs.field(type=State),
            word: attrs.field(type=str, default="none"),
        },
        frozen=True,
        kw_only=True,
    )
    columns = attrs.fields(record)
    column = getattr(columns, word)
    machine = Machine(
        name="word",
        record=record,
        table=word,
        key=columns.index,
        state=columns.when,
        initial=(State.OPEN,),
        final=(State.SHUT,),
        creations=(Creation("make", State.OPEN, (Set(columns.index, Param("id", Text())),)),),
        transitions=(
            Transition(
                "shut",
                (State.OPEN,),
                State.SHUT,
                when=(Guard("named", Equal(column, word)),),
            ),
            Transition("set", (State.OPEN,), None, assign=(Set(column, Param("to", Text())),)),
        ),
        uniqueness=(Uniqueness("one of each", (column,), Equal(columns.when, State.OPEN)),),
        recorded=(column,),
    )
    with open_store(database, machines=[machine]) as store:
        rows = store.machine(machine)
        rows.create("make", {"id": "w"})
        refused = rows.apply("shut", "w")
        assert isinstance(refused, Refused)
        assert refused.reason == Reason.GUARD
        assert rows.apply("set", "w", {"to": word})
        assert rows.apply("shut", "w")
        assert rows.history("w")[1].changes == {word: word}
        assert [row.index for row in rows.list(states=["shut"])] == ["w"]


NAMES = (
    "it's",
    'one "per" x',
    "100 % :of them",
    "é",
    "a" * 80,
    "a" * 79 + "b",
    "drop; --",
    "a.b-c",
)


@pytest.mark.parametrize("name", NAMES)
def test_rules_may_be_named_as_their_author_pleases(name: str, database: str) -> None:
    """A rule's name reaches refusals and the database whole; none is taken for another."""
    columns = attrs.fields(Probe)
    machine = Machine(
        name="ruled",
        record=Probe,
        table="ruled",
        key=columns.probe_id,
        state=columns.state,
        initial=(State.OPEN,),
        final=(State.SHUT,),
        creations=(
            Creation(
                "make",
                State.OPEN,
                (
                    Set(columns.probe_id, Param("id", Text())),
                    Set(columns.owner, Param("owner", Text(), optional=True)),
                    Set(columns.order, Param("order", Integer(), optional=True)),
                ),
            ),
        ),
        transitions=(
            Transition("own", (State.OPEN,), None, assign=(Set(columns.owner, WHO),)),
            Transition(
                "shut", (State.OPEN,), State.SHUT, when=(Guard(name, NotNull(columns.owner)),)
            ),
        ),
        uniqueness=(
            Uniqueness(name, (columns.owner,), Equal(columns.state, State.OPEN)),
            Uniqueness(f"{name} too", (columns.order,), Equal(columns.state, State.OPEN)),
        ),
        invariants=(
            Invariant(name, AtMost(0, columns.count)),
            Invariant(f"{name} too", AtMost(columns.count, 100)),
        ),
    )
    with open_store(database, machines=[machine]) as store:
        rows = store.machine(machine)
        first = rows.create("make", {"id": "a", "owner": "x", "order": 1})
        rows.create("make", {"id": "b"})
        with pytest.raises(UniquenessConflict) as conflict:
            rows.create("make", {"id": "c", "order": 1})
        taken = rows.apply("own", "b", {"who": "x"})
        unnamed = rows.apply("shut", "b")

        assert (conflict.value.rule, conflict.value.blocker) == (f"{name} too", first)
        assert isinstance(taken, Refused)
        assert (taken.reason, taken.guard, taken.blocker) == (Reason.UNIQUE, name, first)
        assert isinstance(unnamed, Refused)
        assert unnamed.guard == name
    if not database.startswith(":"):
        with open_store(database, machines=[machine]) as store:
            assert len(store.machine(machine).list()) == 2
