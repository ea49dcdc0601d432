"""A second opinion: Spin, on models that are written from the declarations alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine.errors import InvalidArgument, MachineError
from statemachine.exploration import Exploration, explore
from statemachine.interpret import holds
from statemachine.kinds import Integer
from statemachine.machine import Invariant, Machine
from statemachine.machines import ALL, NOTIFICATION, RUN_LAUNCH, TURN_INTENT
from statemachine.promela import to_promela
from statemachine.promela.expressions import Reader
from statemachine.promela.scope import Scope
from statemachine.vocabulary import (
    And,
    AtMost,
    Column,
    Condition,
    Equal,
    Guard,
    IsNull,
    Less,
    Literal,
    Not,
    NotEqual,
    NotNull,
    OneOf,
    Or,
    Param,
    Term,
)
from tests.gauge import GAUGE
from tests.mutants import changed, with_transition, without_assignment, without_guard
from tests.order import ORDER
from tests.spin import verify

MACHINES = (*ALL, ORDER, GAUGE)


@functools.cache
def _explored(machine: Machine) -> Exploration:
    return explore(machine)


def _ways(machine: Machine) -> set[tuple[str, str, str]]:
    """Return what the explorer saw happen; it tells no way back to a row that looks the same."""
    found, names = _explored(machine), Scope(machine, 1).states
    ways = {(c.name, "new", names[c.dest]) for c in machine.creations if c.name in found.fired}
    for number, out in enumerate(found.graph.ways):
        source = names[str(found.graph.state(number))]
        for edge in out:
            if edge.name != "tick":
                ways.add((edge.name, source, names[str(found.graph.state(edge.dest))]))
    return ways


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_spin_and_the_explorer_agree(machine: Machine, tmp_path: Path) -> None:
    """Both reach the same states by the same transitions, and to both the invariants hold."""
    verified = verify(machine, tmp_path)

    assert verified.broken == ()
    assert verified.errors == 0
    assert verified.names == set(_explored(machine).fired)
    more = verified.ways - _ways(machine)
    assert verified.ways >= _ways(machine)
    assert {dest for _, _, dest in verified.ways} == {dest for _, _, dest in _ways(machine)}
    assert [way for way in more if way[1] != way[2]] == []


def test_an_order_has_as_many_states_to_both(tmp_path: Path) -> None:
    """Where both see a row alike, they count alike: Spin also counts "no row yet"."""
    assert verify(ORDER, tmp_path).states == _explored(ORDER).states + 1
    assert verify(ORDER, tmp_path, rows=2).states == _explored(ORDER).populations[0].pairs


@pytest.mark.parametrize("machine", [*ALL, ORDER], ids=lambda machine: machine.name)
def test_a_uniqueness_rule_refuses_the_same_calls_to_both(machine: Machine, tmp_path: Path) -> None:
    """With two rows, each call that may enter a rule's place can meet another row there."""
    verified = verify(machine, tmp_path, rows=2)

    entering = {
        (name, population.rule)
        for population in _explored(machine).populations
        for name in population.entered_by
    }
    assert verified.errors == 0
    assert verified.taken == entering


FAULTS = {
    "waiting left on by claim": lambda: without_assignment(RUN_LAUNCH, "claim", "waiting"),
    "lease not dropped on resolve": lambda: without_assignment(
        TURN_INTENT,
        "resolve",
        *(column for column in TURN_INTENT.fields if column.startswith("lease_")),
    ),
    "a part of the lease kept on release": lambda: without_assignment(
        TURN_INTENT, "release", "lease_expires_at"
    ),
    "guard forgotten on a fallback": lambda: without_guard(
        TURN_INTENT, "resolve", "a fallback only when eligible"
    ),
    "guard forgotten on claim": lambda: without_guard(NOTIFICATION, "claim", "free"),
    "generation not raised by claim": lambda: without_assignment(
        NOTIFICATION, "claim", "lease_generation"
    ),
}


@pytest.mark.parametrize("faulty", FAULTS.values(), ids=list(FAULTS))
def test_both_find_a_fault(faulty: Callable[[], Machine], tmp_path: Path) -> None:
    """A guard or assignment that was forgotten breaks the same rule to both, by a shortest way."""
    machine = faulty()
    found = [one.name for one in explore(machine).discoveries]

    verified = verify(machine, tmp_path, story=True)

    assert verified.errors == 1
    (broken,) = verified.broken
    assert broken in found
    assert f"broken: {broken}" in verified.story
    creations = [creation.name for creation in machine.creations]
    assert verified.story[0].split(":")[0] in creations


