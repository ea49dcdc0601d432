"""`machine_test`: a store driven against the in-memory machine, step by step."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from statemachine.examples import NOW_MS
from statemachine.testing.asking import ACTORS, Asking
from statemachine.testing.driving import Driver
from statemachine.testing.faces import Opening, StoppedClock
from statemachine.testing.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from statemachine.machine import Machine
    from statemachine.testing.asked import Asked, Together

_Drawing: TypeAlias = "Callable[[Asking, st.DrawFn], Asked | Together]"


def _has_made_calls(test: MachineTest) -> bool:
    return bool(test.made)


class MachineTest(RuleBasedStateMachine):
    """What the tests of all machines have in common; `machine_test` makes that of a machine.

    Attributes:
        declared: The machine.

        opening: What opens a store.
    """

    declared: ClassVar[Machine]
    opening: ClassVar[Opening]

    def __init__(self) -> None:
        super().__init__()
        self._resources = ExitStack()
        self._clock = StoppedClock(NOW_MS)
        store = self._resources.enter_context(type(self).opening(self._clock))
        self.model = Model(self.declared)
        self.asking = Asking(self.model, self._clock, ACTORS)
        self.driver = Driver(self.model, store.machine(self.declared), self._clock)
        self.made: list[Asked | Together] = []

    def teardown(self) -> None:
        """Close the store."""
        self._resources.close()

    def make(self, asked: Asked | Together) -> None:
        """Make a call, and remember it in order to repeat it."""
        self.made.append(asked)
        self.driver.make(asked)

    @precondition(_has_made_calls)
    @rule(call=st.runner().flatmap(lambda test: st.sampled_from(test.made[::-1])))
    def again(self, call: Asked | Together) -> None:
        """Make a call that was made before, under the same id if it had one."""
        self.driver.make(call)


def machine_test(machine: Machine, opening: Opening) -> type[MachineTest]:
    """Return a test that drives a machine's store against the in-memory machine.

    Several actors make every creation, transition and selection, alone and together, with what
    they know of a row or once knew of it (a lease that was lost since, say), now and then again
    under the same id, while the clock moves. After each step, what the store answered is compared
    (the record; else the reason, guard and holder, or the row in the way), then every record, and
    the whole history of the row. A failure is shrunk to the fewest steps, and tells them.

        from persistence import open_store
        from statemachine.testing import machine_test

        def opening(clock):
            return open_store(":memory:", clock=clock, machines=(ORDER,))

        TestOrders = machine_test(ORDER, opening).TestCase

    Within a test function, `hypothesis.stateful.run_state_machine_as_test` runs it; either takes
    Hypothesis's settings.

    Args:
        machine: The declaration, shipped or the user's own.

        opening: Opens an empty store whose time is that of the given clock; called for each
            attempt. What it returns is closed as a context manager.
    """
    drawings: list[tuple[str, _Drawing]] = [
        *((c.name, partial(Asking.creation, name=c.name)) for c in machine.creations),
        *((t.name, partial(Asking.transition, name=t.name)) for t in machine.transitions),
        *((("take_next", Asking.selection),) if machine.selections else ()),
        ("out_of_turn", Asking.out_of_turn),
        ("together", Asking.together),
    ]
    members: dict[str, object] = {"declared": machine, "opening": staticmethod(opening)}
    states = {t.name: t.source for t in machine.transitions}
    states |= {c.name: () for c in machine.creations}
    for name, drawing in drawings:
        function = _function_name(name, (*dir(MachineTest), *members))
        members[function] = _rule(function, drawing, states.get(name, machine.states))
    title = "".join(word.title() for word in machine.name.split("_"))
    return type(f"{title}Test", (MachineTest,), members)


def _rule(name: str, drawing: _Drawing, states: tuple[str, ...]) -> object:
    def step(test: MachineTest, call: Asked | Together) -> None:
        test.make(call)

    step.__name__ = step.__qualname__ = name
    step.__doc__ = f"Make {name}."
    ruled = rule(call=_drawn(drawing))(step)
    return precondition(_in_one_of(states))(ruled) if states else ruled


def _drawn(drawing: _Drawing) -> st.SearchStrategy[Asked | Together]:
    @st.composite
    def drawn(draw: st.DrawFn) -> Asked | Together:
        test: MachineTest = draw(st.runner())
        return drawing(test.asking, draw)

    return drawn()


def _in_one_of(states: tuple[str, ...]) -> Callable[[MachineTest], bool]:
    def in_one_of(test: MachineTest) -> bool:
        column = test.declared.state.name
        return any(row[column] in states for row in test.model.rows.values())

    return in_one_of


def _function_name(name: str, taken: Iterable[str]) -> str:
    """Return the name of a step's function: its own, unless it would hide another."""
    while name in taken:
        name += "_"
    return name
