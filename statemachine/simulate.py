"""The in-memory machine, on the `transitions` library: what a call does to a plain row."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import transitions
from attrs import frozen

from statemachine.errors import InvalidArgument
from statemachine.interpret import Reading, effect, greatest, meaning
from statemachine.outcome import NOBODY, Actor, Event, Moved, Reason, Refused
from statemachine.refusing import Attempt, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from statemachine.kinds import Plain, Row
    from statemachine.machine import Machine, Transition
    from statemachine.vocabulary import Assignment, Guard

_UNNAMED = "unnamed"


def decide(
    machine: Machine,
    row: Row | None,
    transition: str,
    params: Row,
    now: int,
    *,
    actor: Actor = NOBODY,
    call: str = _UNNAMED,
) -> Moved | Refused:
    """Decide what a transition does to a row; pure.

    Args:
        machine: The declaration.

        row: The plain row with all of `machine.fields`, or None where there is none.

        transition: Its name.

        params: The plain values of the call, as from `admit_params`; others are ignored.

        now: Milliseconds since the Unix epoch.

        actor: Who makes the call.

        call: The call's id.

    Returns:
        The row afterwards, or the first reason against it: no row, another state, the first guard
        in declared order that is not true. Uniqueness rules are about other rows: not seen here.

    Raises:
        UnknownTransition: None of this name is declared.

        InvalidArgument: A parameter is missing.
    """
    simulation = _simulation(machine)
    steps = simulation.steps
    step = steps.get(transition) or steps[machine.transition(transition).name]
    _require(step.params, params)
    if row is None:
        return Refused(transition=transition, reason=Reason.MISSING)
    attempt = Attempt(str(row[machine.state.name]), row, params, now)
    try:
        moved = simulation.library.events[transition].trigger(attempt)
    except transitions.MachineError:
        return refusal(machine, step.transition, attempt, Reason.STATE)
    if not moved:
        return refusal(machine, step.transition, attempt, Reason.GUARD)
    return _moved(machine, step, attempt, actor, call)


def create(
    machine: Machine,
    creation: str,
    params: Row,
    now: int,
    *,
    actor: Actor = NOBODY,
    call: str = _UNNAMED,
) -> Moved:
    """Return the row that a creation makes, and its first event; pure.

    Arguments and errors as `decide`. Whether the key or a uniqueness slot is free, and whether the
    invariants admit the row, is not seen here.
    """
    declared = machine.creation(creation)
    effects = _simulation(machine).births[creation]
    _require(tuple(param.name for param in declared.params), params)
    row: dict[str, Plain] = {name: f.default for name, f in machine.fields.items()}
    row |= {name: read(row, params, now) for name, read in effects}
    row |= {
        machine.state.name: declared.dest,
        "revision": 1,
        "last_transition": creation,
        "last_actor_kind": actor.kind,
        "last_actor": actor.name,
        "last_call": call,
        "updated_at": now,
    }
    changes = {c.name: row[c.name] for c in machine.recorded if row[c.name] is not None}
    return Moved(row, _event(machine, None, row, changes))


@frozen
class _Step:
    """What is worked out once for a transition."""

    transition: Transition
    params: tuple[str, ...]
    by_holder: bool


@frozen
class _Simulation:
    library: transitions.Machine
    steps: dict[str, _Step]
    births: dict[str, tuple[tuple[str, Reading], ...]]


@functools.lru_cache(maxsize=128)
def _simulation(machine: Machine) -> _Simulation:
    library = transitions.Machine(
        model=None,
        states=list(machine.states),
        initial=None,
        transitions=[
            {
                "trigger": t.name,
                "source": list(t.source),
                "dest": t.dest,
                "conditions": [_condition(guard) for guard in t.when],
                "before": _writing(t),
            }
            for t in machine.transitions
        ],
        send_event=True,
        auto_transitions=False,
        model_attribute="at",
    )
    births = {c.name: _effects(c.assign) for c in machine.creations}
    return _Simulation(library, {t.name: _step(machine, t) for t in machine.transitions}, births)


def _condition(guard: Guard) -> Callable[[transitions.EventData], bool]:
    truth = meaning(guard.condition)

    def check(event: transitions.EventData) -> bool:
        attempt: Any = event.model
        if truth(attempt.row, attempt.params, attempt.now) is True:
            return True
        attempt.failed = guard
        return False

    return check


def _writing(transition: Transition) -> Callable[[transitions.EventData], None]:
    effects = _effects(transition.assign)

    def write(event: transitions.EventData) -> None:
        attempt: Any = event.model
        row, params, now = attempt.row, attempt.params, attempt.now
        after = dict(row)
        for name, read in effects:
            after[name] = read(row, params, now)
        attempt.after = after

    return write


def _effects(assignments: tuple[Assignment, ...]) -> tuple[tuple[str, Reading], ...]:
    return tuple((a.column.name, effect(a)) for a in assignments)


def _step(machine: Machine, transition: Transition) -> _Step:
    names = tuple(param.name for param in transition.params)
    return _Step(transition, names, machine.by_holder(transition))


def _require(names: tuple[str, ...], params: Row) -> None:
    for name in names:
        if name not in params:
            raise InvalidArgument(name, "given")


def _moved(machine: Machine, step: _Step, attempt: Attempt, actor: Actor, call: str) -> Moved:
    before, after = attempt.row, attempt.after
    after[machine.state.name] = attempt.at
    if step.transition.quiet:
        return Moved(after, None)
    after["revision"] = int(before["revision"] or 0) + 1
    after["last_transition"] = step.transition.name
    if step.by_holder and machine.lease is not None:
        after["last_actor_kind"] = before[machine.lease.holder_kind.name]
        after["last_actor"] = before[machine.lease.holder.name]
    else:
        after["last_actor_kind"], after["last_actor"] = actor.kind, actor.name
    after["last_call"] = call
    after["updated_at"] = greatest(before["updated_at"], attempt.now)
    changes = {
        column.name: after[column.name]
        for column in machine.recorded
        if after[column.name] != before[column.name]
    }
    return Moved(after, _event(machine, str(before[machine.state.name]), after, changes))


def _event(machine: Machine, source: str | None, row: Row, changes: dict[str, Plain]) -> Event:
    return Event(
        machine=machine.name,
        key=str(row[machine.key.name]),
        revision=int(row["revision"] or 0),
        transition=str(row["last_transition"]),
        source=source,
        dest=str(row[machine.state.name]),
        actor=Actor(str(row["last_actor_kind"]), str(row["last_actor"])),
        generation=None if machine.lease is None else int(row[machine.lease.generation.name] or 0),
        call=str(row["last_call"]),
        at=int(row["updated_at"] or 0),
        changes=changes,
    )
