"""The hand-written twin: the same guarded statements, straight on the driver.

It works on the same tables, under the same triggers, and leaves the same rows. It binds what it
knows by heart, validates nothing, decodes nothing, and answers with the driver's tuples.
"""

from __future__ import annotations

import itertools
import json
import secrets
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, field

from persistence.batching import update_many
from persistence.binds import (
    ACTOR_BIND,
    ACTOR_KIND_BIND,
    CALL_BIND,
    EXCLUDE_BIND,
    KEY_BIND,
    LIMIT_BIND,
    NOW_BIND,
)
from persistence.cli.bench.contenders import LEASE, MAX_ATTEMPTS, RUNNER, moved
from persistence.cli.bench.lines import line_to
from persistence.clock import SystemClock, milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from persistence.cli.bench.lines import Line
    from persistence.cli.bench.places import Place
    from persistence.compile import Program

Held: TypeAlias = tuple[str, str, int]
"""Key, hash of the token, generation."""

_CLOCK = SystemClock()
_LEASE_MS = LEASE // LEASE.resolution // 1000
_BY = {ACTOR_BIND: RUNNER, ACTOR_KIND_BIND: "host"}
_FACTS: Mapping[str, object] = {
    "project": "default",
    "workflow": RUNNER,
    "source_ref": "bench",
    "source": "{}",
    "definition_digest": "sha256:0",
    "input": "null",
    "launch_options": "{}",
    "execution_mode": "headless",
    "origin_session_id": None,
    "affinity_runner_id": None,
    "affinity_until": None,
    "parent_run_id": None,
    "available_at": None,
    "max_attempts": MAX_ATTEMPTS,
}
_sorted_json = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_TAKE: Mapping[str, object] = {
    **_BY,
    "holder": RUNNER,
    "holder_kind": "host",
    "lease": _LEASE_MS,
    "project": "default",
    "session_id": None,
}
_END = {"outcome": "completed", "result": '{"ok":true}'}
_REJECT = {
    "error_code": "rejected",
    "error_message": "kept",
    "outcome": "failed",
    "result": "null",
}


def _calls() -> Iterator[str]:
    prefix = secrets.token_hex(12)
    return (f"{prefix}-{number:x}" for number in itertools.count())


@define(eq=False)
class Twin:
    """A queue by hand."""

    line: Line
    program: Program
    _next: str = field(init=False)
    _key: int = field(init=False)
    _generation: int = field(init=False)
    _nobody: object = field(init=False)
    _ids: Iterator[str] = field(factory=_calls, init=False)

    def __attrs_post_init__(self) -> None:
        self._next = self.program.next["claim_next_host"].sql
        self._nobody = self.program.dialect.as_list(())
        self._key = self.program.names.index("run_id")
        self._generation = self.program.names.index("lease_generation")

    @classmethod
    def at(cls, place: Place, program: Program) -> Twin:
        """Connect one to a place that has its layout."""
        return cls(line_to(place), program)

    def reserve(self, run_id: str) -> None:
        """Queue a run."""
        moved(self.line.run(self.program.insert["reserve"].sql, self._row(run_id)))

    def take(self) -> Held | None:
        """Take the next run."""
        bound = self._taking(None)
        rows = self.line.run(self._next, bound)
        return (
            (rows[0][self._key], str(bound["token"]), rows[0][self._generation]) if rows else None
        )

    def start(self, held: Held) -> None:
        """Mark it as running."""
        moved(self.line.run(self.program.update["mark_running"].sql, self._holding(held)))

    def end(self, held: Held) -> None:
        """Finish it."""
        moved(self.line.run(self.program.update["finish"].sql, self._holding(held) | _END))

    def renew(self, held: Held) -> None:
        """Extend its lease."""
        bound = self._holding(held)
        bound["lease"] = _LEASE_MS
        moved(self.line.run(self.program.update["renew"].sql, bound))

    def take_many(self, limit: int) -> Sequence[Held]:
        """Take a batch: choose by arm, then update; with a token each."""
        with self.line.whole():
            given = [self._taking(key) for key in self._chosen(limit)]
            rows = self._each("claim", given)
        return [
            (row[self._key], str(bound["token"]), row[self._generation])
            for row, bound in zip(rows, given, strict=True)
        ]

    def end_many(self, held: Sequence[Held]) -> None:
        """Finish a batch."""
        with self.line.whole():
            self._each("finish", [self._holding(one) | _END for one in held])

    def fill(self, run_ids: Sequence[str], *, final: bool = False) -> None:
        """Queue many runs in one transaction; or have them final, and kept."""
        self.line.run_each(
            self.program.insert["reserve"].sql, [self._row(run_id) for run_id in run_ids]
        )
        if final:
            calls = [
                _BY
                | _REJECT
                | {KEY_BIND: key, CALL_BIND: next(self._ids), NOW_BIND: milliseconds(_CLOCK)}
                for key in run_ids
            ]
            self.line.run_each(self.program.update["reject"].sql, calls)

    def close(self) -> None:
        """Close the connection."""
        self.line.close()

    def _row(self, run_id: str) -> dict[str, object]:
        facts = {**_FACTS, "run_id": run_id}
        return {
            **facts,
            **_BY,
            "facts_digest": sha256(_sorted_json(facts).encode()).hexdigest(),
            CALL_BIND: next(self._ids),
            NOW_BIND: milliseconds(_CLOCK),
        }

    def _taking(self, key: str | None) -> dict[str, object]:
        return {
            **_TAKE,
            KEY_BIND: key,
            "token": sha256(secrets.token_bytes(32)).hexdigest(),
            EXCLUDE_BIND: self._nobody,
            CALL_BIND: next(self._ids),
            NOW_BIND: milliseconds(_CLOCK),
        }

    def _holding(self, held: Held) -> dict[str, object]:
        return {
            KEY_BIND: held[0],
            "token": held[1],
            "generation": held[2],
            CALL_BIND: next(self._ids),
            ACTOR_BIND: RUNNER,
            ACTOR_KIND_BIND: "host",
            NOW_BIND: milliseconds(_CLOCK),
        }

    def _chosen(self, limit: int) -> list[str]:
        keys: list[str] = []
        for arm in range(len(self.program.machine.selection("claim_headless").arms)):
            if len(keys) < limit:
                bound = {
                    EXCLUDE_BIND: self.program.dialect.as_list(keys),
                    LIMIT_BIND: limit - len(keys),
                    NOW_BIND: milliseconds(_CLOCK),
                }
                rows = self.line.run(
                    self.program.choices("claim_headless", arm).sql, {**_TAKE, **bound}
                )
                keys += [row[0] for row in rows]
        return keys

    def _each(self, name: str, calls: Sequence[dict[str, object]]) -> list[Sequence[Any]]:
        """Run a transition for each: over arrays where the database has them."""
        if not calls:
            return []
        if not self.program.dialect.arrays:
            sql, now = self.program.update[name].sql, {NOW_BIND: milliseconds(_CLOCK)}
            rows = [self.line.run(sql, bound | now)[0] for bound in calls]
        else:
            lists = {bound: [call[bound] for call in calls] for bound in calls[0]}
            numbered = self.line.run(update_many(self.program, name).sql, lists)
            rows = [row[1:] for row in sorted(numbered, key=lambda row: row[0])]
        moved(len(rows) == len(calls))
        return rows
