"""A run of ours in the recorded shape."""

from __future__ import annotations

from typing import Any

from statemachine.kinds import canonical_json
from statemachine.machines import Run
from tests.conformance.terms import milliseconds


def _json(value: object) -> str:
    return canonical_json(value, "value", 2**31)


def ours(run: Run) -> dict[str, Any]:
    """Return a run in the recorded shape, its token as the hash."""
    return {
        "run_id": run.run_id,
        "workflow_name": run.workflow,
        "workflow_source_ref": run.source_ref,
        "workflow_source_json": _json(run.source),
        "definition_digest": run.definition_digest,
        "input_json": _json(run.input),
        "launch_options_json": _json(run.launch_options),
        "status": str(run.status),
        "runner_id": run.lease_holder,
        "claim_token": run.lease_token_hash,
        "claim_expires_at": milliseconds(run.lease_expires_at),
        "affinity_runner_id": run.affinity_runner_id,
        "origin_session_id": run.origin_session_id,
        "parent_run_id": run.parent_run_id,
        "error_code": run.error_code,
        "error_message": run.error_message,
        "created_at": milliseconds(run.created_at),
        "updated_at": milliseconds(run.updated_at),
        "started_at": milliseconds(run.started_at),
        "finished_at": milliseconds(run.finished_at),
    }


def as_record(run: Run) -> dict[str, Any]:
    """Return a run as the recorded calls answer it: its JSON parsed."""
    row = ours(run)
    for stored, name, value in (
        ("workflow_source_json", "workflow_source", run.source),
        ("input_json", "input", run.input),
        ("launch_options_json", "launch_options", run.launch_options),
    ):
        del row[stored]
        row[name] = value
    return row
