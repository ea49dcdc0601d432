"""What is true of every run at rest, and of runs beside one another."""

from __future__ import annotations

from statemachine.machines import _lease as lease
from statemachine.machines._run import (
    CANCELLED,
    CLAIMED,
    DONE,
    FAILED,
    FINAL,
    PARKED,
    QUEUED,
    RUNNING,
    STARTING,
    RunOutcome,
    RunStatus,
    run,
)
from statemachine.machines._run_selections import INTERACTIVE
from statemachine.parts import Invariant, Uniqueness
from statemachine.vocabulary import (
    And,
    AtMost,
    Condition,
    Equal,
    IsNull,
    Not,
    NotEqual,
    NotNull,
    OneOf,
    Or,
    iff,
    implies,
)


def _in(*states: RunStatus) -> Condition:
    """Return "the run is in one of these states"."""
    return OneOf(run.status, states)


UNIQUENESS = (
    Uniqueness(
        "session reservation",
        (run.origin_session_id,),
        And(INTERACTIVE, OneOf(run.status, (QUEUED, STARTING, RUNNING))),
    ),
    Uniqueness(
        "one continuation",
        (run.parent_run_id,),
        Not(OneOf(run.status, (FAILED, CANCELLED))),
    ),
)

INVARIANTS = (
    Invariant("finished exactly when final", iff(_in(*FINAL), NotNull(run.finished_at))),
    Invariant("an outcome exactly when final", iff(_in(*FINAL), NotNull(run.outcome))),
    Invariant(
        "a final run is cleared",
        implies(
            _in(*FINAL),
            And(
                Not(lease.LEASED),
                Equal(run.input, "null"),
                Equal(run.launch_options, "{}"),
            ),
        ),
    ),
    Invariant("a claimed run is leased", implies(_in(*CLAIMED), lease.LEASED)),
    Invariant(
        "a done run was not cancelled",
        implies(_in(DONE), NotEqual(run.outcome, RunOutcome.CANCELLED)),
    ),
    Invariant(
        "a failed run says why",
        implies(
            _in(FAILED),
            And(
                OneOf(run.outcome, (RunOutcome.FAILED, RunOutcome.TIMED_OUT)),
                NotNull(run.error_code),
                NotNull(run.error_message),
            ),
        ),
    ),
    Invariant(
        "a cancelled run's outcome is cancelled",
        implies(_in(CANCELLED), Equal(run.outcome, RunOutcome.CANCELLED)),
    ),
    Invariant("waiting only while parked", implies(Equal(run.waiting, True), _in(PARKED))),
    *lease.INVARIANTS,
    Invariant(
        "an interactive run has a session",
        implies(INTERACTIVE, NotNull(run.origin_session_id)),
    ),
    Invariant("attempts are counted from zero", AtMost(0, run.attempts)),
    Invariant(
        "no run is its own parent",
        Or(IsNull(run.parent_run_id), NotEqual(run.parent_run_id, run.run_id)),
    ),
)
