"""A caller that notes when it called, what the clock said and what it was answered.

Notes of several callers, also of several processes on one machine, together tell whether a row's
history is linearizable: see `statemachine.linearize`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from attrs import field, frozen

from persistence.clock import milliseconds
from persistence.compile import Program
from persistence.execute import apply, create
from persistence.refusal import read
from statemachine.errors import InvalidArgument, SqlatchError
from statemachine.linearize import Observed
from statemachine.outcome import Refused

if TYPE_CHECKING:
    from collections.abc import Generator

    from persistence.call import Call
    from persistence.operation import Answer, Operation, Query
    from persistence.store import Store
    from statemachine.kinds import Row
    from statemachine.linearize import Answer as Seen
    from statemachine.machine import Machine

_T = TypeVar("_T")


@frozen
class Observer:
    """Calls a machine's transitions and notes what it saw.

    Attributes:
        store: Open, with a clock that is not the server's: what it said must be known.

        program: The machine's statements.

        notes: What was seen of each row, by its key.
    """

    store: Store
    program: Program
    notes: dict[str, list[Observed]] = field(factory=dict, init=False)

    @classmethod
    def of(cls, store: Store, machine: Machine, *, compiled: Machine | None = None) -> Observer:
        """Return an observer of a machine that the store was opened with.

        Args:
            store: The store.

            machine: The machine.

            compiled: What the statements are compiled from, in order to see a fault found; None:
                the machine itself.

        Raises:
            InvalidArgument: The server's clock rules.
        """
        program = store.engine.program(machine)
        if program.server_clock:
            raise InvalidArgument("store", "opened with a clock, such as SystemClock()")
        if compiled is not None:
            program = Program(compiled, program.dialect, server_clock=False)
        return cls(store, program)

    def create(self, name: str, params: Row, call: str | None = None) -> Row:
        """Make a creation, given plain values; returns the plain row."""
        key = str(params[self._key_param(name)])
        made = self.store.engine.call_of(params, "", call)
        operation = create(self.program, name, made, self.program.row)
        row = self._noted(key, name, params, made, operation)
        assert row is not None, "a creation answers a row"
        assert not isinstance(row, Refused), "and refuses by an error"
        return row

    def apply(self, name: str, key: str, params: Row, call: str | None = None) -> Row | Refused:
        """Make a transition, given plain values; returns the plain row, or why it did not move."""
        made = self.store.engine.call_of(params, key, call)
        operation = apply(self.program, name, made, self.program.row)
        answer = self._noted(key, name, params, made, operation)
        assert answer is not None, "a transition answers a row or a refusal"
        return answer

    def get(self, key: str) -> Row | None:
        """Read a row."""
        made = self.store.engine.call_of({}, key)
        row = self._noted(key, None, {}, made, self._read(key))
        assert not isinstance(row, Refused), "reading refuses nothing"
        return row

    def _key_param(self, name: str) -> str:
        machine = self.program.machine
        written = [a for a in machine.creation(name).assign if a.column == machine.key]
        source = getattr(written[0], "source", None)
        return str(getattr(source, "name", ""))

    def _read(self, key: str) -> Operation[Row | None]:
        row, _ = yield from read(self.program, key)
        return row

    def _noted(
        self, key: str, name: str | None, params: Row, made: Call, operation: Operation[Seen]
    ) -> Seen:
        instants = [milliseconds(self.store.clock)]
        began = time.monotonic_ns()
        ended: int | None = None
        answer: Seen = None
        try:
            answer = self.store.engine.run(_watched(operation, instants))
            answer = answer if answer is None or isinstance(answer, Refused) else dict(answer)
            ended = time.monotonic_ns()
        finally:
            # Where no answer came, nobody knows whether it happened.
            self.notes.setdefault(key, []).append(
                Observed(
                    name=name,
                    params=dict(params),
                    now=instants[-1],
                    began=began,
                    ended=ended,
                    answer=answer,
                    actor=made.actor,
                    call=made.id,
                )
            )
        return answer


def _watched(operation: Operation[_T], instants: list[int]) -> Generator[Query, Answer, _T]:
    """Run an operation, and note what the clock said to each of its statements."""
    try:
        query = next(operation)
        while True:
            try:
                answer = yield query
            except SqlatchError as error:
                query = operation.throw(error)
            else:
                instants.append(answer.now or 0)
                query = operation.send(answer)
    except StopIteration as stop:
        outcome: _T = stop.value
        return outcome
