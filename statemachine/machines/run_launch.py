"""Run launch: a durable, leased queue of workflow runs."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated

import attrs

from statemachine.kinds import Boolean, Choice, Instant, Integer, Json, JsonValue, Prose, Text
from statemachine.machine import (
    Arm,
    Creation,
    Invariant,
    Machine,
    OnlyBy,
    Selection,
    Transition,
    Uniqueness,
)
from statemachine.machines import _lease as lease
from statemachine.vocabulary import (
    NOW,
    Add,
    And,
    AtMost,
    Clear,
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
    Put,
    Set,
    SetOnce,
    SetOr,
    iff,
    implies,
)


class RunStatus(enum.StrEnum):
    """Where a run stands."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PARKED = "parked"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunOutcome(enum.StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    CHECKPOINTED = "checkpointed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


class ExecutionMode(enum.StrEnum):
    """Whether a run belongs to its session or to whichever host comes."""

    INTERACTIVE = "interactive"
    HEADLESS = "headless"


QUEUED, STARTING, RUNNING, PARKED, DONE, FAILED, CANCELLED = RunStatus
WAITING, CLAIMED, FINAL = (QUEUED, PARKED), (STARTING, RUNNING), (DONE, FAILED, CANCELLED)
OPEN = (*WAITING, *CLAIMED)

SOURCE_CHANGED = "workflowSourceChanged"
EFFECT_AMBIGUOUS = "effectAmbiguous"
NEVER_STARTED = "neverStarted"
LOST = "lost"

RunId = Annotated[str, Text(max_chars=200, pattern="[A-Za-z0-9][A-Za-z0-9._-]{0,199}")]
Digest = Annotated[str, Text(pattern="[0-9a-f]{64}")]
SmallJson = Annotated[JsonValue, Json(65_536)]
LargeJson = Annotated[JsonValue, Json(1_048_576)]
ErrorMessage = Annotated[str, Prose(max_bytes=2_048)]


@attrs.frozen(kw_only=True)
class Run(lease.Leased):
    """One workflow run, as stored; the fields are those of the product's record of a run.

    All instants are aware, in UTC. `input` and `launch_options` are private: never in `repr`,
    history or logs.
    """

    run_id: RunId
    project: str = "default"
    workflow: str
    source_ref: str
    source: SmallJson
    definition_digest: str
    input: LargeJson = attrs.field(repr=False)
    launch_options: SmallJson = attrs.field(repr=False)
    facts_digest: Digest
    status: RunStatus
    waiting: bool = False
    outcome: RunOutcome | None = None
    result: LargeJson | None = None
    paused: bool = False
    status_detail: Annotated[str, Prose(cut_chars=8_192)] | None = None
    execution_mode: ExecutionMode
    origin_session_id: str | None = None
    affinity_runner_id: str | None = None
    affinity_until: datetime | None = None
    parent_run_id: RunId | None = None
    available_at: datetime
    attempts: Annotated[int, Integer()] = 0
    max_attempts: Annotated[int, Integer(minimum=1)] | None = None
    cancel_requested_at: datetime | None = None
    error_code: str | None = None
    error_message: ErrorMessage | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    revision: Annotated[int, Integer(minimum=1)]
    last_transition: str
    last_actor_kind: str
    last_actor: str
    last_call: str
    updated_at: datetime


run = attrs.fields(Run)

# Parameters

