"""Why a call did not move a row, and whether its lease was lost meanwhile."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from attrs import frozen

from statemachine.interpret import Meaning, meaning
from statemachine.outcome import LostLease, Reason, Refused
from statemachine.vocabulary import Column, Condition, Equal, Guard, Param, conditions_in, terms_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statemachine.kinds import Plain, Row
    from statemachine.machine import Machine, Transition


class Attempt:
    """One call on its way through the library: the model whose state the library moves.

    Attributes:
        at: The state.

        row, params, now: What the call is about.

        failed: The guard that refused it, if one did.

        after: What its assignments write, once its guards have passed.
    """

    __slots__ = ("after", "at", "failed", "now", "params", "row")

    def __init__(self, at: str, row: Row, params: Row, now: int) -> None:
        self.at = at
        self.row = row
        self.params = params
        self.now = now
        self.failed: Guard | None = None
        self.after: dict[str, Plain] = {}


def refusal(machine: Machine, transition: Transition, attempt: Attempt, reason: Reason) -> Refused:
    """Return the refusal of an attempt."""
    row = attempt.row
    return Refused(
        transition=transition.name,
        reason=reason,
        key=str(row[machine.key.name]),
        state=str(row[machine.state.name]),
        guard=None if attempt.failed is None else attempt.failed.name,
        lost=_lost(machine, transition, attempt),
    )


@frozen
class _Hold:
    """How a transition's guards read the lease.

    Attributes:
        guards: Those that read its token, with their meaning.

        generation: Name of the parameter that presents its generation, if one does.
    """

    guards: tuple[tuple[Guard, Meaning], ...]
    generation: str | None


@functools.lru_cache(maxsize=1024)
def _hold(machine: Machine, name: str) -> _Hold:
    lease = machine.lease
    guards = tuple(
        guard
        for guard in machine.transition(name).when
        if lease is not None and lease.token_hash in terms_in(guard.condition)
    )
    presented = [
        param
        for guard in machine.transition(name).when
        if lease is not None
        for param in _compared(guard.condition, lease.generation)
    ]
    return _Hold(
        tuple((guard, meaning(guard.condition)) for guard in guards),
        presented[0] if presented else None,
    )


def _compared(condition: Condition, column: Column) -> Iterator[str]:
    for inner in conditions_in(condition):
        match inner:
            case Equal(left=left, right=Param(name=name)) if left == column:
                yield name
            case Equal(left=Param(name=name), right=right) if right == column:
                yield name
            case _:
                pass


def _lost(machine: Machine, transition: Transition, attempt: Attempt) -> LostLease | None:
    """Tell of a lease that went to another, also where the row has left the state since."""
    hold = _hold(machine, transition.name)
    if machine.lease is None or not hold.guards:
        return None
    row, params = attempt.row, attempt.params
    presented = None if hold.generation is None else params[hold.generation]
    holder = row[machine.lease.holder.name]
    lost = LostLease(
        None if presented is None else int(presented),
        int(row[machine.lease.generation.name] or 0),
        None if holder is None else str(holder),
    )
    if attempt.failed is not None:
        return lost if any(guard is attempt.failed for guard, _ in hold.guards) else None
    fits = all(truth(row, params, attempt.now) is True for _, truth in hold.guards)
    return None if fits or lost.presented == lost.present else lost
