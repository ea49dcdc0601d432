"""A toolbox for property tests of machines and of the stores that run them; needs Hypothesis."""

from __future__ import annotations

from statemachine.testing.arguments import arguments, parameters
from statemachine.testing.faces import Opening, Rows, StoppedClock, Store
from statemachine.testing.histories import Life, histories
from statemachine.testing.history_laws import history_faults
from statemachine.testing.stateful import MachineTest, machine_test
from statemachine.testing.story import Disagreement
from statemachine.testing.values import json_values, plain_values, rows

__all__ = [
    "Disagreement",
    "Life",
    "MachineTest",
    "Opening",
    "Rows",
    "StoppedClock",
    "Store",
    "arguments",
    "histories",
    "history_faults",
    "json_values",
    "machine_test",
    "parameters",
    "plain_values",
    "rows",
]
