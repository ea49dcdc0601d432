"""A user's own machine, of another shape than the shipped ones, goes through every check.

Nothing of the engine knows it, nor any of the shipped machines: that is asked of its source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from persistence import Store, check_machine, open_store
from persistence.backends.postgresql_dialect import POSTGRESQL
from persistence.backends.sqlite_dialect import SQLITE
from persistence.compile import Program
from persistence.crash import crash
from persistence.dialect import Dialect
from statemachine import (
    ALL,
    Guard,
    IsNull,
    MachineError,
    NotNull,
    explore,
    liveness,
    to_dot,
    to_mermaid,
    to_svg,
    to_table,
)
from statemachine.testing import StoppedClock, machine_test
from tests.mutants import changed, with_transition
from tests.order import ORDER, PENDING, SHIPPED, order
from tests.programs import MARK, ROOT, graphviz, mermaid
from tests.spin import verify

STATES = {"pending\nremind [patient]", "paid", "shipped", "cancelled"}
EDGES = {
    (MARK, "pending", "place"),
    ("pending", "paid", "pay"),
    ("paid", "shipped", "ship [no parcel]"),
    ("pending", "cancelled", "cancel"),
    ("paid", "cancelled", "cancel"),
}
SHIP_ON_SQLITE = (
    "UPDATE orders SET state='shipped', parcel=:parcel, revision=(orders.revision + 1),"
    " last_transition='ship', last_actor_kind=:sys_actor_kind, last_actor=:sys_actor,"
    " last_call=:sys_call, updated_at=coalesce(max(orders.updated_at, :sys_now),"
    " orders.updated_at, :sys_now) WHERE orders.order_id = :sys_key AND orders.state IN ('paid')"
    " AND orders.parcel IS NULL RETURNING "
)

# Declaration


def test_mistakes_in_it_are_found_when_it_is_declared() -> None:
    """A way out of a final state, a guard that cannot hold, a column that may not change."""
    with pytest.raises(MachineError, match="final"):
        with_transition(ORDER, "cancel", source=(PENDING, SHIPPED))
    contradiction = (Guard("none", IsNull(order.parcel)), Guard("one", NotNull(order.parcel)))
    with pytest.raises(MachineError, match="ship"):
        with_transition(ORDER, "ship", when=contradiction)
    with pytest.raises(MachineError, match="parcel"):
        changed(ORDER, immutable=(order.order_id, order.basket, order.parcel))


# Model


def test_it_is_explored_whole() -> None:
    """Every transition fires, nothing is broken or stuck, and its uniqueness rule is met."""
    found = explore(ORDER)
    (baskets,) = found.populations

    assert found, found
    assert (found.states, found.edges) == (14, 19)
    assert found.fired == ("place", "pay", "remind", "ship", "cancel")
    assert (baskets.entered_by, baskets.clash) == (("place",), None)
    assert baskets.refused > 0
    assert liveness(ORDER, helpers=("pay", "ship"), exploration=found) == ()


def test_another_model_checker_agrees(tmp_path: Path) -> None:
    """Spin reaches as many states, and every transition, from the declaration alone."""
    verified = verify(ORDER, tmp_path)

    assert verified.states == explore(ORDER).states + 1
    assert verified.errors == 0
    assert verified.names == {"place", "pay", "remind", "ship", "cancel"}


# Database


@pytest.mark.parametrize("server", [False, True], ids=["sqlite", "postgresql"])
def test_the_database_agrees(request: pytest.FixtureRequest, *, server: bool) -> None:
    """Every call that its guards can tell apart, made on the real database."""
    url = str(request.getfixturevalue("postgres_url")) if server else None
    report = check_machine(ORDER, url, helpers=("pay", "ship"))

    assert report, report
    assert "covered:   4 of 4 transitions, 3 invariants, 1 uniqueness rules" in str(report)


@pytest.mark.parametrize("dialect", [SQLITE, POSTGRESQL], ids=["sqlite", "postgresql"])
def test_each_transition_is_one_guarded_update(dialect: Dialect) -> None:
    """State and guards stand in the WHERE clause; every value is a parameter."""
    program = Program(ORDER, dialect, server_clock=False)
    for transition in ORDER.transitions:
        sql = program.update[transition.name].sql
        where = sql.split(" WHERE ")[1].split(" RETURNING ")[0]

        assert sql.startswith("UPDATE orders SET ")
        assert sql.count("UPDATE") == 1
        for state in transition.source:
            assert f"'{state}'" in where
        assert ("orders.reminders < 3" in where) == (transition.name == "remind")
        assert ("orders.parcel IS NULL" in where) == (transition.name == "ship")
    if dialect is SQLITE:
        assert program.update["ship"].sql.startswith(SHIP_ON_SQLITE)


def _in_memory(clock: StoppedClock) -> Store:
    return open_store(":memory:", clock=clock, machines=(ORDER,))


def test_actors_who_try_everything_find_it_as_declared() -> None:
    """Its store against the in-memory machine, step by step."""
    quick = settings(
        max_examples=10,
        stateful_step_count=15,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    run_state_machine_as_test(machine_test(ORDER, _in_memory), settings=quick)


def _pay(store: Store) -> None:
    store.machine(ORDER).apply("pay", "a", call="the-payment")


def test_a_crash_leaves_a_step_whole_or_undone(tmp_path: Path) -> None:
    """Killed between any two things that the database is told, and asked again with the same id."""
    for step in range(1, 100):
        url = str(tmp_path / f"{step}.db")
        opening = partial(open_store, url, machines=(ORDER,))
        with opening() as store:
            store.machine(ORDER).create("place", {"order_id": "a", "basket": "b"})
        killed = crash(opening, _pay, step=step)
        with opening() as store:
            orders = store.machine(ORDER)
            before = [event.transition for event in orders.history("a")]
            state = orders.get("a").state
            _pay(store)

            assert (state, before) in [("pending", ["place"]), ("paid", ["place", "pay"])]
            assert [event.transition for event in orders.history("a")] == ["place", "pay"]
        if not killed:
            break
    else:
        pytest.fail("it never came to an end")


# Pictures


def test_it_is_drawn_in_every_format() -> None:
    """The programs of the formats read back its states and edges."""
    drawn = graphviz(to_dot(ORDER))
    (parsed,) = mermaid(to_mermaid(ORDER))
    ends = {("shipped", MARK, ""), ("cancelled", MARK, "")}

    assert _joined(drawn.nodes) == STATES
    assert _named(drawn.edges) == EDGES
    assert _joined(parsed.nodes) == STATES
    assert _named(parsed.edges) - ends == EDGES


def test_its_picture_and_table_say_everything() -> None:
    """The SVG has every state and label; the table every guard, assignment and rule."""
    texts = " ".join(text.strip() for text in ET.fromstring(to_svg(ORDER)).itertext())
    table = to_table(ORDER)

    for state in ORDER.states:
        assert state in texts
    for move in ORDER.transitions:
        assert move.name in texts
        assert f"| {move.name} | {', '.join(move.source)} |" in table
    rules = [rule.name for rule in ORDER.invariants] + [rule.name for rule in ORDER.uniqueness]
    assert [name for name in rules if name not in table] == []


def test_its_live_picture_shows_how_many_rows_are_where() -> None:
    """In every format that has colours."""
    with _in_memory(StoppedClock(0)) as store:
        orders = store.machine(ORDER)
        orders.create("place", {"order_id": "a", "basket": "b"})
        counts = orders.counts()

    for draw in (to_mermaid, to_dot, to_svg):
        assert "1 row" in draw(ORDER, counts=counts)
        assert "0 rows" in draw(ORDER, counts=counts)


def _joined(nodes: tuple[str, ...]) -> set[str]:
    return {"\n".join(line for line in node.splitlines() if line) for node in nodes}


def _named(edges: tuple[tuple[str, str, str], ...]) -> set[tuple[str, str, str]]:
    return {(s.split("\n")[0], d.split("\n")[0], label) for s, d, label in edges}


# The engine

OF_ONE_LIFECYCLE = (
    "statemachine/machines/",
    "statemachine/__init__.py",
    "persistence/aio/",
    "persistence/cli/",
    "persistence/hosts/",
    "persistence/store.py",
    "persistence/stores/",
)
"""Where shipped machines may be named: their declarations, typed faces, what is built on these."""


def _engine() -> Iterator[tuple[str, str]]:
    for root in ("statemachine", "persistence"):
        for path in sorted((ROOT / root).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if not name.startswith(OF_ONE_LIFECYCLE):
                yield name, path.read_text("utf-8")


def _words(source: str) -> Iterator[str]:
    """Yield the names and texts of a module, without its docstrings."""
    tree = ast.parse(source)
    said = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name
            case ast.Constant(value=str(text)) if node not in said:
                yield text
            case _:
                pass


def test_the_engine_names_no_machine() -> None:
    """Neither this one nor a shipped one, nor a state, a column or a rule of theirs."""
    own = {"ORDER", "Order", "order_id", "basket", "parcel", "shipped", "paid_at"}
    shipped = {name for machine in ALL for name in (machine.name, machine.name.upper())}
    shipped |= {machine.record.__name__ for machine in ALL} | {machine.table for machine in ALL}
    rules = {rule.name for machine in (*ALL, ORDER) for rule in machine.uniqueness}
    known = own | shipped | rules

    named = [(name, word) for name, source in _engine() for word in _words(source) if word in known]
    assert named == []
