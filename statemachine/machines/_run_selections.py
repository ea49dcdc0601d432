"""Which run a "next" call takes: own affinity, then expired leases, then the oldest waiting."""

from __future__ import annotations

from statemachine.machine import Arm, Selection
from statemachine.machines import _lease as lease
from statemachine.machines._run import (
    CLAIMED,
    PARKED,
    PROJECT,
    QUEUED,
    RUNNING,
    SESSION,
    SOURCE_CHANGED,
    WAITING,
    ExecutionMode,
    run,
)
from statemachine.vocabulary import (
    NOW,
    And,
    AtMost,
    Condition,
    Equal,
    IsNull,
    Less,
    NotEqual,
    NotNull,
    OneOf,
    Or,
)

TAKEABLE = (
    Equal(run.paused, False),
    Equal(run.waiting, False),
    IsNull(run.cancel_requested_at),
    Or(IsNull(run.max_attempts), Less(run.attempts, run.max_attempts)),
    Or(IsNull(run.error_code), NotEqual(run.error_code, SOURCE_CHANGED)),
)
HEADLESS = Equal(run.execution_mode, ExecutionMode.HEADLESS)
INTERACTIVE = Equal(run.execution_mode, ExecutionMode.INTERACTIVE)
OWN = Equal(run.affinity_runner_id, lease.HOLDER)
NOT_PINNED = Or(
    NotEqual(run.status, QUEUED),
    IsNull(run.affinity_until),
    AtMost(run.affinity_until, NOW),
    And(NotNull(run.affinity_runner_id), OWN),
)
EXPIRED = AtMost(run.lease_expires_at, NOW)
DUE = AtMost(run.available_at, NOW)
LEFT = (EXPIRED, DUE)
AVAILABLE = (DUE, NOT_PINNED)
BY_EXPIRY = (run.lease_expires_at, run.run_id)
BY_AGE = (run.available_at, run.created_at, run.run_id)
IN_PROJECT = Equal(run.project, PROJECT)
OF_SESSION = Equal(run.origin_session_id, SESSION)

LEFT_BEHIND = (
    *TAKEABLE,
    OneOf(run.status, CLAIMED),
    Or(
        HEADLESS,
        Equal(run.status, RUNNING),
        Equal(run.lease_holder_kind, lease.HolderKind.HOST),
    ),
)
READY = (*TAKEABLE, OneOf(run.status, WAITING), Or(HEADLESS, Equal(run.status, PARKED)))
PREFERRED = NotNull(run.affinity_runner_id)


def _for_host(name: str, *scope: Equal, only: tuple[Condition, ...] = ()) -> Selection:
    return Selection(
        name=name,
        transition="claim",
        vacant=("session reservation",),
        arms=(
            Arm(
                name="own expired",
                fixed=(*LEFT_BEHIND, PREFERRED),
                by=(*scope, OWN),
                when=(*LEFT, *only),
                order=BY_EXPIRY,
            ),
            Arm(
                name="own ready",
                fixed=(*READY, PREFERRED),
                by=(*scope, OWN),
                when=(*AVAILABLE, *only),
                order=BY_AGE,
            ),
            Arm(
                name="expired",
                fixed=LEFT_BEHIND,
                by=scope,
                when=(*LEFT, *only),
                order=BY_EXPIRY,
            ),
            Arm(
                name="ready",
                fixed=READY,
                by=scope,
                when=(*AVAILABLE, *only),
                order=BY_AGE,
            ),
        ),
    )


def _for_session(name: str, *scope: Equal) -> Selection:
    """A session has at most one reservation, so its own expired run needs no arm of its own."""
    mine = (*TAKEABLE, INTERACTIVE)
    return Selection(
        name=name,
        transition="claim",
        vacant=("session reservation",),
        arms=(
            Arm(
                name="expired",
                fixed=(*mine, OneOf(run.status, CLAIMED)),
                by=(OF_SESSION,),
                when=(*LEFT, *scope),
                order=BY_EXPIRY,
            ),
            Arm(
                name="own ready",
                fixed=(*mine, OneOf(run.status, WAITING), PREFERRED),
                by=(OF_SESSION, OWN),
                when=(*AVAILABLE, *scope),
                order=BY_AGE,
            ),
            Arm(
                name="ready",
                fixed=(*mine, OneOf(run.status, WAITING)),
                by=(OF_SESSION,),
                when=(*AVAILABLE, *scope),
                order=BY_AGE,
            ),
        ),
    )


WORN_OUT = (
    OneOf(run.status, CLAIMED),
    IsNull(run.cancel_requested_at),
    AtMost(run.max_attempts, run.attempts),
)
TO_CANCEL = (OneOf(run.status, (RUNNING, PARKED)), NotNull(run.cancel_requested_at))


def _reap(name: str, *scope: Equal) -> Selection:
    worn_out = Arm(name="worn out", fixed=WORN_OUT, when=(EXPIRED, *scope), order=BY_EXPIRY)
    return Selection(name=name, transition="reap", arms=(worn_out,))


def _reap_cancelled(name: str, *scope: Equal) -> Selection:
    unheld = (IsNull(run.lease_expires_at),)
    return Selection(
        name=name,
        transition="reap_cancelled",
        arms=(
            Arm(name="unheld", fixed=TO_CANCEL, when=(*unheld, *scope), order=BY_EXPIRY),
            Arm(name="expired", fixed=TO_CANCEL, when=(EXPIRED, *scope), order=BY_EXPIRY),
        ),
    )


SELECTIONS = (
    _for_host("claim_next_host", IN_PROJECT),
    _for_host("claim_next_host_anywhere"),
    _for_host("claim_headless", IN_PROJECT, only=(HEADLESS,)),
    _for_host("claim_headless_anywhere", only=(HEADLESS,)),
    _for_session("claim_next_session", IN_PROJECT),
    _for_session("claim_next_session_anywhere"),
    _reap("reap_due", IN_PROJECT),
    _reap("reap_due_anywhere"),
    _reap_cancelled("reap_cancelled_due", IN_PROJECT),
    _reap_cancelled("reap_cancelled_due_anywhere"),
)
