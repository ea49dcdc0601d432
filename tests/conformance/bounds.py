"""What our bounds say of a recorded argument, said once more and plainly."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from statemachine.machines import RunStatus
from tests.conformance.terms import has_surrogate, recorded_key

HUNDRED_YEARS = 36_525 * 86_400_000
KEYS = (
    "workflow_name", "workflow_source_ref", "old_source_ref", "runner_id", "session_id",
    "origin_session_id", "definition_digest", "affinity_runner_id", "error_code", "type",
    "intent_id", "source_event_id", "workflow_ref", "target_session_id", "node_id", "attempt_id",
    "message_id", "notification_id",
)  # fmt: skip
SIZES = {
    "workflow_source": 65_536,
    "launch_options": 65_536,
    "input": 1_048_576,
    "payload": 65_536,
    "fallback_facts": 65_536,
}


def refused_by_us(args: Mapping[str, Any]) -> str | None:
    """Name the deliberate difference under which an argument lies outside our bounds only."""
    found = [_refused(name, value) for name, value in args.items()]
    if "run_id" in args and args.get("parent_run_id") == args["run_id"]:
        found.append("D23")
    named = sorted(name for name in found if name)
    return named[0] if named else None


def _refused(name: str, value: Any) -> str | None:
    match name:
        case "lease_ms":
            return "D17" if isinstance(value, int) and value > HUNDRED_YEARS else None
        case "claim_token":
            if isinstance(value, str) and has_surrogate(value):
                return "D18"
            return None if recorded_key(value) else "D23"
        case "run_id" | "parent_run_id":
            return None if value is None or _run_id(value) else "D23"
        case "status":
            return None if value in tuple(RunStatus) else "D23"
        case "limit":
            whole = isinstance(value, int) and not isinstance(value, bool)
            return None if whole and 1 <= value <= 1_000 else "D23"
        case _ if name in SIZES:
            return _json(value, SIZES[name])
        case _ if name in KEYS and value is not None:
            return _key(value)
        case _:
            return None


def _run_id(value: Any) -> bool:
    return bool(isinstance(value, str) and re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,199}", value))


def _key(value: Any) -> str | None:
    if not recorded_key(value):
        return "D23"
    return "D18" if has_surrogate(value) or len(value.encode()) > 1_024 else None


def _json(value: Any, size: int) -> str | None:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        return None
    if has_surrogate(text) or r"\u0000" in text:
        return "D18"
    if any(abs(number) > 2**53 for number in _integers(value)):
        return "D22"
    return "D23" if len(text.encode()) > size else None


def _integers(value: Any) -> list[int]:
    match value:
        case dict():
            return [number for item in value.values() for number in _integers(item)]
        case list():
            return [number for item in value for number in _integers(item)]
        case _:
            return [value] if isinstance(value, int) else []
