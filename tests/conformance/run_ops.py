"""Run-queue rows: what is expected of them after each step, from what was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from persistence import Store
from tests.conformance.answers import Answer, Difference, Row
from tests.conformance.run_calls import RunCalls
from tests.conformance.run_differences import Moment, difference, facts
from tests.conformance.run_rows import ours
from tests.conformance.terms import UNSTORABLE, Tokens
from tests.conformance.traces import Step


class RunOps(RunCalls):
    """The kind `runs`."""

    kind = "runs"
    rests_on = ()

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._tokens = Tokens()
        self._created: dict[str, Mapping[str, Any]] = {}
        self._latest = 0
        self._turned_back = False

    def keys(self, step: Step) -> tuple[str, ...]:
        """Name the run that a step addresses."""
        key = step.args.get("run_id")
        return (key,) if isinstance(key, str) and key in self.rows else ()

    def difference(self, step: Step) -> Difference | None:
        """Tell which deliberate difference a step falls under."""
        if not isinstance(step.now, int):
            return None
        backwards = self._turned_back or step.now < self._latest
        return difference(Moment(step, step.now, self.rows, self._created, backwards))

    def returned(self, step: Step, rows: Mapping[str, Row]) -> Any:
        """Return a recorded record or list as ours must be."""
        if isinstance(step.returned, dict) and "run_id" in step.returned:
            return self.row(step, rows.get(step.returned["run_id"]), step.returned)[0]
        return step.returned if isinstance(step.returned, dict) else None

    def row(self, step: Step, before: Row | None, recorded: Row) -> tuple[Row, tuple[str, ...]]:
        """Return a recorded row as ours must be, and the differences that it shows."""
        mine = {**recorded, "claim_token": self._tokens.hash(recorded["claim_token"])}
        shown = []
        message = recorded["error_message"]
        if isinstance(message, str) and UNSTORABLE.search(message):
            mine["error_message"] = UNSTORABLE.sub("\ufffd", message)
            shown.append("D18")
        if recorded["status"] == "cancelled":
            mine["error_code"] = "cancelled"
            shown.append("D27")
        if before is not None:
            mine["parent_run_id"] = before["parent_run_id"]
            adopted = step.op == "set_origin_session"
            written = step.now if adopted else recorded["updated_at"]
            mine["updated_at"] = max(written, before["updated_at"])
            if mine["parent_run_id"] != recorded["parent_run_id"]:
                shown.append("D5")
            if mine["updated_at"] != recorded["updated_at"]:
                shown.append("D23" if adopted else "D20")
        return mine, tuple(shown)

    def settle(self, step: Step, answer: Answer) -> None:
        """Keep what a run was created from, the presented token, and the time."""
        self._tokens.present(step.args.get("claim_token"))
        if step.op in ("reserve", "enqueue") and answer.verdict == "yes":
            self._created.setdefault(step.args["run_id"], facts(step))
        if isinstance(step.now, int):
            self._turned_back |= step.now < self._latest
            self._latest = max(self._latest, step.now)

    def refresh(self, key: str) -> Mapping[str, Any] | None:
        """Read a row again; return it in the recorded shape."""
        run = self._runs.get(key)
        if run is None:
            self.rows.pop(key, None)
            return None
        self.rows[key] = run
        return ours(run)

    def everything(self) -> Mapping[str, Mapping[str, Any]]:
        """Return all rows in the recorded shape."""
        return {run.run_id: ours(run) for run in self._runs.list(limit=1_000)}
