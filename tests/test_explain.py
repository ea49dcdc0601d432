"""Choosing the next row costs one index search per arm, however many rows there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from persistence.binds import (
    ACTOR_BIND,
    ACTOR_KIND_BIND,
    CALL_BIND,
    EXCLUDE_BIND,
    KEY_BIND,
    LIMIT_BIND,
    NOW_BIND,
)
from persistence.scratch import Scratch, scratch
from statemachine.examples import NOW_MS, examples
from statemachine.machine import Machine
from statemachine.machines import ALL
from statemachine.parts import Selection
from statemachine.vocabulary import Column, Equal, Param, terms_in
from tests.crowd import crowd

ROWS = 20_000
SELECTING = [machine for machine in ALL if machine.selections]


@contextmanager
def crowded(machine: Machine, url: str | None) -> Iterator[Scratch]:
    """Lend a database with many rows; on PostgreSQL on the server's clock, as by default."""
    with scratch(machine, url, server_clock=url is not None) as database:
        crowd(database, ROWS)
        yield database


def values(database: Scratch, selection: Selection) -> dict[str, object]:
    """Return a value for each parameter of a selection's statements: one that some row has."""
    machine = database.program.machine
    conditions = [c for arm in selection.arms for c in (*arm.by, *arm.when)]
    params = [*machine.transition(selection.transition).params]
    params += [t for c in conditions for t in terms_in(c) if isinstance(t, Param)]
    given: dict[str, object] = {p.name: examples(p.kind)[0] for p in params}
    for equal in (c for c in conditions if isinstance(c, Equal)):
        if isinstance(equal.left, Column) and isinstance(equal.right, Param):
            given[equal.right.name] = some(database, equal.left.name)
    return given | {
        KEY_BIND: "a",
        CALL_BIND: "a",
        ACTOR_BIND: "a",
        ACTOR_KIND_BIND: "a",
        LIMIT_BIND: 50,
        NOW_BIND: NOW_MS,
        EXCLUDE_BIND: database.program.dialect.as_list(["a", "b"]),
    }


def some(database: Scratch, column: str) -> object:
    """Return a value that a column has."""
    table = database.program.machine.table
    return run(database, f"SELECT max({column}) FROM {table}", {})[0]


def taking(database: Scratch) -> Iterator[tuple[str, dict[str, object], int]]:
    """Yield each statement that chooses one row, its parameters, and how many arms it searches."""
    program = database.program
    for selection in program.machine.selections:
        bound = values(database, selection)
        yield program.next[selection.name].sql, bound, len(selection.arms)
        yield program.look(selection.name).sql, bound, len(selection.arms)


def taking_many(database: Scratch) -> Iterator[tuple[str, dict[str, object], int]]:
    """Yield each statement that chooses several rows of one arm, and its parameters."""
    program = database.program
    for selection in program.machine.selections:
        for number in range(len(selection.arms)):
            bound = values(database, selection)
            yield program.choices(selection.name, number).sql, bound, 1


def run(database: Scratch, sql: str, bound: dict[str, object]) -> list[str]:
    """Run a statement and return the last column of its rows."""
    with database.engine.backend.session() as session:
        return [str(row[-1]).strip() for row in session.execute(sql, bound)[0]]


@pytest.mark.parametrize("machine", SELECTING, ids=lambda machine: machine.name)
@pytest.mark.parametrize("analyzed", [False, True], ids=["new", "analyzed"])
def test_each_arm_searches_an_index_on_sqlite(machine: Machine, *, analyzed: bool) -> None:
    """No scan of the table and no sorting, with statistics and without."""
    with crowded(machine, None) as database:
        if analyzed:
            run(database, "ANALYZE", {})
        for sql, bound, arms in (*taking(database), *taking_many(database)):
            plan = run(database, f"EXPLAIN QUERY PLAN {sql}", bound)
            searches = [line for line in plan if line.startswith("SEARCH candidate USING INDEX")]
            scans = [line for line in plan if line.startswith("SCAN") and "anon" not in line]

            assert arms == len(searches)
            assert [line for line in scans if line != "SCAN CONSTANT ROW"] == []
            assert [line for line in plan if "TEMP B-TREE" in line] == []


@pytest.mark.parametrize("machine", SELECTING, ids=lambda machine: machine.name)
def test_each_arm_searches_an_index_on_postgresql(machine: Machine, postgres_server: str) -> None:
    """No scan of the table and no sorting, planned for the values at hand and for any."""
    with crowded(machine, postgres_server) as database:
        run(database, f"ANALYZE {machine.table}", {})
        for number, (sql, bound, arms) in enumerate(taking(database)):
            for plan in (
                run(database, f"EXPLAIN {sql}", bound),
                planned_for_any(database, f"plan_{number}", sql),
            ):
                searches = [
                    line
                    for line in plan
                    if re.search(r"Index (Only )?Scan using \w+_next_\w+ on \w+ candidate", line)
                ]

                assert arms == len(searches), "\n".join(plan)
                assert [line for line in plan if f"Seq Scan on {machine.table}" in line] == []
                assert [line for line in plan if "Sort" in line] == []


@pytest.mark.parametrize("machine", SELECTING, ids=lambda machine: machine.name)
def test_a_batch_searches_an_index_on_postgresql(machine: Machine, postgres_server: str) -> None:
    """A few rows may be sorted where that costs less than their order in the index; no scan."""
    with crowded(machine, postgres_server) as database:
        run(database, f"ANALYZE {machine.table}", {})
        for sql, bound, _ in taking_many(database):
            plan = run(database, f"EXPLAIN {sql}", bound)

            assert [line for line in plan if re.search(r"Scan (using|on) \w+_next_\w+", line)]
            assert [line for line in plan if f"Seq Scan on {machine.table}" in line] == []


def planned_for_any(database: Scratch, name: str, sql: str) -> list[str]:
    """Return the plan that is kept for a prepared statement once it has run a few times."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sql)))
    numbered = re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", sql)
    with database.engine.backend.session() as session:
        session.script(("SET LOCAL plan_cache_mode = force_generic_plan",))
        session.script((f"PREPARE {name} AS {numbered.replace('%%', '%')}",))
    nothing = ", ".join(["NULL"] * len(names))
    return run(database, f"EXPLAIN EXECUTE {name}({nothing})", {})
