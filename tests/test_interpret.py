"""Three-valued truth, as SQL has it, for each part of the language."""

from __future__ import annotations

import itertools

import pytest

from statemachine.interpret import Truth, assigned, greatest, holds, value_of
from statemachine.kinds import Duration, Integer, Plain
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
    Term,
    iff,
    implies,
)

A, B = Column("a"), Column("b")
P = Param("p", Integer(), optional=True)
LENGTH = Param("length", Duration(), optional=True)
NOW_IS = 1_000

TRUE, FALSE, UNKNOWN = Equal(A, 1), Equal(A, 2), Equal(B, 1)
OF_TRUTH: dict[Truth, Condition] = {True: TRUE, False: FALSE, None: UNKNOWN}
ROW: dict[str, Plain] = {"a": 1, "b": None}
TRUTHS: tuple[Truth, ...] = (True, False, None)


def truth(condition: Condition, **row: Plain) -> Truth:
    return holds(condition, {**ROW, **row}, {"p": None, "length": 5}, NOW_IS)


@pytest.mark.parametrize(
    ("condition", "left", "expected"),
    [
        (Equal(A, 2), (1, 2, 3, None), (False, True, False, None)),
        (NotEqual(A, 2), (1, 2, 3, None), (True, False, True, None)),
        (Less(A, 2), (1, 2, 3, None), (True, False, False, None)),
        (AtMost(A, 2), (1, 2, 3, None), (True, True, False, None)),
        (IsNull(A), (0, False, "", None), (False, False, False, True)),
        (NotNull(A), (0, False, "", None), (True, True, True, False)),
        (OneOf(A, (1, 3)), (1, 2, 3, None), (True, False, True, None)),
        (Equal(A, P), (1, 2, 3, None), (None, None, None, None)),
        (Less(A, NOW), (999, 1_000, 1_001, None), (True, False, False, None)),
        (AtMost(A, Deadline(LENGTH)), (1_004, 1_005, 1_006, None), (True, True, False, None)),
    ],
)
def test_a_comparison_with_null_is_unknown(
    condition: Condition, left: tuple[Plain, ...], expected: tuple[Truth, ...]
) -> None:
    """Below, at and above a value, and NULL."""
    assert tuple(truth(condition, a=value) for value in left) == expected


@pytest.mark.parametrize("value", TRUTHS)
def test_the_test_conditions_mean_what_they_stand_for(value: Truth) -> None:
    """The tables below rest on a true, a false and an unknown condition."""
    assert truth(OF_TRUTH[value]) is value


@pytest.mark.parametrize(("one", "other"), list(itertools.product(TRUTHS, repeat=2)))
def test_and_or_follow_kleene(one: Truth, other: Truth) -> None:
    """False settles *and*, true settles *or*; otherwise unknown stays unknown."""
    both = False if False in (one, other) else None if None in (one, other) else True
    either = True if True in (one, other) else None if None in (one, other) else False
    left, right = OF_TRUTH[one], OF_TRUTH[other]

    assert truth(And(left, right)) is both
    assert truth(Or(left, right)) is either
    assert truth(And(left, right, TRUE)) is both
    assert truth(Or(left, right, FALSE)) is either


def test_empty_and_holds_and_empty_or_does_not() -> None:
    """Nothing to ask for is granted; nothing to choose from is not."""
    assert (truth(And()), truth(Or())) == (True, False)


@pytest.mark.parametrize(("value", "expected"), [(True, False), (False, True), (None, None)])
def test_not_leaves_unknown_unknown(value: Truth, expected: Truth) -> None:
    """An unknown condition does not become true by being denied."""
    assert truth(Not(OF_TRUTH[value])) is expected


@pytest.mark.parametrize(("one", "other"), list(itertools.product((True, False), repeat=2)))
def test_implies_and_iff(one: bool, other: bool) -> None:  # a table of truths
    """Both read as in logic where nothing is unknown."""
    assert truth(implies(OF_TRUTH[one], OF_TRUTH[other])) is (not one or other)
    assert truth(iff(OF_TRUTH[one], OF_TRUTH[other])) is (one == other)


@pytest.mark.parametrize(
    ("term", "expected"),
    [(A, 1), (B, None), (P, 7), (NOW, NOW_IS), (Deadline(LENGTH), NOW_IS + 5)],
)
def test_a_term_is_read_from_row_call_or_clock(term: Term, expected: Plain) -> None:
    """Columns come from the row, parameters from the call, NOW from the clock."""
    assert value_of(term, ROW, {"p": 7, "length": 5}, NOW_IS) == expected


def test_a_deadline_without_duration_is_null() -> None:
    """NOW plus NULL is NULL, as in SQL."""
    assert value_of(Deadline(LENGTH), ROW, {"length": None}, NOW_IS) is None


@pytest.mark.parametrize(
    ("assignment", "filled", "empty"),
    [
        (Set(A, P), 7, 7),
        (Set(A, NOW), NOW_IS, NOW_IS),
        (Set(A, Deadline(LENGTH)), NOW_IS + 5, NOW_IS + 5),
        (SetOr(A, P, NOW), 7, 7),
        (SetOnce(A, P), 1, 7),
        (SetOnce(A, NOW), 1, NOW_IS),
        (Put(A, 3), 3, 3),
        (Clear(A), None, None),
        (Add(A, 2), 3, None),
        (Add(A, -1), 0, None),
        (Greatest(A, P), 7, 7),
        (Greatest(A, NOW), NOW_IS, NOW_IS),
    ],
)
def test_an_assignment_writes_into_a_filled_and_an_empty_column(
    assignment: Assignment, filled: Plain, empty: Plain
) -> None:
    """What it writes may depend on what was there."""
    params: dict[str, Plain] = {"p": 7, "length": 5}

    assert assigned(assignment, {"a": 1}, params, NOW_IS) == filled
    assert assigned(assignment, {"a": None}, params, NOW_IS) == empty


def test_an_absent_parameter_leaves_the_choice_to_the_assignment() -> None:
    """NULL is written by Set, replaced by SetOr, and ignored by Greatest and SetOnce."""
    params: dict[str, Plain] = {"p": None}

    assert assigned(Set(A, P), ROW, params, NOW_IS) is None
    assert assigned(SetOr(A, P, NOW), ROW, params, NOW_IS) == NOW_IS
    assert assigned(SetOr(A, P, B), ROW, params, NOW_IS) is None
    assert assigned(Greatest(A, P), ROW, params, NOW_IS) == 1
    assert assigned(SetOnce(A, P), ROW, params, NOW_IS) == 1


def test_the_greatest_ignores_null() -> None:
    """As on PostgreSQL; SQLite's own max would not."""
    found = [greatest(2, 1), greatest(1, 2), greatest(None, 1), greatest(1, None)]

    assert found == [2, 2, 1, 1]
    assert greatest(None, None) is None
