"""Where our answer to a run-queue step differs on purpose; each case is a row of DEVIATIONS.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from attrs import frozen

from statemachine.kinds import EPOCH
from statemachine.machines import ExecutionMode, Run, RunStatus
from tests.conformance.answers import Difference
from tests.conformance.bounds import refused_by_us
from tests.conformance.run_choice import BEGUN, blocks, choice
from tests.conformance.terms import milliseconds, token_hash
from tests.conformance.traces import Step

FINAL = (RunStatus.DONE, RunStatus.FAILED, RunStatus.CANCELLED)
CANCELLED = {"status": "cancelled", "runner_id": None, "claim_token": None, "input_json": "null"}
FAILED = {"status": "failed", "runner_id": None, "claim_token": None, "input_json": "null"}


@frozen
class Moment:
    """A step, and the runs before it.

    Attributes:
        step: What is about to be done.

        now: When, in milliseconds since the Unix epoch.

        runs: Our runs.

        created: What each run was created from.

        turned_back: Whether the trace's clock ever stepped back.
    """

    step: Step
    now: int
    runs: Mapping[str, Run]
    created: Mapping[str, Mapping[str, Any]]
    turned_back: bool

    @property
    def run(self) -> Run | None:
        """The addressed run."""
        key = self.step.args.get("run_id")
        return self.runs.get(key) if isinstance(key, str) else None

    @property
    def own(self) -> bool:
        """Whether the row carries the presented token."""
        text = self.step.args.get("claim_token")
        run = self.run
        return bool(run and isinstance(text, str) and run.lease_token_hash == token_hash(text))

    @property
    def live(self) -> bool:
        """Whether the row's lease is live."""
        expiry = self.run and milliseconds(self.run.lease_expires_at)
        return bool(expiry and expiry > self.now)


def difference(moment: Moment) -> Difference | None:
    """Tell which difference a step falls under, if any."""
    step = moment.step
    if step.verdict == "invalid_argument":
        return None
    outside = refused_by_us(step.args)
    if outside is not None:
        return Difference(outside, "invalid_argument")
    match step.op:
        case "reserve" | "enqueue":
            return _creating(moment)
        case "claim_next":
            return _choosing(moment)
        case "rebind_legacy" | "rebind_canonical":
            return _rebinding(moment)
        case _:
            return _moving(moment)


def _moving(moment: Moment) -> Difference | None:
    run, args = moment.run, moment.step.args
    if run is None:
        return None
    status, own, live = run.status, moment.own, moment.live
    fenced = "claim_token" in args
    match moment.step.op:
        case "mark_running" if status is RunStatus.STARTING and own and not live:
            return Difference("D1", "no")
        case "claim" if status is RunStatus.RUNNING and not live:
            return Difference("D2", "yes", {"status": "starting", "runner_id": args["runner_id"]})
        case "cancel" if status is RunStatus.RUNNING and (own if fenced else not live):
            return Difference("D3", "yes", CANCELLED)
        case "cancel" if status is RunStatus.PARKED and not fenced:
            return Difference("D3", "yes", CANCELLED)
        case "cancel" if status is RunStatus.RUNNING and not fenced:
            return Difference("D3", "requested", {"status": "running"})
        case "fail" if not fenced and status in BEGUN and live:
            return Difference("D4", "no")
        case "fail" if not fenced and status is RunStatus.PARKED:
            return Difference("D28", "yes", {**FAILED, "error_code": args["error_code"]})
        case "delete" if own:
            return Difference("D11", "yes", {**FAILED, "error_code": "neverStarted"})
        case "set_origin_session" if status in FINAL and run.origin_session_id is None:
            return Difference("D13", "no")
        case "renew" if own and live:
            return _shortening(moment, run)
        case _:
            return None


def _shortening(moment: Moment, run: Run) -> Difference | None:
    """A lease that is held never ends earlier than it would have."""
    expiry = milliseconds(run.lease_expires_at) or 0
    if moment.now + int(moment.step.args["lease_ms"]) >= expiry:
        return None
    return Difference("D20", "yes", {"claim_expires_at": expiry})


