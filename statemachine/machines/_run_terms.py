"""The guards and assignments of run launch, named."""

from __future__ import annotations

from statemachine.kinds import Choice, Instant, Integer, Json, Text
from statemachine.machines._run import (
    AVAILABLE_AT,
    EFFECT_AMBIGUOUS,
    ERROR_CODE,
    ERROR_MESSAGE,
    FAIL_OUTCOME,
    KEY,
    LOST,
    PROJECT,
    RUN_ID,
    SOURCE_CHANGED,
    STATUS_DETAIL,
    ExecutionMode,
    RunOutcome,
    run,
)
from statemachine.vocabulary import (
    NOW,
    Add,
    AtMost,
    Clear,
    Equal,
    Guard,
    IsNull,
    Less,
    NotNull,
    Or,
    Param,
    Put,
    Set,
    SetOnce,
    SetOr,
)

# Guards

NOT_CANCELLING = (Guard("no cancellation requested", IsNull(run.cancel_requested_at)),)
ATTEMPTS_LEFT = (
    Guard("attempts left", Or(IsNull(run.max_attempts), Less(run.attempts, run.max_attempts))),
)
ATTEMPTS_USED_UP = (Guard("attempts used up", AtMost(run.max_attempts, run.attempts)),)
CANCELLING = (Guard("cancellation requested", NotNull(run.cancel_requested_at)),)
IS_WAITING = (Guard("waiting", Equal(run.waiting, True)),)
NOT_PAUSED = (Guard("not paused", Equal(run.paused, False)),)
IS_PAUSED = (Guard("paused", Equal(run.paused, True)),)
NO_SESSION = (Guard("no session", IsNull(run.origin_session_id)),)
EXPECTED_SOURCE = (
    Guard("source as expected", Equal(run.source_ref, Param("expected_source_ref", KEY))),
)

# Assignments

COUNTED = (Add(run.attempts),)
FIRST = (SetOnce(run.started_at, NOW),)
NO_ERROR = (Clear(run.error_code), Clear(run.error_message), Clear(run.status_detail))
NOT_WAITING = (Put(run.waiting, False),)
BEGIN = (*FIRST, *NO_ERROR, *NOT_WAITING)
ERROR = (Set(run.error_code, ERROR_CODE), Set(run.error_message, ERROR_MESSAGE))
REBOUND = (
    Set(run.workflow, Param("workflow", KEY)),
    Set(run.source_ref, Param("source_ref", KEY)),
    Set(run.source, Param("source", Json(65_536))),
    Set(run.definition_digest, Param("definition_digest", KEY)),
)
AFRESH = (Put(run.attempts, 0),)
AVAILABLE_NOW = (Set(run.available_at, NOW),)
WHEN_AVAILABLE = SetOr(run.available_at, AVAILABLE_AT, NOW)
CLEARED = (Put(run.input, "null"), Put(run.launch_options, "{}"))
ENDED = (Set(run.finished_at, NOW), *CLEARED)
RESULT = (Set(run.result, Param("result", Json(1_048_576), optional=True)),)
HOW_FAILED = (Set(run.outcome, FAIL_OUTCOME), *ERROR, *RESULT, *ENDED)
SOURCE_CHANGED_ERROR = (
    Put(run.error_code, SOURCE_CHANGED),
    Set(run.error_message, ERROR_MESSAGE),
    Set(run.status_detail, STATUS_DETAIL),
)
EFFECT_AMBIGUOUS_ERROR = (
    Put(run.waiting, True),
    Put(run.error_code, EFFECT_AMBIGUOUS),
    Set(run.error_message, ERROR_MESSAGE),
)
GIVEN_UP = (
    Put(run.outcome, RunOutcome.FAILED),
    Put(run.error_code, LOST),
    Set(run.error_message, ERROR_MESSAGE),
    *ENDED,
)
CALLED_OFF = (Put(run.outcome, RunOutcome.CANCELLED), Put(run.error_code, "cancelled"), *ENDED)
GIVEN = (
    Set(run.run_id, Param("run_id", RUN_ID)),
    Set(run.project, PROJECT),
    Set(run.workflow, Param("workflow", KEY)),
    Set(run.source_ref, Param("source_ref", KEY)),
    Set(run.source, Param("source", Json(65_536))),
    Set(run.definition_digest, Param("definition_digest", KEY)),
    Set(run.input, Param("input", Json(1_048_576))),
    Set(run.launch_options, Param("launch_options", Json(65_536))),
    Set(run.facts_digest, Param("facts_digest", Text(pattern="[0-9a-f]{64}"))),
    Set(run.execution_mode, Param("execution_mode", Choice(ExecutionMode))),
    Set(run.origin_session_id, Param("origin_session_id", KEY, optional=True)),
    Set(run.affinity_runner_id, Param("affinity_runner_id", KEY, optional=True)),
    Set(run.affinity_until, Param("affinity_until", Instant(), optional=True)),
    Set(run.parent_run_id, Param("parent_run_id", RUN_ID, optional=True)),
    WHEN_AVAILABLE,
    Set(run.max_attempts, Param("max_attempts", Integer(minimum=1), optional=True)),
    Set(run.created_at, NOW),
)
