"""The checks that a machine passes when it is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statemachine.machine import Machine


def check(machine: Machine) -> None:
    """Check a declaration.

    Raises:
        MachineError: It does not hold together; names machine, place and problem.
    """
