"""Whatever one part of a machine is forgotten, some cell shows it."""

from __future__ import annotations

import attrs
import pytest

from statemachine.errors import MachineError
from statemachine.kinds import Row
from statemachine.machine import Machine, Transition
from statemachine.machines import ALL
from statemachine.outcome import Moved
from statemachine.simulate import decide
from statemachine.valuations import Cell, cells
from tests.mutants import with_transition
from tests.order import ORDER

REDUNDANT = {
    ("ship", "no parcel"): "a paid order has no parcel yet",
}


def omissions(transition: Transition) -> list[tuple[str, Transition]]:
    """Return the transition without one guard or one assignment, each with what is missing."""
    guards = [
        (guard.name, attrs.evolve(transition, when=tuple(g for g in transition.when if g != guard)))
        for guard in transition.when
    ]
    return guards + [
        (
            assignment.column.name,
            attrs.evolve(transition, assign=tuple(a for a in transition.assign if a != assignment)),
        )
        for assignment in transition.assign
    ]


def rows(machine: Machine, tried: list[Cell]) -> list[Row | None]:
    """Return the row that each cell's call makes; None: refused."""
    outcomes = [decide(machine, c.row, c.transition, c.params, c.now) for c in tried]
    return [outcome.row if isinstance(outcome, Moved) else None for outcome in outcomes]


@pytest.mark.slow
@pytest.mark.parametrize("machine", [*ALL, ORDER], ids=lambda machine: machine.name)
def test_what_is_forgotten_shows_in_a_cell(machine: Machine) -> None:
    """A guard or an assignment less is another verdict or another row, or no machine at all."""
    every = list(cells(machine))
    missed: list[tuple[str, str]] = []
    for transition in machine.transitions:
        tried = [cell for cell in every if cell.transition == transition.name]
        expected = rows(machine, tried)
        for what, less in omissions(transition):
            try:
                mutant = with_transition(
                    machine, transition.name, when=less.when, assign=less.assign
                )
            except MachineError:
                continue
            if rows(mutant, tried) == expected:
                missed.append((transition.name, what))

    assert [part for part in missed if part not in REDUNDANT] == []
