"""The recorded run-queue operations as calls of `store.runs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from persistence import Cancelled, CancelRequested, Claim, Store, Unchanged
from statemachine.kinds import EPOCH
from statemachine.machines import ExecutionMode, HolderKind, Run, RunStatus
from statemachine.outcome import Refused
from tests.conformance.answers import Answer, of, refused
from tests.conformance.run_rows import as_record
from tests.conformance.terms import lease, token

Args = Mapping[str, Any]

NOT_GIVEN = object()
NEVER_STARTED = "neverStarted"
NO_RUN = Run(
    run_id="none",
    workflow="none",
    source_ref="none",
    source={},
    definition_digest="unavailable",
    input=None,
    launch_options={},
    facts_digest="0" * 64,
    status=RunStatus.QUEUED,
    execution_mode=ExecutionMode.HEADLESS,
    available_at=EPOCH,
    created_at=EPOCH,
    revision=1,
    last_transition="reserve",
    last_actor_kind="test",
    last_actor="none",
    last_call="none",
    updated_at=EPOCH,
)


class RunCalls:
    """Makes the calls, and remembers the claims that they answered.

    Attributes:
        rows: Our runs, as they were last read.
    """

    def __init__(self, store: Store) -> None:
        self._runs = store.runs
        self._claims: dict[tuple[str, str], Claim] = {}
        self.rows: dict[str, Run] = {}
        self.ops: Mapping[str, Callable[[Args], Answer]] = {
            "reserve": self._reserve,
            "enqueue": self._enqueue,
            "get": self._get,
            "list": self._list,
            "find_session_reservation": self._find,
            "claim": self._claim,
            "claim_next": self._claim_next,
            "mark_running": lambda args: of(self._runs.mark_running(self._held(args))),
            "park": lambda args: of(self._runs.park(self._held(args))),
            "finish": lambda args: of(self._runs.finish(self._held(args))),
            "verify": lambda args: of(self._runs.verify(self._held(args))),
            "delete": self._delete,
            "renew": self._renew,
            "fail": self._fail,
            "cancel": self._cancel,
            "rebind_canonical": self._rebind,
            "rebind_legacy": self._rebind,
            "set_origin_session": self._adopt,
        }

    def _reserve(self, args: Args) -> Answer:
        run = self._runs.reserve(
            run_id=args["run_id"],
            workflow=args["workflow_name"],
            source_ref=args["workflow_source_ref"],
            source=args.get("workflow_source", NOT_GIVEN),
            definition_digest=args["definition_digest"],
            input=args.get("input"),
            execution_mode=ExecutionMode.INTERACTIVE,
            origin_session_id=args["origin_session_id"],
            affinity_runner_id=args["runner_id"],
            **_given(args, "launch_options", "parent_run_id"),
        )
        return Answer("yes", as_record(run), (run.run_id,))

    def _enqueue(self, args: Args) -> Answer:
        named = _given(
            args, "launch_options", "definition_digest", "parent_run_id", "origin_session_id"
        )
        if "workflow_source" in args:
            named["source"] = args["workflow_source"]
        return self._took(
            args,
            self._runs.enqueue(
                run_id=args["run_id"],
                workflow=args["workflow_name"],
                source_ref=args["workflow_source_ref"],
                input=args.get("input"),
                runner_id=args["runner_id"],
                affinity_runner_id=args.get("affinity_runner_id", args["runner_id"]),
                token=token(args["claim_token"]),
                lease=lease(args["lease_ms"]),
                **named,
            ),
        )

    def _get(self, args: Args) -> Answer:
        run = self._runs.get(args["run_id"])
        return of(run, run and as_record(run))

    def _list(self, args: Args) -> Answer:
        statuses = (args["status"],) if "status" in args else ()
        found = self._runs.list(statuses=statuses, limit=1_000)
        return Answer("yes", {"ids": [run.run_id for run in found]})

    def _find(self, args: Args) -> Answer:
        run = self._runs.find_reservation(args["session_id"])
        return of(run, run and as_record(run))

    def _claim(self, args: Args) -> Answer:
        row = self.rows.get(args["run_id"], NO_RUN)
        return self._took(
            args,
            self._runs.claim(
                args["run_id"],
                runner_id=args["runner_id"],
                lease=lease(args["lease_ms"]),
                holder_kind=_holder_kind(row),
                token=token(args["claim_token"]),
            ),
        )

    def _claim_next(self, args: Args) -> Answer:
        return self._took(
            args,
            self._runs.claim_next(
                args["runner_id"],
                lease(args["lease_ms"]),
                token=token(args["claim_token"]),
                exclude=args.get("exclude_run_ids", ()),
                **_given(args, "session_id"),
            ),
        )

    def _renew(self, args: Args) -> Answer:
        renewed = self._took(
            args, self._runs.renew(self._held(args), lease=lease(args["lease_ms"]))
        )
        return evolve(renewed, value=None)

    def _fail(self, args: Args) -> Answer:
        error: dict[str, Any] = {
            "error_code": args["error_code"],
            "error_message": args["error_message"],
        }
        if "claim_token" in args:
            return of(self._runs.fail(self._held(args), **error))
        return of(self._runs.reject(args["run_id"], **error))

    def _delete(self, args: Args) -> Answer:
        claim = self._held(args)
        error: dict[str, Any] = {
            "error_code": NEVER_STARTED,
            "error_message": "nothing of it exists",
        }
        return of(self._runs.fail(claim, **error))

    def _cancel(self, args: Args) -> Answer:
        if "claim_token" in args:
            return of(self._runs.abort(self._held(args)))
        outcome = self._runs.cancel(args["run_id"])
        if isinstance(outcome, Cancelled):
            return Answer("yes")
        return Answer("requested" if isinstance(outcome, CancelRequested) else "no")

    def _rebind(self, args: Args) -> Answer:
        row = self.rows.get(args["run_id"], NO_RUN)
        given = {
            "workflow": args["workflow_name"],
            "source_ref": args["workflow_source_ref"],
            "source": row.source,
            "definition_digest": row.definition_digest,
            "expected_source_ref": args.get("old_source_ref", row.source_ref),
            "runner_id": args["runner_id"],
            "lease": lease(args["lease_ms"]),
            "holder_kind": _holder_kind(row),
        }
        claim = self._claims.get((args["run_id"], str(args["claim_token"])))
        if claim is not None and row.status is RunStatus.STARTING and self._runs.verify(claim):
            return evolve(self._took(args, self._runs.rebind_held(claim, **given)), value=None)
        outcome = self._runs.rebind(args["run_id"], token=token(args["claim_token"]), **given)
        if isinstance(outcome, Unchanged):
            return Answer("unchanged")
        return evolve(self._took(args, outcome), value=None)

    def _adopt(self, args: Args) -> Answer:
        return of(self._runs.adopt(args["run_id"], session_id=args["origin_session_id"]))

    def _took(self, args: Args, outcome: Claim | Refused) -> Answer:
        if isinstance(outcome, Refused):
            return refused(outcome)
        self._claims[outcome.run_id, args["claim_token"]] = outcome
        return Answer("yes", as_record(outcome.run), (outcome.run_id,))

    def _held(self, args: Args) -> Claim:
        """Return the claim last given for the token, else one of the row's present generation."""
        run_id, text = args["run_id"], args.get("claim_token")
        claim = self._claims.get((run_id, str(text)))
        row = self.rows.get(run_id, NO_RUN)
        return claim or Claim(evolve(row, run_id=run_id), token(text))


def _holder_kind(run: Run) -> HolderKind:
    interactive = run.execution_mode is ExecutionMode.INTERACTIVE
    return HolderKind.SESSION if interactive else HolderKind.HOST


def _given(args: Args, *names: str) -> dict[str, Any]:
    return {name: args[name] for name in names if name in args}
