"""One step of a run, and how a failing one says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from persistence.stores.face import Operations
from statemachine.outcome import Actor, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from persistence.operation import Operation
    from statemachine.kinds import JsonValue
    from statemachine.machines import Run, RunOutcome


class RunSteps(Operations):
    """What every move of a run is made of."""

    def step(
        self,
        name: str,
        run_id: str,
        values: Mapping[str, object],
        call: str | None,
        actor: Actor | None,
    ) -> Operation[Run | Refused]:
        """Make a transition, and answer the record."""
        row = yield from self.call(name, run_id, values, call=call, actor=actor)
        if isinstance(row, Refused):
            return row
        run: Run = self.program.moved(row)
        return run


def failing(
    error_code: str, error_message: str, outcome: RunOutcome | str, result: JsonValue
) -> Mapping[str, object]:
    """Return what a transition that fails a run is given."""
    return {
        "error_code": error_code,
        "error_message": error_message,
        "outcome": outcome,
        "result": result,
    }
