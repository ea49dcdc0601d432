"""What `export` prints."""

from __future__ import annotations

import pytest

from statemachine.machine import Machine
from statemachine.machines import ALL
from statemachine.promela import to_promela
from tests.cli.conftest import Call
from tests.order import ORDER


@pytest.mark.parametrize("machine", ALL, ids=lambda machine: machine.name)
@pytest.mark.parametrize("rows", [1, 2])
def test_export_for_spin(call: Call, machine: Machine, rows: int) -> None:
    """`export` prints the Promela model of each shipped machine."""
    printed = call("export", machine.name, "--format", "promela", "--rows", str(rows))

    assert (printed.code, printed.out) == (0, to_promela(machine, rows=rows))


def test_export_of_an_own_machine(call: Call) -> None:
    """An own machine is named by its module."""
    printed = call("export", "tests.order:ORDER")

    assert (printed.code, printed.out) == (0, to_promela(ORDER))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (("nonsense",), "there is no machine 'nonsense'"),
        (("--rows", "7"), "rows must be an integer from 1 to 4"),
    ],
)
def test_export_refuses(call: Call, given: tuple[str, ...], reason: str) -> None:
    """What cannot be exported is wrong usage, and said."""
    refused = call("export", *given)

    assert refused.code == 2
    assert reason in refused.err
