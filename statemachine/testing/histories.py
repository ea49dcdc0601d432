"""Whole histories, as calls make them: for tests of what reads the audit feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen
from hypothesis import strategies as st

from statemachine.admission import admit_params
from statemachine.examples import NOW_MS
from statemachine.kinds import MILLISECOND
from statemachine.testing.asking import ACTORS, Asking
from statemachine.testing.faces import StoppedClock
from statemachine.testing.model import Made, Model

if TYPE_CHECKING:
    from statemachine.kinds import Row
    from statemachine.machine import Machine
    from statemachine.outcome import Event
    from statemachine.testing.asked import Asked

_MOST = 12
"""How many calls are tried at most."""


@frozen
class Life:
    """One row from its creation on.

    Attributes:
        row: The plain row as it is now.

        events: Its history, oldest first.
    """

    row: Row
    events: tuple[Event, ...]


@st.composite
def histories(draw: st.DrawFn, machine: Machine) -> Life:
    """Return what several actors and the passing of time make of one row of a machine."""
    model, clock = Model(machine), StoppedClock(NOW_MS)
    asking = Asking(model, clock, ACTORS)
    while not model.rows:
        name = draw(st.sampled_from([creation.name for creation in machine.creations]))
        asked = asking.creation(draw, name)
        params = admit_params(machine.creation(name).params, asked.values)
        model.accept(model.create(name, params, _made(asked, clock))[0])
    (key,) = model.rows
    for _ in range(draw(st.integers(0, _MOST))):
        state = model.rows[key][machine.state.name]
        names = [t.name for t in machine.transitions if state in t.source]
        if not names:
            break
        asked = asking.transition(draw, draw(st.sampled_from(names)))
        clock.ms += asked.after // MILLISECOND
        params = admit_params(machine.transition(asked.name).params, asked.values)
        model.accept(model.apply(asked.name, key, params, _made(asked, clock))[0])
    return Life(model.rows[key], tuple(model.events[key]))


def _made(asked: Asked, clock: StoppedClock) -> Made:
    given = asked.call is not None
    return Made(asked.actor, clock.ms, asked.call or "unnamed", given=given)
