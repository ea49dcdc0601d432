"""In which order a selection takes rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from statemachine.interpret import holds
from statemachine.testing.places import holder_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from statemachine.kinds import Plain, Row
    from statemachine.machine import Arm, Machine, Selection


@frozen
class Choice:
    """A selection on the rows of a moment.

    Attributes:
        machine, selection: What is chosen by.

        rows: The plain rows, by key.

        params: The plain values of the call.

        now: Milliseconds since the Unix epoch.
    """

    machine: Machine
    selection: Selection
    rows: Mapping[str, Row]
    params: Row
    now: int

    def queues(self) -> Iterator[list[str]]:
        """Yield the keys in the order in which they are taken.

        Twice, with NULL before everything and behind it: databases differ there.
        """
        for nulls_first in (True, False):
            queue: dict[str, None] = {}
            for arm in self.selection.arms:
                names = [column.name for column in arm.order]
                ranked = [
                    (rank([row[name] for name in names], nulls_first=nulls_first), key)
                    for key, row in self.rows.items()
                    if self._fits(arm, row)
                ]
                queue |= dict.fromkeys(key for _, key in sorted(ranked))
            yield list(queue)

    def _fits(self, arm: Arm, row: Row) -> bool:
        transition = self.machine.transition(self.selection.transition)
        if row[self.machine.state.name] not in transition.source:
            return False
        guards = [guard.condition for guard in transition.when]
        conditions = (*guards, *arm.fixed, *arm.by, *arm.when)
        if not all(holds(one, row, self.params, self.now) is True for one in conditions):
            return False
        vacant = [rule for rule in self.machine.uniqueness if rule.name in self.selection.vacant]
        return not any(holder_of(self.machine, self.rows, rule, row) for rule in vacant)


def rank(values: Sequence[Plain], *, nulls_first: bool) -> list[tuple[bool, Plain]]:
    """Return what sorts by several columns, ascending."""
    return [((v is None) is not nulls_first, 0 if v is None else v) for v in values]
