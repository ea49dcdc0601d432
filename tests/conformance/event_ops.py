"""The recorded event operations as calls of `append_event` and `events_after`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from persistence import Store
from statemachine.kinds import canonical_json
from statemachine.outcome import Actor, HostEvent, Refused
from tests.conformance.answers import Answer, Difference, Row, refused
from tests.conformance.bounds import refused_by_us
from tests.conformance.traces import Step

PATIENCE = 120  # seconds: any write transaction on the server delays PostgreSQL's feed


class EventOps:
    """Makes the calls; keeps the cursor that stands behind each recorded event.

    Events are no rows that can be changed: they are compared where they are listed.
    """

    kind = "host events"
    rests_on = ("runs",)

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cursor: str | None = None
        self._cursors: dict[str, str] = {}
        self._last: str | None = None
        self._recorded: list[tuple[Mapping[str, Any], str | None]] = []
        self.ops: Mapping[str, Callable[[Mapping[str, Any]], Answer]] = {
            "event_append": self._append,
            "event_list_after": self._after,
        }

    def keys(self, step: Step) -> tuple[str, ...]:  # noqa: ARG002 - the protocol's
        """Events have no key."""
        return ()

    def difference(self, step: Step) -> Difference | None:
        """Tell which deliberate difference a step falls under."""
        if step.verdict == "invalid_argument":
            return None
        # Our events name no workflow: they are the run's.
        outside = refused_by_us({n: v for n, v in step.args.items() if n != "workflow_ref"})
        if outside is not None:
            return Difference(outside, "invalid_argument")
        if step.op == "event_append" and self._store.runs.get(step.args["run_id"]) is None:
            return Difference("D26", "no")
        return None

    def returned(self, step: Step, rows: Mapping[str, Row]) -> Any:  # noqa: ARG002 - the protocol's
        """Return the events that a list must show: those that we took, too."""
        if step.op == "event_append":
            return None
        seq, limit = step.args["seq"], step.args.get("limit", 50)
        kept = [row for row, call in self._recorded if call and row["seq"] > seq]
        return [
            {name: value for name, value in row.items() if name not in ("seq", "workflow_ref")}
            for row in kept[:limit]
        ]

    def row(self, step: Step, before: Row | None, recorded: Row) -> tuple[Row, tuple[str, ...]]:
        """Events do not change."""
        raise NotImplementedError

    def settle(self, step: Step, answer: Answer) -> None:
        """Keep which event of ours stands for a recorded one."""
        for row in step.delta.get("events", ()):
            self._recorded.append((row, self._last if answer.verdict == "yes" else None))

    def refresh(self, key: str) -> Row | None:
        """Events have no key."""
        raise NotImplementedError

    def everything(self) -> Mapping[str, Row]:
        """Events are compared where they are listed."""
        return {}

    def _append(self, args: Mapping[str, Any]) -> Answer:
        runner = args.get("runner_id")
        event = self._store.runs.append_event(
            args["run_id"],
            type=args["type"],
            payload=args.get("payload"),
            actor=None if runner is None else Actor("host", runner),
        )
        if isinstance(event, Refused):
            return refused(event)
        self._last = event.call
        return Answer("yes")

    def _after(self, args: Mapping[str, Any]) -> Answer:
        self._follow()
        limit = args.get("limit", 50)
        found: list[HostEvent] = []
        page = self._store.events_after(self._place(args["seq"]), limit)
        while page.events:
            found += [event for event in page.events if isinstance(event, HostEvent)]
            page = self._store.events_after(page.cursor)
        return Answer("yes", list(map(_as_recorded, found[:limit])))

    def _place(self, seq: Any) -> str | None:
        if not isinstance(seq, int) or seq < 0:
            return f"seq {seq}"
        passed = [call for row, call in self._recorded if call and row["seq"] <= seq]
        return self._cursors[passed[-1]] if passed else None

    def _follow(self) -> None:
        """Read the feed until it shows all that was appended, entry by entry for their cursors."""
        awaited = {call for _, call in self._recorded if call} - self._cursors.keys()
        deadline = time.monotonic() + PATIENCE
        while awaited:
            page = self._store.events_after(self._cursor, 1)
            for event in page.events:
                self._cursor = self._cursors[event.call] = page.cursor
                awaited.discard(event.call)
            if not page.events:
                assert time.monotonic() < deadline, f"the feed does not show {awaited}"
                self._store.wait_for_change(timedelta(milliseconds=100))


def _as_recorded(event: HostEvent) -> dict[str, Any]:
    by_runner = event.actor.kind == "host"
    return {
        "recorded_at": event.at,
        "run_id": event.key,
        "type": event.type,
        "runner_id": event.actor.name if by_runner else None,
        "payload_json": canonical_json(event.payload, "payload", 65_536),
    }
