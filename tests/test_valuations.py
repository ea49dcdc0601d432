"""The calls that try whatever a machine's guards can tell apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine.apart import told_apart
from statemachine.examples import NOW_MS, PERIOD_MS, examples
from statemachine.fitting import is_constant_of
from statemachine.interpret import holds
from statemachine.kinds import (
    Boolean,
    Choice,
    Duration,
    Instant,
    Integer,
    Json,
    Kind,
    Plain,
    Prose,
    Text,
    Token,
)
from statemachine.machine import Machine
from statemachine.machines import ALL
from statemachine.machines.run_launch import RUN_LAUNCH
from statemachine.outcome import Moved
from statemachine.path import broken
from statemachine.simulate import decide
from statemachine.solve import Solver, Variable
from statemachine.testing import rows
from statemachine.valuations import Cell, Completion, cells
from statemachine.vocabulary import (
    NOW,
    And,
    AtMost,
    Column,
    Condition,
    Equal,
    IsNull,
    Less,
    Not,
    NotNull,
    OneOf,
    Or,
    Param,
    SetOnce,
    iff,
)
from tests.order import ORDER, OrderState

MACHINES = (*ALL, ORDER)
RUN_CELLS = cells(RUN_LAUNCH)
by_machine = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


def names(values: Iterable[Variable]) -> list[str]:
    return [value.name for value in values]


@by_machine
def test_every_transition_is_tried_in_every_state(machine: Machine) -> None:
    """Not only where it may happen."""
    tried = {(cell.transition, cell.row[machine.state.name]) for cell in cells(machine)}

    assert tried == {(t.name, state) for t in machine.transitions for state in machine.states}


@by_machine
def test_rows_are_whole_and_what_a_database_would_hold(machine: Machine) -> None:
    """Every column is there, and every invariant holds."""
    tried = cells(machine)

    assert {tuple(cell.row) for cell in tried} == {tuple(machine.fields)}
    assert [cell for cell in tried if broken(machine, cell.row)] == []
    for name, field in machine.fields.items():
        values = {cell.row[name] for cell in tried}
        wrong = [v for v in values if v is not None and not is_constant_of(field.kind, v)]
        assert wrong == []
        assert field.nullable or None not in values


def test_every_transition_happens_and_every_guard_refuses() -> None:
    """A cell set that never moves, or never fails a guard, would prove nothing."""
    outcomes = [
        (cell, decide(RUN_LAUNCH, cell.row, cell.transition, cell.params, cell.now))
        for cell in RUN_CELLS
    ]
    fired = {cell.transition for cell, outcome in outcomes if outcome}
    failed = {
        (cell.transition, outcome.guard)
        for cell, outcome in outcomes
        if not isinstance(outcome, Moved) and outcome.guard
    }

    assert fired == {transition.name for transition in RUN_LAUNCH.transitions}
    assert failed == {(t.name, guard.name) for t in RUN_LAUNCH.transitions for guard in t.when}


@by_machine
def test_a_moved_row_keeps_the_invariants(machine: Machine) -> None:
    """From any row that a database may hold, not only from reachable ones."""
    outcomes = [
        decide(machine, cell.row, cell.transition, cell.params, cell.now) for cell in cells(machine)
    ]

    assert [o for o in outcomes if isinstance(o, Moved) and broken(machine, o.row)] == []


def test_run_launch_is_some_thousands_of_cells() -> None:
    """So many that nothing is missed, so few that both databases try them in seconds."""
    assert (len(RUN_CELLS), RUN_CELLS.left_out) == (2341, 2218)


def leases(transition: str, state: str) -> Counter[tuple[str, str, str]]:
    """Count the lease as a cell has it: whose, whether live, and the generation."""
    found: Counter[tuple[str, str, str]] = Counter()
    for cell in RUN_CELLS:
        if cell.transition == transition and cell.row["status"] == state:
            found[_lease(cell)] += 1
    return found


def _lease(cell: Cell) -> tuple[str, str, str]:
    row, params = cell.row, cell.params
    if row["lease_expires_at"] is None:
        return "absent", "", ""
    expiry = int(row["lease_expires_at"])
    when = "live" if expiry > cell.now else "now" if expiry == cell.now else "expired"
    whose = "own" if row["lease_token_hash"] == params["token"] else "other"
    fits = row["lease_generation"] == params["generation"]
    return whose, when, "right" if fits else "wrong"


def test_a_held_transition_meets_every_lease() -> None:
    """Absent; own or another's; live, expired, expiring just now; right or wrong generation."""
    every = {
        (whose, when, generation)
        for whose in ("own", "other")
        for when in ("live", "now", "expired")
        for generation in ("right", "wrong")
    }

    assert set(leases("park_source_changed", "parked")) == {*every, ("absent", "", "")}
    assert set(leases("renew", "starting")) == every


