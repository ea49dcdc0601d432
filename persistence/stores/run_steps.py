"""One step of a run, and how a failing one says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from persistence.execute import apply
from persistence.stores.claims import Claim, claim_of
from persistence.stores.face import Operations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from persistence.operation import Operation, Tell
    from statemachine.kinds import JsonValue
    from statemachine.machines import Run, RunOutcome
    from statemachine.outcome import Actor, Refused

_T = TypeVar("_T")


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
        return self.call(name, run_id, values, self.program.moved, call=call, actor=actor)

    def held(
        self,
        name: str,
        claim: Claim,
        values: Mapping[str, object],
        call: str | None,
        actor: Actor | None,
        *,
        tell: Tell[_T] | None = None,
    ) -> Operation[_T | Refused]:
        """Make a transition as the holder; what is told of the row is by default its record.

        Raises:
            InvalidArgument: No claim, or a value out of its bounds; nothing was written.
        """
        program = self.program
        run_id, shown = (claim if type(claim) is Claim else claim_of(claim)).proof
        params = program.given[name](values, shown)
        if self.engine.clock is not None:
            self.within_time(program.given[name], params)
        made = self.engine.call_of(params, run_id, call, actor)
        return apply(program, name, made, tell or program.moved)


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
