"""Each guard and assignment is written out so that a person can check it."""

from __future__ import annotations

import pytest

from statemachine.kinds import Duration, Text
from statemachine.render.labels import assignment_label, condition_label, transition_label
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
    iff,
    implies,
)

A, B = Column("a"), Column("b")
GIVEN, LEASE = Param("given", Text()), Param("lease", Duration())

CONDITIONS = (
    (Equal(A, GIVEN), "a = :given"),
    (NotEqual(A, "it's"), "a <> 'it''s'"),
    (Less(NOW, A), "now < a"),
    (AtMost(A, Deadline(LEASE)), "a <= now + :lease"),
    (Equal(A, True), "a = true"),
    (Equal(A, False), "a = false"),
    (Equal(A, 1), "a = 1"),
    (IsNull(A), "a is null"),
    (NotNull(A), "a is not null"),
    (OneOf(A, ("x", "y")), "a in ('x', 'y')"),
    (And(), "true"),
    (Or(), "false"),
    (And(IsNull(A), Or(IsNull(B), NotNull(A))), "a is null and (b is null or a is not null)"),
    (Not(Equal(A, "x")), "not (a = 'x')"),
    (
        iff(IsNull(A), And(IsNull(B), NotNull(A))),
        "a is null exactly when (b is null and a is not null)",
    ),
    (
        implies(And(IsNull(A), IsNull(B)), NotNull(A)),
        "(a is null and b is null) implies a is not null",
    ),
    (
        Or(And(IsNull(A), IsNull(B)), And(Not(IsNull(B)), Not(IsNull(A)))),
        "(a is null and b is null) or (not (b is null) and not (a is null))",
    ),
)

ASSIGNMENTS = (
    (Set(A, GIVEN), "a := :given"),
    (Set(A, Deadline(LEASE)), "a := now + :lease"),
    (SetOr(A, GIVEN, NOW), "a := :given or else now"),
    (SetOnce(A, NOW), "a := a or else now"),
    (Put(A, "x"), "a := 'x'"),
    (Clear(A), "a := null"),
    (Add(A), "a := a + 1"),
    (Add(A, -2), "a := a - 2"),
    (Greatest(A, NOW), "a := greatest(a, now)"),
)


@pytest.mark.parametrize(("condition", "label"), CONDITIONS, ids=[c[1] for c in CONDITIONS])
def test_conditions_are_written_out(condition: Condition, label: str) -> None:
    """Columns by name, parameters by a colon, constants as in SQL, precedence by parentheses."""
    assert condition_label(condition) == label


@pytest.mark.parametrize(("assignment", "label"), ASSIGNMENTS, ids=[a[1] for a in ASSIGNMENTS])
def test_assignments_are_written_out(assignment: Assignment, label: str) -> None:
    """The column, and what it becomes."""
    assert assignment_label(assignment) == label


def test_a_transition_is_labelled_by_name_and_guards() -> None:
    """DIA-03: a guard without a visible name leaves no empty place."""
    held, blank = Guard("held", IsNull(A)), Guard(" ", IsNull(B))

    assert transition_label("finish", (held, blank)) == "finish [held]"
    assert transition_label("finish", (blank,)) == "finish"
