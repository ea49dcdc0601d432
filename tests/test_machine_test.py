"""`machine_test`: a store against the in-memory machine; what differs is told as a story."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar

import attrs
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from persistence import Store, open_store
from persistence.stores.rows import RowOperations, Rows
from statemachine import NOTIFICATION, RUN_LAUNCH, TURN_INTENT, Actor, Machine, Transition
from statemachine.examples import NOW_MS
from statemachine.kinds import (
    Boolean,
    Duration,
    Instant,
    Integer,
    Json,
    Kind,
    Prose,
    Text,
    Token,
    admit,
)
from statemachine.machines import ALL
from statemachine.testing import (
    Disagreement,
    Life,
    StoppedClock,
    arguments,
    histories,
    history_faults,
    machine_test,
    parameters,
)
from statemachine.testing.asked import Asked, Together
from statemachine.testing.driving import Driver
from statemachine.testing.model import Model
from tests.mutants import changed, without_assignment, without_guard
from tests.order import ORDER, OrderState

MACHINES = (*ALL, ORDER)
QUICK = settings(
    max_examples=20,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)


class _Undo(Exception):
    """Ends an attempt whose rows are not wanted."""


@attrs.define
class _AnyClock:
    """A clock that is looked at through another."""

    clock: StoppedClock = attrs.field(factory=lambda: StoppedClock(NOW_MS))

    def now(self) -> datetime:
        return self.clock.now()


@attrs.frozen
class _Compiled:
    """A store whose statements for one machine come from another declaration."""

    store: Store
    compiled: Machine

    def machine(self, _: Machine) -> Rows:
        engine = self.store.engine
        return Rows(RowOperations(engine, engine.program(self.compiled)), engine)


def _in_memory(clock: StoppedClock) -> Store:
    return open_store(":memory:", clock=clock, machines=(ORDER,))


def _seeded(compiled: Machine) -> Callable[[StoppedClock], AbstractContextManager[_Compiled]]:
    @contextmanager
    def opening(clock: StoppedClock) -> Iterator[_Compiled]:
        with _in_memory(clock) as store:
            yield _Compiled(store, compiled)

    return opening


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_a_store_in_memory_does_what_every_machine_says(machine: Machine) -> None:
    """All creations, transitions and selections by several actors, while time passes."""
    run_state_machine_as_test(machine_test(machine, _in_memory), settings=QUICK)


class TestOrders(machine_test(ORDER, _in_memory).TestCase):  # type: ignore[misc]  # made at run time
    """As users write it: pytest and unittest collect it by themselves."""

    settings = settings(QUICK, max_examples=5)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_so_does_a_server(machine: Machine, postgres_url: str) -> None:
    """On PostgreSQL, within transactions that are undone: its rows are there to stay."""
    clock = _AnyClock()
    with open_store(postgres_url, clock=clock, machines=(ORDER,)) as store:

        @contextmanager
        def opening(given: StoppedClock) -> Iterator[Store]:
            clock.clock = given
            with suppress(_Undo), store.transaction():
                yield store
                raise _Undo

        run_state_machine_as_test(machine_test(machine, opening), settings=QUICK)


def _story(machine: Machine, compiled: Machine) -> Disagreement:
    test = machine_test(machine, _seeded(compiled))
    with pytest.raises(Disagreement) as found:
        run_state_machine_as_test(test, settings=settings(QUICK, max_examples=300))
    return found.value


@pytest.mark.slow
def test_a_guard_that_was_forgotten_in_the_statements_is_told_in_three_steps() -> None:
    """A claim of what another holds: created, claimed, and claimed once more."""
    story = _story(NOTIFICATION, without_guard(NOTIFICATION, "claim", "free"))

    key = repr(story.steps[0].split("'")[1])
    assert len(story.steps) == 3
    assert story.steps[0].endswith("→ pending")
    assert story.steps[1].startswith(f"ada: claim {key} (")
    assert story.steps[1].endswith("stays pending")
    assert story.steps[2].startswith(f"ada: claim {key} (")
    assert story.declared == f"refused: {key} is pending, but not 'free'"
    assert story.found == "stays pending"


@pytest.mark.slow
def test_a_forgotten_assignment_is_told_by_the_column() -> None:
    """An order that was reminded of and then cancelled should have forgotten the reminders."""
    story = _story(ORDER, without_assignment(ORDER, "cancel", "reminders"))

    told = [step.split(" (")[0] for step in story.steps]
    assert told == ["ada: place", "ada: remind 'a' stays pending", "ada: cancel 'a'"]
    assert (story.declared, story.found) == ("reminders=0", "reminders=1")
    assert str(story).splitlines()[-2:] == [
        "    the machine: reminders=0",
        "    the store:   reminders=1",
    ]


def _driver(store: Store, machine: Machine = ORDER) -> Driver:
    return Driver(Model(machine), store.machine(machine), StoppedClock(NOW_MS))


def _asked(kind: Literal["create", "apply", "next"], name: str, **given: Any) -> Asked:
    about = {"values": {}} | given
    return Asked(kind, Actor("person", "ada"), name, **about)


def test_every_transition_of_the_machine_is_a_step_of_its_test() -> None:
    """Under its own name; several together, repeated, out of turn, and the next row, too."""
    test = machine_test(RUN_LAUNCH, _in_memory)
    names = {rule.function.__name__ for rule in test.setup_state().rules}

    declared = {creation.name for creation in RUN_LAUNCH.creations}
    declared |= {transition.name for transition in RUN_LAUNCH.transitions}
    assert names == declared | {"take_next", "out_of_turn", "together", "again"}
    assert test.__name__ == "RunLaunchTest"


def test_no_step_hides_what_its_test_is_made_of() -> None:
    """A transition may be called as one of the test's own methods is."""
    names = ("teardown", "together", "make", "again")
    strange = changed(
        ORDER,
        transitions=(
            *ORDER.transitions,
            *(Transition(name, (OrderState.PENDING,), None) for name in names),
        ),
    )
    test = machine_test(strange, _in_memory)
    rules = [rule.function.__name__ for rule in test.setup_state().rules]

    assert len(rules) == len(set(rules)) == len(ORDER.transitions) + len(names) + 4
    assert {"teardown_", "together_", "make_", "again_"} <= set(rules)


