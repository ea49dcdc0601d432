"""One step of a run, and how a failing one says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from persistence.execute import apply
from persistence.stores.claims import Claim, claim_of
from persistence.stores.face import Operations
from statemachine.outcome import Actor, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from persistence.operation import Operation
    from statemachine.kinds import JsonValue, Row
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
        return self._told(self.call(name, run_id, values, call=call, actor=actor))

    def held(
        self,
        name: str,
        claim: Claim,
        values: Mapping[str, object],
        *,
        call: str | None,
        actor: Actor | None,
    ) -> Operation[Row | Refused]:
        """Make a transition as the holder.

        Raises:
            InvalidArgument: No claim, or a value out of its bounds; nothing was written.
        """
        run_id, shown = claim.proof
        declared = self.program.machine.transition(name).params
        params = self.admitted(declared, values, shown)
        return apply(self.program, name, run_id, params, self.engine.caller(call, actor))

    def held_step(
        self,
        name: str,
        claim: Claim,
        values: Mapping[str, object],
        call: str | None,
        actor: Actor | None,
    ) -> Operation[Run | Refused]:
        """Make a transition as the holder, and answer the record."""
        held = claim_of(claim)
        return self._told(self.held(name, held, values, call=call, actor=actor))

    def _told(self, move: Operation[Row | Refused]) -> Operation[Run | Refused]:
        row = yield from move
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
