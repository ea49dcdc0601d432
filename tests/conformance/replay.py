"""Replaying a recorded trace through the public API, comparing after each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from attrs import define, field

from persistence import Store
from statemachine.kinds import EPOCH
from tests.conformance.answers import Answer, Difference, Kind, Row, make
from tests.conformance.event_ops import EventOps
from tests.conformance.intent_ops import IntentOps
from tests.conformance.notification_ops import NotificationOps
from tests.conformance.run_ops import RunOps
from tests.conformance.traces import Step, Trace, same

KINDS: tuple[Callable[[Store], Kind], ...] = (RunOps, EventOps, IntentOps, NotificationOps)


class Diverged(AssertionError):
    """We answer otherwise than recorded, and no deliberate difference says so."""


@define
class TraceClock:
    """The trace's clock; a malformed recorded time is no instant."""

    at: int | str = 0

    def now(self) -> datetime:
        """Return the step's instant."""
        if isinstance(self.at, str):
            return self.at  # type: ignore[return-value]  # the store must refuse it
        return EPOCH + timedelta(milliseconds=self.at)


@define
class Tally:
    """What was compared.

    Attributes:
        steps: Steps of the traces.

        compared: Steps that were made and compared.

        unmapped: Steps of operations that have no counterpart here, by operation.

        behind: Steps that were not made, since rows of their kind had parted before.

        shown: Steps at which each deliberate difference was seen and checked.

        ended: Traces that each deliberate difference ended, as `kind difference`.
    """

    steps: int = 0
    compared: int = 0
    unmapped: Counter[str] = field(factory=Counter)
    behind: int = 0
    shown: Counter[str] = field(factory=Counter)
    ended: Counter[str] = field(factory=Counter)


class Replay:
    """One trace on an empty store."""

    def __init__(self, store: Store, clock: TraceClock, tally: Tally) -> None:
        self._clock = clock
        self._latest = 0
        self._tally = tally
        self._kinds = [make_kind(store) for make_kind in KINDS]
        self._parted: set[str] = set()
        self._expected: dict[str, dict[str, Row]] = {kind.kind: {} for kind in self._kinds}

    def run(self, trace: Trace) -> None:
        """Replay to the end; each kind of row until a deliberate difference parts its rows.

        Raises:
            Diverged: Names trace and step.
        """
        self._tally.steps += len(trace.steps)
        for step in trace.steps:
            kind = next((k for k in self._kinds if step.op in k.ops), None)
            if kind is None:
                self._tally.unmapped[step.op] += 1
            elif self._parted.intersection((kind.kind, *kind.rests_on)):
                self._tally.behind += 1
            else:
                self._made(trace, kind, step)
        for kind in self._kinds:
            if kind.kind not in self._parted:
                self._finally(trace, kind)

    def _made(self, trace: Trace, kind: Kind, step: Step) -> None:
        try:
            parted = self._step(kind, step)
        except Diverged as error:
            told = f"{trace.name} step {step.index}: {step.op} {_brief(step.args)}"
            raise Diverged(f"{told} at {step.now}: {error}") from error
        self._tally.compared += 1
        if parted is not None:
            self._tally.ended[f"{kind.kind} {parted}"] += 1
            self._parted.add(kind.kind)

    def _finally(self, trace: Trace, kind: Kind) -> None:
        """Compare all rows, those that no step addressed too."""
        expected, mine = self._expected[kind.kind], kind.everything()
        wrong = {
            key: _parted(expected.get(key), mine.get(key))
            for key in (*expected, *mine)
            if not same(expected.get(key), mine.get(key))
        }
        if wrong:
            raise Diverged(f"{trace.name}: in the end {kind.kind} differ: {wrong}")

    def _step(self, kind: Kind, step: Step) -> str | None:
        """Make and compare a step; return the difference that parted the rows, if one did."""
        self._clock.at = step.now
        difference = kind.difference(step)
        answer = make(kind.ops[step.op], step.args)
        self._clock.at = self._latest = step.now if isinstance(step.now, int) else self._latest
        kind.settle(step, answer)
        self._compare(kind, step, difference, answer)
        shown, parted = self._rows(kind, step, answer)
        for name in {*shown, *([difference.name] if difference else [])}:
            self._tally.shown[name] += 1
        if not parted:
            return None
        if difference is None or not (answer.writes or step.delta):
            raise Diverged(f"rows differ: {parted}")
        return difference.name

    def _compare(
        self, kind: Kind, step: Step, difference: Difference | None, answer: Answer
    ) -> None:
        verdict = step.verdict if difference is None else difference.verdict
        if answer.verdict != verdict:
            why = f" ({difference.name})" if difference else ""
            raise Diverged(
                f"recorded {step.verdict}, expected {verdict}{why}, ours {answer.verdict}:"
                f" {answer.detail}"
            )
        if difference is not None:
            if difference.row:
                self._check_ours(kind, step, difference, answer)
            if difference.value is not None and not same(difference.value, answer.value):
                raise Diverged(f"expected to return {difference.value}, ours {answer.value}")
            return
        if verdict != "yes":
            return
        expected = kind.returned(step, self._expected[kind.kind])
        if expected is not None and not same(expected, answer.value):
            raise Diverged(f"expected to return {expected}, ours {answer.value}")

    def _check_ours(self, kind: Kind, step: Step, difference: Difference, answer: Answer) -> None:
        (key,) = answer.keys or kind.keys(step)
        mine = kind.refresh(key) or {}
        wrong = [name for name, value in difference.row.items() if mine.get(name) != value]
        if wrong:
            raise Diverged(f"{difference.name}: {wrong} of {mine} are not {difference.row}")

    def _rows(
        self, kind: Kind, step: Step, answer: Answer
    ) -> tuple[tuple[str, ...], Mapping[str, Any]]:
        """Compare the rows that a step touched; return shown differences, and what parted."""
        expected = self._expected[kind.kind]
        changed: Mapping[str, Row | None] = step.delta.get(kind.kind, {})
        shown: list[str] = []
        for key, row in changed.items():
            if row is None:
                expected.pop(key, None)
            else:
                expected[key], seen = kind.row(step, expected.get(key), row)
                shown += seen
        touched = dict.fromkeys((*changed, *kind.keys(step), *answer.keys))
        parted = {}
        for key in touched:
            wanted, mine = expected.get(key), kind.refresh(key)
            if not same(wanted, mine):
                parted[key] = _parted(wanted, mine)
        return tuple(shown), parted


def _parted(wanted: Row | None, mine: Row | None) -> object:
    if wanted is None or mine is None:
        return (wanted, mine)
    return {
        name: (value, mine[name]) for name, value in wanted.items() if not same(value, mine[name])
    }


def _brief(args: Mapping[str, Any]) -> str:
    text = repr(dict(args))
    return text if len(text) <= 600 else f"{text[:600]}…"