_KEY = Text()
RUN_ID = Text(max_chars=200, pattern="[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
PROJECT = Param("project", _KEY)
SESSION = Param("session_id", _KEY)
ERROR_CODE = Param("error_code", _KEY)
ERROR_MESSAGE = Param("error_message", Prose(max_bytes=2_048))
FINISH_OUTCOME = Param("outcome", Choice(RunOutcome, tuple(RunOutcome)[:-1]))
FAIL_OUTCOME = Param("outcome", Choice(RunOutcome, (RunOutcome.FAILED, RunOutcome.TIMED_OUT)))
WAITS = Param("waiting", Boolean())
AVAILABLE_AT = Param("available_at", Instant(), optional=True)
RUNNER_KIND = lease.HOLDER_KIND
STATUS_DETAIL = Param("status_detail", Prose(cut_chars=8_192), optional=True)

# Guards

NOT_CANCELLING = (Guard("no cancellation requested", IsNull(run.cancel_requested_at)),)
ATTEMPTS_LEFT = (
    Guard("attempts left", Or(IsNull(run.max_attempts), Less(run.attempts, run.max_attempts))),
)
EXPECTED_SOURCE = (
    Guard("source as expected", Equal(run.source_ref, Param("expected_source_ref", _KEY))),
)

# Assignments

FIRST = (SetOnce(run.started_at, NOW),)
NO_ERROR = (Clear(run.error_code), Clear(run.error_message), Clear(run.status_detail))
NOT_WAITING = (Put(run.waiting, False),)
BEGIN = (*FIRST, *NO_ERROR, *NOT_WAITING)
ERROR = (Set(run.error_code, ERROR_CODE), Set(run.error_message, ERROR_MESSAGE))
REBOUND = (
    Set(run.workflow, Param("workflow", _KEY)),
    Set(run.source_ref, Param("source_ref", _KEY)),
    Set(run.source, Param("source", Json(65_536))),
    Set(run.definition_digest, Param("definition_digest", _KEY)),
)
PARKED_AFRESH = (Put(run.attempts, 0),)
CLEARED = (Put(run.input, "null"), Put(run.launch_options, "{}"))
ENDED = (Set(run.finished_at, NOW), *CLEARED)
RESULT = (Set(run.result, Param("result", Json(1_048_576), optional=True)),)
HOW_FAILED = (Set(run.outcome, FAIL_OUTCOME), *ERROR, *RESULT, *ENDED)
CALLED_OFF = (
    Put(run.outcome, RunOutcome.CANCELLED),
    Put(run.error_code, "cancelled"),
    *ENDED,
    *NOT_WAITING,
)
GIVEN = (
    Set(run.run_id, Param("run_id", RUN_ID)),
    Set(run.project, PROJECT),
    Set(run.workflow, Param("workflow", _KEY)),
    Set(run.source_ref, Param("source_ref", _KEY)),
    Set(run.source, Param("source", Json(65_536))),
    Set(run.definition_digest, Param("definition_digest", _KEY)),
    Set(run.input, Param("input", Json(1_048_576))),
    Set(run.launch_options, Param("launch_options", Json(65_536))),
    Set(run.facts_digest, Param("facts_digest", Text(pattern="[0-9a-f]{64}"))),
    Set(run.execution_mode, Param("execution_mode", Choice(ExecutionMode))),
    Set(run.origin_session_id, Param("origin_session_id", _KEY, optional=True)),
    Set(run.affinity_runner_id, Param("affinity_runner_id", _KEY, optional=True)),
    Set(run.affinity_until, Param("affinity_until", Instant(), optional=True)),
    Set(run.parent_run_id, Param("parent_run_id", RUN_ID, optional=True)),
    SetOr(run.available_at, AVAILABLE_AT, NOW),
    Set(run.max_attempts, Param("max_attempts", Integer(minimum=1), optional=True)),
    Set(run.created_at, NOW),
)

# Selections

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
AVAILABLE = (AtMost(run.available_at, NOW), NOT_PINNED)
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
                when=(EXPIRED, *only),
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
                when=(EXPIRED, *only),
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
                when=(EXPIRED, *scope),
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


def _in(*states: RunStatus) -> Condition:
    """Return "the run is in one of these states"."""
    return OneOf(run.status, states)


RUN_LAUNCH = Machine(
    name="run_launch",
    record=Run,
    table="runs",
    key=run.run_id,
    state=run.status,
    initial=(QUEUED, STARTING),
    final=FINAL,
    creations=(
        Creation("reserve", QUEUED, GIVEN, identity=(run.facts_digest,)),
        Creation(
            "enqueue",
            STARTING,
            GIVEN + lease.TAKE_AT_BIRTH + (Set(run.started_at, NOW), Put(run.attempts, 1)),
            identity=(run.facts_digest,),
        ),
    ),
    transitions=(
        Transition(
            "claim",
            (*WAITING, *CLAIMED),
            STARTING,
            when=lease.FREE + NOT_CANCELLING + ATTEMPTS_LEFT,
            assign=lease.TAKE + (Add(run.attempts), *BEGIN),
        ),
        Transition(
            "claim_for_control", WAITING, None, when=lease.FREE, assign=lease.TAKE_FOR_CONTROL
        ),
        Transition("release_control", WAITING, None, when=lease.HELD, assign=lease.DROP),
        Transition("mark_running", (STARTING,), RUNNING, when=lease.HELD_LIVE),
        Transition("renew", OPEN, None, when=lease.HELD_LIVE, assign=lease.EXTEND, quiet=True),
        Transition(
            "park",
            CLAIMED,
            PARKED,
            when=lease.HELD + NOT_CANCELLING,
            assign=(
                *lease.DROP,
                Set(run.waiting, WAITS),
                SetOr(run.available_at, AVAILABLE_AT, NOW),
                *PARKED_AFRESH,
            ),
        ),
        Transition(
            "wake",
            (PARKED,),
            None,
            when=lease.FREE + (Guard("waiting", Equal(run.waiting, True)),) + NOT_CANCELLING,
            assign=(*NOT_WAITING, Set(run.available_at, NOW)),
        ),
        Transition(
            "park_source_changed",
            OPEN,
            PARKED,
            when=lease.HELD_LIVE + NOT_CANCELLING,
            assign=(
                *lease.DROP,
                *NOT_WAITING,
                *PARKED_AFRESH,
                Put(run.error_code, SOURCE_CHANGED),
                Set(run.error_message, ERROR_MESSAGE),
                Set(run.status_detail, STATUS_DETAIL),
                Set(run.available_at, NOW),
            ),
        ),
        Transition(
            "park_effect_ambiguous",
            (*CLAIMED, PARKED),
            PARKED,
            when=lease.HELD_LIVE + NOT_CANCELLING,
            assign=(
                *lease.DROP,
                Put(run.waiting, True),
                *PARKED_AFRESH,
                Put(run.error_code, EFFECT_AMBIGUOUS),
                Set(run.error_message, ERROR_MESSAGE),
            ),
        ),
        Transition(
            "rebind",
            (PARKED, STARTING),
            STARTING,
            when=lease.FREE + NOT_CANCELLING + EXPECTED_SOURCE,
            assign=REBOUND + lease.TAKE + (Add(run.attempts), *BEGIN),
        ),
        Transition(
            "rebind_held",
            (PARKED, STARTING),
            STARTING,
            when=lease.HELD_LIVE + NOT_CANCELLING + EXPECTED_SOURCE,
            assign=REBOUND + lease.HAND_ON + BEGIN,
        ),
        Transition(
            "requeue",
            (STARTING,),
            QUEUED,
            when=lease.FREE + NOT_CANCELLING + ATTEMPTS_LEFT,
            assign=lease.DROP_AND_FENCE,
        ),
        Transition(
            "finish",
            CLAIMED,
            DONE,
            when=lease.HELD,
            assign=lease.DROP + (Set(run.outcome, FINISH_OUTCOME), *RESULT, *ENDED),
        ),
        Transition("fail", CLAIMED, FAILED, when=lease.HELD, assign=lease.DROP + HOW_FAILED),
        Transition(
            "reject",
            (*WAITING, *CLAIMED),
            FAILED,
            when=lease.FREE,
            assign=lease.DROP_AND_FENCE + HOW_FAILED + NOT_WAITING,
        ),
        Transition(
            "abort",
            (*CLAIMED, PARKED),
            CANCELLED,
            when=lease.HELD,
            assign=lease.DROP + CALLED_OFF,
        ),
        Transition(
            "cancel", (QUEUED, STARTING), CANCELLED, assign=lease.DROP_AND_FENCE + CALLED_OFF
        ),
        Transition(
            "cancel_stale",
            (RUNNING, PARKED),
            CANCELLED,
            when=lease.FREE,
            assign=lease.DROP_AND_FENCE + CALLED_OFF,
        ),
        Transition(
            "request_cancel",
            (RUNNING, PARKED),
            None,
            when=lease.LIVE + NOT_CANCELLING,
            assign=(Set(run.cancel_requested_at, NOW),),
        ),
        Transition(
            "reap",
            CLAIMED,
            FAILED,
            when=(
                *lease.FREE,
                Guard("attempts used up", AtMost(run.max_attempts, run.attempts)),
                *NOT_CANCELLING,
            ),
            assign=(
                *lease.DROP_AND_FENCE,
                Put(run.outcome, RunOutcome.FAILED),
                Put(run.error_code, LOST),
                Set(run.error_message, ERROR_MESSAGE),
                *ENDED,
                *NOT_WAITING,
            ),
        ),
        Transition(
            "reap_cancelled",
            (RUNNING, PARKED),
            CANCELLED,
            when=(
                *lease.FREE,
                Guard("cancellation requested", NotNull(run.cancel_requested_at)),
            ),
            assign=lease.DROP_AND_FENCE + CALLED_OFF,
        ),
        Transition(
            "pause",
            OPEN,
            None,
            when=(Guard("not paused", Equal(run.paused, False)),),
            assign=(Put(run.paused, True),),
        ),
        Transition(
            "resume",
            OPEN,
            None,
            when=(Guard("paused", Equal(run.paused, True)),),
            assign=(Put(run.paused, False),),
        ),
        Transition(
            "adopt",
            OPEN,
            None,
            when=(Guard("no session", IsNull(run.origin_session_id)),),
            assign=(
                Set(run.origin_session_id, SESSION),
                Put(run.execution_mode, ExecutionMode.INTERACTIVE),
            ),
        ),
    ),
    uniqueness=(
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
    ),
    invariants=(
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
    ),
    selections=(
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
    ),
    immutable=(
        run.run_id,
        run.project,
        run.facts_digest,
        run.parent_run_id,
        run.max_attempts,
        run.affinity_runner_id,
        run.affinity_until,
        run.created_at,
    ),
    write_once=(run.origin_session_id, run.cancel_requested_at, run.started_at),
    clear_only=(run.input, run.launch_options),
    only_by=(
        OnlyBy(
            (run.workflow, run.source_ref, run.source, run.definition_digest),
            ("rebind", "rebind_held"),
        ),
        OnlyBy((run.execution_mode,), ("adopt",)),
    ),
    listed_by=(run.created_at, run.run_id),
    recorded=(
        run.workflow,
        run.source_ref,
        run.definition_digest,
        run.waiting,
        run.outcome,
        run.paused,
        run.execution_mode,
        run.origin_session_id,
        run.available_at,
        run.attempts,
        run.cancel_requested_at,
        run.error_code,
        run.error_message,
        run.lease_holder,
        run.finished_at,
    ),
    private=(run.input, run.launch_options, run.lease_token_hash),
    lease=lease.COLUMNS,
)