FIELDS = RUN_LAUNCH.fields
LIMIT, COUNT = Column("max_attempts"), Column("attempts")
EXPIRY = Column("lease_expires_at")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (IsNull(LIMIT), {"max_attempts": (None, 1)}),
        (Less(COUNT, 3), {"attempts": (2, 3, 4)}),
        (Less(COUNT, 0), {"attempts": (0, 1)}),
        (Equal(COUNT, 3), {"attempts": (3, 4)}),
        (Less(COUNT, LIMIT), {"attempts": (1, 2), "max_attempts": (None, 1, 2)}),
        (AtMost(EXPIRY, NOW), {"lease_expires_at": (None, NOW_MS - 1, NOW_MS, NOW_MS + 1)}),
        (Equal(Column("paused"), True), {"paused": (False, True)}),
        (OneOf(Column("outcome"), ("failed",)), {"outcome": (None, "failed", "completed")}),
        (Equal(Column("error_code"), "a"), {"error_code": (None, "a", "b")}),
        (Equal(Column("project"), Param("p", Text())), {"project": ("a", "b"), "p": ("a",)}),
        (Less(COUNT, Param("n", Integer())), {"attempts": (1, 2, 3), "n": (2,)}),
        (
            Equal(Column("error_code"), Param("p", Text(), optional=True)),
            {"error_code": (None, "a", "b"), "p": (None, "a")},
        ),
    ],
    ids=range(12),
)
def test_values_are_those_that_a_condition_can_tell_apart(
    condition: Condition, expected: dict[str, tuple[Plain, ...]]
) -> None:
    """NULL where it may be, each constant and one beside, and around NOW."""
    apart = told_apart([condition], (), FIELDS)

    assert {variable.name: values for variable, values in apart.items()} == expected


def test_an_assignment_that_reads_what_was_there_has_it_varied() -> None:
    """Set once tells an empty column from a filled one."""
    apart = told_apart([], (SetOnce(Column("started_at"), NOW),), FIELDS)

    assert apart == {Column("started_at"): (None, NOW_MS - 2 * PERIOD_MS)}


@pytest.mark.parametrize(
    "kind",
    [Text(), Text(pattern="[0-9a-f]{64}"), Text(pattern="sha256:[0-9a-f]{64}"), Prose(), Json(9)]
    + [Text(pattern="[A-Za-z0-9][A-Za-z0-9._-]{0,199}"), Instant(), Boolean(), Integer(5, 6)]
    + [Choice(OrderState), Token(), Text(pattern="fixed")],
    ids=repr,
)
def test_examples_are_values_of_their_kind(kind: Kind) -> None:
    """At least one, all different, within the bounds."""
    found = examples(kind)

    assert found
    assert len(set(found)) == len(found)
    assert [value for value in found if not is_constant_of(kind, value)] == []


def test_a_duration_of_an_example_is_a_period() -> None:
    """One length is enough: what it is compared with varies instead."""
    assert examples(Duration()) == (PERIOD_MS,)


def test_an_expression_that_no_plain_text_meets_has_no_example() -> None:
    """Nothing is made up."""
    assert examples(Text(pattern="(a1|b2)-x")) == ()


A, B = Column("a"), Column("b")
SMALL = st.sampled_from([None, 1, 2])


def conditions() -> st.SearchStrategy[Condition]:
    """Return conditions over two small columns."""
    terms = st.sampled_from([A, B])
    leaves: st.SearchStrategy[Condition] = (
        st.builds(Equal, terms, terms | st.sampled_from([1, 2]))
        | st.builds(Less, terms, terms | st.sampled_from([1, 2]))
        | st.builds(IsNull, terms)
        | st.builds(NotNull, terms)
    )
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(And, inner, inner)
            | st.builds(Or, inner, inner)
            | st.builds(iff, inner, inner)
            | st.builds(Not, inner)
        ),
        max_leaves=6,
    )


@given(st.lists(conditions(), min_size=1, max_size=3))
def test_the_solver_finds_what_trying_all_finds(given_conditions: list[Condition]) -> None:
    """It gives up early only where nothing can be found."""
    values: tuple[Plain, ...] = (None, 1, 2)
    every = [
        {"a": a, "b": b}
        for a in values
        for b in values
        if all(holds(c, {"a": a, "b": b}, {}, 0) is True for c in given_conditions)
    ]
    found = Solver(given_conditions, 0).first({A: values, B: values})

    assert (found is None) == (every == [])
    if found is not None:
        assert {v.name: value for v, value in found.items()} in every


def test_a_row_is_completed_around_a_few_columns() -> None:
    """The rest follows from the invariants, or there is no such row."""
    completion = Completion(RUN_LAUNCH)
    failed = completion.row({"status": "failed"})

    assert failed is not None
    assert (failed["outcome"], failed["input"], failed["lease_holder"]) == ("failed", "null", None)
    assert completion.row({"status": "failed", "lease_holder": "a"}) is None


@given(rows(RUN_LAUNCH))
def test_random_rows_keep_the_invariants(row: dict[str, Plain]) -> None:
    """What Hypothesis draws is what a database would hold."""
    assert broken(RUN_LAUNCH, row) == ()
    assert list(row) == list(RUN_LAUNCH.fields)