def _creating(moment: Moment) -> Difference | None:
    args, run = moment.step.args, moment.run
    if run is None:
        if moment.step.error is not None and not in_the_way(
            facts(moment.step), moment.runs.values()
        ):
            return Difference("D5", "yes", {"parent_run_id": args["parent_run_id"]})
        return None
    if moment.created[run.run_id] != facts(moment.step):
        return Difference("D7", "identity_conflict")
    same_claim = moment.step.op == "reserve" or moment.own
    return Difference("D7", "yes" if same_claim else "exists")


def facts(step: Step) -> Mapping[str, Any]:
    """Return what a creation is given, as ours understands it."""
    args = step.args
    ref = args["workflow_source_ref"]
    return {
        "workflow": args["workflow_name"],
        "source_ref": ref,
        "source": args.get("workflow_source", {"ref": ref}),
        "definition_digest": args.get("definition_digest", "unavailable"),
        "input": args.get("input"),
        "launch_options": args.get("launch_options", {}),
        "origin_session_id": args.get("origin_session_id"),
        "affinity_runner_id": args.get("affinity_runner_id", args["runner_id"]),
        "parent_run_id": args.get("parent_run_id"),
    }


def in_the_way(given: Mapping[str, Any], runs: Collection[Run]) -> bool:
    """Tell whether a run stands in the way of a new one: its session's, or its parent's other."""
    session, parent = given["origin_session_id"], given["parent_run_id"]
    return any(
        (
            session is not None
            and run.execution_mode is ExecutionMode.INTERACTIVE
            and run.origin_session_id == session
            and run.status in (RunStatus.QUEUED, *BEGUN)
        )
        or (
            parent is not None
            and run.parent_run_id == parent
            and run.status not in (RunStatus.FAILED, RunStatus.CANCELLED)
        )
        for run in runs
    )


def expected_choice(moment: Moment) -> str | None:
    """Return the id of the run that `claim_next` must take."""
    args = moment.step.args
    return choice(
        moment.runs.values(),
        EPOCH + timedelta(milliseconds=moment.now),
        runner=args["runner_id"],
        session=args.get("session_id"),
        exclude=args.get("exclude_run_ids", ()),
    )


def _choosing(moment: Moment) -> Difference | None:
    ours = expected_choice(moment)
    recorded = moment.step.returned and moment.step.returned["run_id"]
    if moment.step.error is None and recorded == ours:
        return None
    return Difference(
        _why_another(moment, recorded, ours),
        "no" if ours is None else "yes",
        {} if ours is None else {"run_id": ours, "status": "starting"},
    )


def _why_another(moment: Moment, recorded: str | None, ours: str | None) -> str:
    if moment.step.error is not None:
        return "D6"
    theirs = None if recorded is None else moment.runs[recorded]
    if theirs and moment.step.args.get("session_id") and theirs.origin_session_id is None:
        return "D8"
    if moment.turned_back and theirs and (milliseconds(theirs.available_at) or 0) > moment.now:
        return "D20"
    if theirs and any(blocks(other, theirs) for other in moment.runs.values()):
        return "D6"
    return "D9" if theirs and ours else f"not in the table: {recorded} recorded, {ours} ours"


def _rebinding(moment: Moment) -> Difference | None:
    run, args = moment.run, moment.step.args
    if run is None or moment.step.verdict != "yes":
        return None
    expected = args.get("old_source_ref", run.source_ref)
    if moment.step.op == "rebind_legacy" and run.source_ref == args["workflow_source_ref"]:
        if run.status is RunStatus.PARKED:
            return Difference("D24", "unchanged")
        if run.source_ref != expected:
            return Difference("D24", "no")
    held = run.status is RunStatus.STARTING and moment.own and moment.live
    return _shortening(moment, run) if held else None
