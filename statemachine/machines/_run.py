"""The record of a run, and the parameters of its calls."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated

import attrs

from statemachine.kinds import Boolean, Choice, Instant, Integer, Json, JsonValue, Prose, Text
from statemachine.machines import _lease as lease
from statemachine.vocabulary import Param


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
LOST = "lost"

RUN_ID = Text(max_chars=200, pattern="[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
RunId = Annotated[str, RUN_ID]
Digest = Annotated[str, Text(pattern="[0-9a-f]{64}")]
SmallJson = Annotated[JsonValue, Json(65_536)]
LargeJson = Annotated[JsonValue, Json(1_048_576)]
ErrorMessage = Annotated[str, Prose(max_bytes=2_048)]


@attrs.frozen(kw_only=True)
class Run(lease.Leased):
    """One workflow run, as stored.

    All instants are aware, in UTC. `input` and `launch_options` are private: never in `repr`,
    history or logs.

    Attributes:
        run_id: The key.

        project: Scope of `claim_next` and of lists.

        workflow, source_ref: Its name; the reference that finds it again.

        source, definition_digest: Identity of its source; digest of what it consists of.

        input: JSON; null once the run is final.

        launch_options: JSON; `{}` once the run is final.

        facts_digest: SHA-256 of what the creation was given, in hexadecimal; a repetition has the
            same.

        status: Where it stands.

        waiting: Parked until somebody answers or wakes it.

        outcome: How it ended; None until then.

        result: JSON that its end was given.

        paused: `claim_next` passes it over.

        status_detail: More about where it stands; cut at 8,192 characters.

        execution_mode: An interactive run belongs to its session, a headless one to any host.

        origin_session_id: The session that wanted it.

        affinity_runner_id, affinity_until: Who is served it first, and until when nobody else.

        parent_run_id: The checkpointed run that it continues.

        available_at: `claim_next` does not take it before.

        attempts, max_attempts: Claims since it was created or last parked, and how many there may
            be; None: unlimited.

        cancel_requested_at: When somebody asked its holder to end it.

        error_code, error_message: What went wrong: a key, and at most 2,048 bytes.

        created_at, started_at, finished_at: Its creation, its first claim, its end.

        revision: Grows by one with each step, from 1.

        last_transition, last_actor_kind, last_actor, last_call, updated_at: The latest step, who
            made it, under which id, and when.
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

KEY = Text()
PROJECT = Param("project", KEY)
SESSION = Param("session_id", KEY)
ERROR_CODE = Param("error_code", KEY)
ERROR_MESSAGE = Param("error_message", Prose(max_bytes=2_048))
FINISH_OUTCOME = Param("outcome", Choice(RunOutcome, tuple(RunOutcome)[:-1]))
FAIL_OUTCOME = Param("outcome", Choice(RunOutcome, (RunOutcome.FAILED, RunOutcome.TIMED_OUT)))
WAITS = Param("waiting", Boolean())
AVAILABLE_AT = Param("available_at", Instant(), optional=True)
STATUS_DETAIL = Param("status_detail", Prose(cut_chars=8_192), optional=True)