def test_what_is_compared_is_everything() -> None:
    """A row that changed behind the test's back is found by the next step, whatever it is about."""
    with _in_memory(StoppedClock(NOW_MS)) as store:
        driver = _driver(store)
        driver.make(_asked("create", "place", values={"order_id": "a", "basket": "x"}))
        driver.make(_asked("create", "place", values={"order_id": "b", "basket": "y"}))
        store.machine(ORDER).apply("remind", "a")

        with pytest.raises(Disagreement) as found:
            driver.make(_asked("apply", "pay", key="b"))

    assert found.value.declared == "row 'a': reminders=0"
    assert found.value.found == "row 'a': reminders=1"


def test_refusals_of_every_kind_are_told() -> None:
    """A missing row, another state, a guard, another's place, another's facts, the same again."""
    place = {"order_id": "a", "basket": "x"}
    with _in_memory(StoppedClock(NOW_MS)) as store:
        driver = _driver(store)
        driver.make(_asked("create", "place", values=place, call="c-1"))
        driver.make(_asked("create", "place", values=place, call="c-1"))
        driver.make(_asked("create", "place", values={"order_id": "a", "basket": "y"}))
        driver.make(_asked("create", "place", values={"order_id": "b", "basket": "x"}))
        driver.make(_asked("apply", "pay", key="b"))
        driver.make(_asked("apply", "ship", key="a", values={"parcel": "p"}))
        driver.make(_asked("apply", "pay", key="a", call="c-2"))
        driver.make(_asked("apply", "pay", key="a", call="c-2"))
        calls = (_asked("apply", "cancel", key="a"), _asked("apply", "cancel", key="b"))
        driver.make(Together("cancel", calls))

    assert driver.story == (
        "ada: place (call='c-1') → pending",
        "ada: place (call='c-1') stays pending",
        "ada: place IdentityConflict: order 'a' exists with other facts (basket); use a new id",
        "ada: place refused: 'one open order per basket' is taken",
        "ada: pay 'b' refused: there is no 'b'",
        "ada: ship 'a' refused: 'a' is pending",
        "ada: pay 'a' (call='c-2') pending → paid",
        "ada: pay 'a' (call='c-2') stays paid",
        "together, ada: cancel 'a' paid → cancelled",
        "together, ada: cancel 'b' refused: there is no 'b'",
    )


