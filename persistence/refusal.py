"""Why a row was not changed: read it afterwards, and ask the in-memory machine."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from attrs import evolve

from persistence import history
from persistence.binds import KEY_BIND
from persistence.compile import rule_of_index
from persistence.operation import Operation, Query
from statemachine.errors import IdentityConflict, IllegalTransition
from statemachine.outcome import LostLease, Reason, Refused
from statemachine.simulate import decide
from statemachine.vocabulary import Param, Set

if TYPE_CHECKING:
    from persistence.call import Call
    from persistence.codec import Answered
    from persistence.compile import Program
    from statemachine.kinds import Plain, Row
    from statemachine.machine import Machine

REPEATED = "sqlatch_history_call"
"""The index that refuses a call id which the row's history knows already."""


def read(program: Program, key: str) -> Operation[tuple[Answered | None, int]]:
    """Read a row, with the clock's reading at that moment; the row is None where there is none."""
    answer = yield Query(program.read(), {KEY_BIND: key})
    if not answer.rows:
        return None, answer.now or 0
    row = answer.rows[0]
    now = answer.now if answer.now is not None else int(row[-1])
    return program.row(row), now


def explain(program: Program, name: str, call: Call) -> Operation[Answered | Refused | None]:
    """Say what a call that moved nothing amounts to.

    Returns:
        The stored row where this very call moved it before; the refusal; None where the call
        would succeed by now.
    """
    if call.given:
        repeated = yield from recall(program, name, call)
        if repeated is not None:
            return repeated
    row, now = yield from read(program, call.key)
    verdict = decide(program.machine, row, name, call.params, now, actor=call.actor)
    if isinstance(verdict, Refused):
        return evolve(verdict, key=call.key)
    return None


def recall(program: Program, name: str, call: Call) -> Operation[Answered | Refused | None]:
    """Return the outcome of an earlier call of the same id, None where there was none.

    Args:
        program: The machine's statements.

        name: The transition, or the selection's transition.

        call: Where it names no row, its id is looked up across the machine. Whoever repeats a claim
            has to present its token.

    Raises:
        IdentityConflict: The id was used for another transition.
    """
    machine = program.machine
    answer = yield Query(
        history.by_call(program.dialect), {"machine": machine.name, "call": call.id}
    )
    events = [history.event_of(row) for row in answer.rows]
    events = [event for event in events if call.key in {"", event.key}]
    if not events:
        return None
    if events[0].transition != name:
        raise IdentityConflict(machine.name, call.id, (f"call id of {events[0].transition}",))
    row, _ = yield from read(program, events[0].key)
    if row is None:
        return Refused(transition=name, reason=Reason.MISSING, key=events[0].key)
    if takes_lease(machine, name):
        return _own_claim(machine, name, row, call.params)
    return row


@functools.lru_cache(maxsize=1024)
def takes_lease(machine: Machine, name: str) -> bool:
    """Tell whether a transition gives the row to whoever presents the token."""
    return machine.lease is not None and any(
        isinstance(a, Set) and a.column == machine.lease.token_hash
        for a in machine.transition(name).assign
    )


def _own_claim(machine: Machine, name: str, row: Answered, params: Row) -> Answered | Refused:
    lease = machine.lease
    assert lease is not None
    token = next(
        a.source.name
        for a in machine.transition(name).assign
        if isinstance(a, Set) and a.column == lease.token_hash and isinstance(a.source, Param)
    )
    if row[lease.token_hash.name] == params[token]:
        return row
    holder = row[lease.holder.name]
    return Refused(
        transition=name,
        reason=Reason.GUARD,
        key=str(row[machine.key.name]),
        state=str(row[machine.state.name]),
        guard="held",
        lost=LostLease(
            None, int(row[lease.generation.name] or 0), None if holder is None else str(holder)
        ),
    )


def blocker(program: Program, index: str, row: Row) -> Operation[Answered | None]:
    """Read the row that holds the slot which `row` would enter; None when it is gone by now.

    Raises:
        IllegalTransition: No rule of the machine, but a user's own index refused it.
    """
    machine = program.machine
    name = rule_of_index(machine, index)
    if name is None:
        raise IllegalTransition(f"the database refused the row: {index} is unique")
    rule = next(rule for rule in machine.uniqueness if rule.name == name)
    wanted: dict[str, Plain] = {column.name: row[column.name] for column in rule.columns}
    answer = yield Query(program.blocker(name), wanted)
    return program.row(answer.rows[0]) if answer.rows else None
