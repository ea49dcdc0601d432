"""What a session host asks at each poll costs what the session has, not what the table has."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from persistence import ManualClock, open_store
from persistence.reading import Listing, listing
from statemachine import NOTIFICATION, TURN_INTENT, Column, Machine
from statemachine.errors import MachineError

ASKED = [
    (TURN_INTENT, "target_session_id", "turn_intents_listed_0"),
    (TURN_INTENT, "run_id", "turn_intents_listed_1"),
    (NOTIFICATION, "target_session_id", "notifications_listed_0"),
]


@pytest.mark.parametrize(("machine", "column", "index"), ASKED)
@pytest.mark.parametrize("states", [True, False])
def test_an_index_serves_the_list(
    tmp_path: Path, clock: ManualClock, machine: Machine, column: str, index: str, *, states: bool
) -> None:
    """By session and by run: no scan of the table, and no sort."""
    path = tmp_path / "test.db"
    with open_store(str(path), clock=clock) as store:
        program = store.engine.program(machine)
        wanted = Listing((column,), states=states, newest_first=machine is TURN_INTENT)
        sql = listing(program, wanted).sql
    binds = {column: "x", "sys_limit": 20, "sys_states": '["pending"]'}
    with sqlite3.connect(path) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", binds)]
    connection.close()

    assert plan[0] == f"SEARCH {machine.table} USING INDEX {index} ({column}=?)"
    assert [step for step in plan if "TEMP B-TREE FOR ORDER" in step] == []


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"listed_by": ()}, "it needs the order of lists, listed_by"),
        ({"listed_for": (Column("nonsense"),)}, "unknown column 'nonsense'"),
    ],
    ids=["no order", "no column"],
)
def test_what_lists_are_asked_for_is_checked(changed: dict[str, Any], problem: str) -> None:
    """When the machine is declared."""
    with pytest.raises(MachineError, match=problem):
        evolve(TURN_INTENT, **changed)