_T = TypeVar("_T")


def _first(strategy: st.SearchStrategy[_T], condition: Callable[[_T], bool]) -> _T:
    generate = settings(QUICK, phases=[Phase.generate], max_examples=1_000)
    return find(strategy, condition, settings=generate)


def _ending_in(machine: Machine, state: str) -> Callable[[Life], bool]:
    return lambda life: life.row[machine.state.name] == state


@given(st.sampled_from(MACHINES).flatmap(lambda m: st.tuples(st.just(m), histories(m))))
@settings(QUICK, max_examples=60)
def test_histories_are_lawful(drawn: tuple[Machine, Life]) -> None:
    """They begin with a creation, follow declared edges, and fold to the row."""
    machine, life = drawn

    assert history_faults(machine, life.events, life.row) == ()
    assert len(life.events) == life.row["revision"]


def test_histories_come_to_every_end() -> None:
    """A row may be found in each final state, and with a lease."""
    for machine in (ORDER, TURN_INTENT):
        for state in machine.final:
            life = _first(histories(machine), _ending_in(machine, state))

            assert life.events[-1].dest == state


def test_an_unlawful_history_is_told() -> None:
    """A gap, an edge that is not declared, a change that is missing, another end."""
    with _in_memory(StoppedClock(NOW_MS)) as store:
        model = Model(TURN_INTENT)
        driver = Driver(model, store.machine(TURN_INTENT), StoppedClock(NOW_MS))
        facts: dict[str, object] = {
            "fallback_facts": {},
            "cause": "failed",
            "node_id": None,
            "attempt_id": None,
        }
        names = ("intent_id", "source_event_id", "run_id", "workflow", "target_session_id")
        driver.make(_asked("create", "ensure", values=dict.fromkeys(names, "a") | facts))
        driver.make(_asked("apply", "make_eligible", key="a", values={"fallback_facts": 1}))
    first, second = model.events["a"]
    row = model.rows["a"]

    assert history_faults(TURN_INTENT, [], row) == ("there is no event of its creation",)
    assert history_faults(TURN_INTENT, [first, second], row) == ()
    assert history_faults(TURN_INTENT, [second], row)[:2] == (
        "revision 2 stands where 1 should",
        "make_eligible from pending to eligible is no declared edge",
    )
    assert history_faults(TURN_INTENT, [first], row) == (
        "it ends in pending, the row is eligible",
        f"its changes give eligible_at as None, the row has {NOW_MS}",
    )


KINDS = (Text(3, 4), Prose(max_bytes=9), Json(8), Instant(), Duration(), Boolean(), Integer(2, 5))


@pytest.mark.parametrize("kind", [*KINDS, Token()], ids=lambda kind: type(kind).__name__)
def test_arguments_lie_within_the_bounds_of_their_kind(kind: Kind) -> None:
    """And on them: the least and the greatest, the longest text."""

    @given(arguments(kind))
    @settings(QUICK, max_examples=100)
    def within(value: object) -> None:
        admit(kind, value, "value")

    within()


def test_arguments_reach_the_bounds() -> None:
    """Both ends of numbers and durations, and the longest text."""
    bounds: tuple[tuple[Kind, object], ...] = (
        (Integer(2, 5), 2),
        (Integer(2, 5), 5),
        (Duration(), timedelta(days=36_525)),
        (Text(3), "zzz"),
    )
    for kind, bound in bounds:
        assert bound == _first(arguments(kind), functools.partial(operator.eq, bound))


def test_parameters_are_those_of_the_call() -> None:
    """By name; an optional one may be left out."""
    params = RUN_LAUNCH.transition("finish").params
    with_result = _first(parameters(params), lambda values: values["result"] is not None)
    without = _first(parameters(params), lambda values: values["result"] is None)

    assert {*with_result} == {*without} == {param.name for param in params}
