"""Whether what several callers saw of one row can be told as if they had come one by one.

Each call takes effect at one moment between its beginning and its answer; a history for which such
moments can be found is linearizable. The search is that of Wing and Gong, with the states that led
nowhere remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from attrs import field, frozen

from statemachine.lease_laws import broken_law
from statemachine.outcome import NOBODY, Actor, Moved, Reason, Refused
from statemachine.simulate import create, decide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from statemachine.kinds import Plain, Row
    from statemachine.machine import Machine

Answer: TypeAlias = "Row | Refused | None"

_OF_OTHERS = (Reason.UNIQUE, Reason.RACED, Reason.LOCKED)
"""Refusals of which the row alone does not tell whether they are right."""


@frozen(kw_only=True)
class Observed:
    """One call on a row, as its caller saw it.

    Attributes:
        name: The transition or creation; None: the row was read.

        params: The plain values of the call.

        now: What the clock said to the call, in milliseconds since the Unix epoch.

        began, ended: When the call was made and answered, on one clock of all callers that never
            goes back, in any unit. `ended` is None where no answer came.

        answer: The plain row afterwards, or the refusal; None where no answer came, and where a
            read found no row.

        actor, call: Who called, under which id.
    """

    name: str | None
    params: Row = field(factory=dict, repr=False)
    now: int
    began: int
    ended: int | None
    answer: Answer = field(repr=False)
    actor: Actor = NOBODY
    call: str = "unnamed"

    def __str__(self) -> str:
        until = "never answered" if self.ended is None else f"to {self.ended}"
        return f"{self.actor.name}: {self.name or 'read'} from {self.began} {until}: {self._said()}"

    def _said(self) -> str:
        if isinstance(self.answer, Refused):
            return str(self.answer)
        return "nothing" if self.answer is None else f"revision {self.answer['revision']}"


@frozen
class Linearization:
    """What the search found; true when all calls have a place in the order.

    Attributes:
        order: The calls in an order in which they can have happened; as far as any got.

        row: The row after them.

        left: The calls that have no place in it; those without an answer need none.

        unlawful: A law of leases that the order breaks, or None.
    """

    order: tuple[Observed, ...]
    row: Row | None
    left: tuple[Observed, ...]
    unlawful: str | None

    def __bool__(self) -> bool:
        return self.unlawful is None and all(call.ended is None for call in self.left)

    def __str__(self) -> str:
        lines = [*(f"  {call}" for call in self.order)]
        if not self:
            lines.append(self.unlawful or "none of these can come next:")
            lines += [f"  {call}" for call in self.left]
        return "\n".join(lines)


def linearize(machine: Machine, calls: Iterable[Observed], row: Row | None = None) -> Linearization:
    """Search an order of the calls on one row that the machine could have answered so.

    Args:
        machine: The declaration.

        calls: All calls on the row, of all callers, in any order.

        row: The plain row before them; None: there was none.
    """
    return _Search(machine, tuple(sorted(calls, key=lambda call: call.began))).order(row)


class _Search:
    def __init__(self, machine: Machine, calls: tuple[Observed, ...]) -> None:
        self._machine = machine
        self._calls = calls
        self._seen: set[tuple[int, tuple[Plain, ...]]] = set()

    def order(self, first: Row | None) -> Linearization:
        """Go forth as long as some call fits, and back where none does."""
        path: list[tuple[int, Row | None]] = []
        best: list[tuple[int, Row | None]] = []
        ways = [self._ways(0, first)]
        done = 0
        while ways:
            found = next(ways[-1], None)
            if found is None:
                ways.pop()
                if path:
                    done &= ~(1 << path.pop()[0])
                continue
            path.append(found)
            done |= 1 << found[0]
            complete = self._complete(done)
            if complete or len(path) > len(best):
                best = list(path)
            if complete:
                break
            ways.append(self._ways(done, found[1]))
        return self._told(best, first)

    def _ways(self, done: int, row: Row | None) -> Iterator[tuple[int, Row | None]]:
        """Yield the calls that may come next, each with the row that it leaves."""
        state = (done, () if row is None else tuple(row.values()))
        if state in self._seen:
            return
        self._seen.add(state)
        open_calls = [n for n in range(len(self._calls)) if not done >> n & 1]
        ends = [e for n in open_calls if (e := self._calls[n].ended) is not None]
        latest = min(ends, default=None)
        for number in open_calls:
            if latest is not None and self._calls[number].began > latest:
                return
            yield from ((number, after) for after in self._after(row, self._calls[number]))

    def _after(self, row: Row | None, call: Observed) -> Iterator[Row | None]:
        """Yield the row that the call leaves, where it fits its answer."""
        answer, said = call.answer, call.ended is not None
        if call.name is None:
            if not said or _same(row, answer):
                yield row
            return
        if isinstance(answer, Refused) and answer.reason in _OF_OTHERS:
            yield row
            return
        happened = self._happens(row, call)
        if isinstance(happened, Refused):
            if not said or (isinstance(answer, Refused) and _alike(happened, answer)):
                yield row
        elif not said or _same(happened, answer):
            yield happened

    def _happens(self, row: Row | None, call: Observed) -> Row | Refused:
        name, machine = str(call.name), self._machine
        if name in (creation.name for creation in machine.creations):
            if row is not None:
                return row
            made = create(machine, name, call.params, call.now, actor=call.actor, call=call.call)
            return made.row
        verdict = decide(
            machine, row, name, call.params, call.now, actor=call.actor, call=call.call
        )
        return verdict.row if isinstance(verdict, Moved) else verdict

    def _complete(self, done: int) -> bool:
        return all(done >> n & 1 or call.ended is None for n, call in enumerate(self._calls))

    def _told(self, path: list[tuple[int, Row | None]], first: Row | None) -> Linearization:
        placed = {number for number, _ in path}
        unlawful, before = None, first
        for number, after in path:
            unlawful = unlawful or self._unlawful(self._calls[number], before, after)
            before = after
        return Linearization(
            tuple(self._calls[number] for number, _ in path),
            before,
            tuple(call for number, call in enumerate(self._calls) if number not in placed),
            unlawful,
        )

    def _unlawful(self, call: Observed, before: Row | None, after: Row | None) -> str | None:
        known = [t for t in self._machine.transitions if t.name == call.name]
        if not known or before is None or after is None or before == after:
            return None
        law = broken_law(self._machine, known[0], before, after, call.now)
        return None if law is None else f"{call}: {law}"


def _same(row: Row | None, answer: Answer) -> bool:
    if row is None or answer is None:
        return row is answer
    return not isinstance(answer, Refused) and dict(row) == dict(answer)


def _alike(verdict: Refused, answer: Refused) -> bool:
    """Compare refusals, but for the key, which one who finds no row does not know."""
    told = (answer.reason, answer.state, answer.guard, answer.lost)
    return told == (verdict.reason, verdict.state, verdict.guard, verdict.lost)