def test_both_find_a_dead_edge(tmp_path: Path) -> None:
    """A transition whose guard nothing makes true fires to neither."""
    machine = with_transition(ORDER, "ship", when=(Guard("dead", NotNull(Column("coupon"))),))

    assert verify(machine, tmp_path).names == {"place", "pay", "remind", "cancel"}
    assert explore(machine).unfired == ("ship",)


_A, _B, _GIVEN = Column("len"), Column("byte"), Param("given", Integer(0, 3), optional=True)
_TERMS: st.SearchStrategy[Term] = st.sampled_from([_A, _B, _GIVEN])
_CONSTANTS: st.SearchStrategy[Term] = st.integers(0, 3).map(Literal)
_PAIRS = st.tuples(_TERMS, st.one_of(_TERMS, _CONSTANTS))
_ATOMS: st.SearchStrategy[Condition] = st.one_of(
    _PAIRS.map(lambda pair: Equal(*pair)),
    _PAIRS.map(lambda pair: NotEqual(*pair)),
    _PAIRS.map(lambda pair: Less(*pair)),
    _PAIRS.map(lambda pair: AtMost(*pair)),
    _TERMS.map(IsNull),
    _TERMS.map(NotNull),
    st.lists(st.integers(0, 3), min_size=1, max_size=2).map(lambda values: OneOf(_B, values)),
)
_CONDITIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, max_size=3).map(lambda parts: And(*parts)),
        st.lists(inner, max_size=3).map(lambda parts: Or(*parts)),
    ),
    max_leaves=8,
)
_VALUES = st.one_of(st.none(), st.integers(0, 3))
_ALL = And(Less(_A, _B), AtMost(_A, _GIVEN), AtMost(0, _A), AtMost(_A, 3))
_COMPARING = with_transition(GAUGE, "idle", when=(Guard("all are compared", _ALL),))


@given(condition=_CONDITIONS, low=st.integers(0, 3), high=_VALUES, given_so=_VALUES)
def test_three_values_of_truth_are_kept_apart(
    condition: Condition, low: int, high: int | None, given_so: int | None
) -> None:
    """What is written as true and as false is so exactly where SQL's logic says true and false."""
    reader = Reader(Scope(_COMPARING, 1), lambda name: name)
    truth = holds(condition, {"len": low, "byte": high}, {"given": given_so}, 0)
    nil = -32768
    names = {
        "len": low,
        "byte": nil if high is None else high,
        "p_given": nil if given_so is None else given_so,
        "NIL": nil,
        "true": True,
        "false": False,
    }

    def read(text: str) -> object:
        return eval(text.replace("&&", "and").replace("||", "or"), {}, names)  # noqa: S307 - our own

    assert read(reader.true(condition)) is (truth is True)
    assert read(reader.false(condition)) is (truth is False)


def test_a_model_is_the_same_each_time() -> None:
    """Nothing but the declaration decides on the text, and it is plain ASCII."""
    for machine in MACHINES:
        assert to_promela(machine) == to_promela(machine)
        assert to_promela(machine).isascii()


def test_what_a_model_cannot_say_is_refused() -> None:
    """A calendar date, what the engine writes, and a count without end are refused by name."""
    dated = changed(ORDER, invariants=(Invariant("late", AtMost(Column("paid_at"), 10**12)),))
    revised = with_transition(ORDER, "ship", when=(Guard("old", Less(3, Column("revision"))),))
    many = with_transition(
        ORDER, "remind", when=(Guard("patient", Less(Column("reminders"), 10**6)),)
    )

    for machine, named in ((dated, "'paid_at'"), (revised, "'revision'"), (many, "'reminders'")):
        with pytest.raises(MachineError, match=named):
            to_promela(machine)


@pytest.mark.parametrize(("machine", "rows"), [(ORDER, 0), (ORDER, 5), (GAUGE, 2)])
def test_rows_are_few(machine: Machine, rows: int) -> None:
    """One row is modelled; up to four where a uniqueness rule speaks of more than one."""
    with pytest.raises(InvalidArgument, match="rows"):
        to_promela(machine, rows=rows)
