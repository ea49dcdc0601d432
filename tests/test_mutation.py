"""Whatever one guard or assignment lacks, a check of the machine notices."""

from __future__ import annotations

from collections import defaultdict

import pytest

from statemachine.errors import MachineError
from statemachine.exploration import explore
from statemachine.lease_laws import broken_law
from statemachine.machine import Machine
from statemachine.machines import ALL, RUN_LAUNCH
from statemachine.mutation import Mutant, mutants
from statemachine.outcome import Moved
from statemachine.path import broken
from statemachine.simulate import decide
from statemachine.valuations import Cell, cells
from tests.order import ORDER
from tests.retold import failing_story

EQUIVALENT: dict[str, dict[str, str]] = {}
"""Mutants that no row which the invariants admit can tell from the machine, and why."""


class Nets:
    """The checks of one machine; each looks at a mutant and says what it noticed.

    The mutant takes the machine's place everywhere, so that memory and SQL agree on the mistake.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.cells: dict[str, list[Cell]] = defaultdict(list)
        for cell in cells(machine):
            self.cells[cell.transition].append(cell)

    def caught(self, mutant: Mutant) -> str | None:
        """Return which check notices a mutant, the quickest first; None: it survives."""
        try:
            machine = mutant.of(self.machine)
        except MachineError:
            return "construction"
        if self.breaks_a_rule(machine, mutant):
            return "rule"
        if failing_story(self.machine, machine) is not None:
            return "story"
        return None if explore(machine, stop_at_first=True) else "exploration"

    def breaks_a_rule(self, machine: Machine, mutant: Mutant) -> bool:
        """Tell whether some call makes a row that an invariant or a law of leases forbids."""
        name = mutant.part.name
        for cell in self.cells[name]:
            moved = decide(machine, cell.row, name, cell.params, cell.now)
            if isinstance(moved, Moved) and (
                broken(machine, moved.row)
                or broken_law(machine, machine.transition(name), cell.row, moved.row, cell.now)
            ):
                return True
        return False

    def is_equivalent(self, mutant: Mutant) -> bool:
        """Tell whether every call has the same outcome as on the machine itself."""
        machine, name = mutant.of(self.machine), mutant.part.name
        return all(
            decide(machine, c.row, name, c.params, c.now)
            == decide(self.machine, c.row, name, c.params, c.now)
            for c in self.cells[name]
        )


def test_mistakes_of_a_small_machine() -> None:
    """One at a time: each guard and assignment dropped, or without its care."""
    assert [str(mutant) for mutant in mutants(ORDER)] == [
        "pay: paid_at not assigned",
        "pay: paid_at by Set for SetOnce",
        "remind: guard 'patient' dropped",
        "remind: guard 'patient' without its strictness",
        "remind: reminders not assigned",
        "ship: guard 'no parcel' dropped",
        "ship: parcel not assigned",
        "cancel: coupon not assigned",
        "cancel: reminders not assigned",
        "place: order_id not assigned",
        "place: basket not assigned",
    ]


def test_a_guard_of_several_parts_is_weakened_part_by_part() -> None:
    """Token or generation alone is no proof of holding a lease."""
    finishing = [str(m) for m in mutants(RUN_LAUNCH) if str(m).startswith("finish: guard")]

    assert finishing == [
        "finish: guard 'held' dropped",
        "finish: guard 'held' without part 1",
        "finish: guard 'held' without part 2",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("machine", ALL, ids=lambda machine: machine.name)
def test_no_mistake_survives_the_checks(machine: Machine) -> None:
    """Every guard and every assignment, dropped or weakened, is missed by somebody."""
    nets = Nets(machine)
    equivalent = EQUIVALENT.get(machine.name, {})
    survivors = {str(mutant): mutant for mutant in mutants(machine) if nets.caught(mutant) is None}

    assert sorted(survivors) == sorted(equivalent)
    for name, mutant in survivors.items():
        assert nets.is_equivalent(mutant), f"{name}: {equivalent[name]}"
