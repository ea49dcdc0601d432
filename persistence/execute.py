"""What a call does: one guarded statement, and the reading that explains it when nothing moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from persistence import history
from persistence.binds import (
    ACTOR_BIND,
    ACTOR_KIND_BIND,
    CALL_BIND,
    EXCLUDE_BIND,
    KEY_BIND,
)
from persistence.compile import (
    Statement,
    rule_of_index,
)
from persistence.operation import EXPIRED, Clash, Query
from persistence.refusal import REPEATED, blocker, explain, read, recall
from statemachine import simulate
from statemachine.errors import (
    IdentityConflict,
    IllegalTransition,
    StoreBusy,
    UniquenessConflict,
)
from statemachine.outcome import Reason, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from persistence.compile import Program
    from persistence.operation import Caller, Operation
    from statemachine.kinds import Row

ATTEMPTS = 3
"""How often a call is tried that would have succeeded by the time its refusal was explained."""


def _bound(params: Row, caller: Caller, key: str | None = None) -> dict[str, object]:
    return {
        **params,
        KEY_BIND: key,
        CALL_BIND: caller.call,
        ACTOR_BIND: caller.actor.name,
        ACTOR_KIND_BIND: caller.actor.kind,
    }


def apply(
    program: Program, name: str, key: str, params: Row, caller: Caller
) -> Operation[Row | Refused]:
    """Make a transition.

    Returns:
        The plain row afterwards, or why it did not move. A call whose id is in the row's history
        is answered from there and moves nothing.

    Raises:
        IdentityConflict: The call id was used for another transition.
    """
    statement = program.update(name)
    fragile = statement.entering or caller.given
    query = Query(statement, _bound(params, caller, key), fragile)
    for _ in range(ATTEMPTS):
        try:
            answer = yield query
        except Clash as clash:
            outcome = yield from _clashed(program, name, key, params, caller, clash)
        else:
            if answer.rows:
                return program.row(answer.rows[0])
            outcome = yield from explain(program, name, key, params, caller)
        if outcome is not None:
            return outcome
    return Refused(transition=name, reason=Reason.RACED, key=key)


def _clashed(  # noqa: PLR0917 - a call's own parts
    program: Program, name: str, key: str, params: Row, caller: Caller, clash: Clash
) -> Operation[Row | Refused | None]:
    if clash.name == EXPIRED:
        return None
    if clash.name == REPEATED:
        return (yield from recall(program, name, key, params, caller))
    row, now = yield from read(program, key)
    verdict = simulate.decide(program.machine, row, name, params, now, actor=caller.actor)
    if isinstance(verdict, Refused):
        return evolve(verdict, key=key)
    other = yield from blocker(program, clash.name, verdict.row)
    if other is None:
        return None
    assert row is not None
    return Refused(
        transition=name,
        reason=Reason.UNIQUE,
        key=key,
        state=str(row[program.machine.state.name]),
        guard=rule_of_index(program.machine, clash.name),
        blocker=program.record(other),
        blocked_by=_key(program, other),
    )


def create(program: Program, name: str, params: Row, caller: Caller) -> Operation[tuple[Row, bool]]:
    """Create a row, or find the one that an earlier creation with the same facts left.

    Returns:
        The stored row, and whether this call created it.

    Raises:
        IdentityConflict: The key exists with other facts.

        UniquenessConflict: A uniqueness rule refused it; carries the record in the way.

        IllegalTransition: A user's own unique index refused it.

        StoreBusy: Whatever was in the way was gone when it was looked for, time and again.
    """
    machine = program.machine
    foreign: Clash | None = None
    for _ in range(ATTEMPTS):
        try:
            answer = yield Query(program.insert(name), _bound(params, caller), fragile=True)
        except Clash as clash:
            if clash.name == EXPIRED:
                continue
            wanted = simulate.create(machine, name, params, 0).row
            if rule_of_index(machine, clash.name) is not None:
                other = yield from blocker(program, clash.name, wanted)
                if other is not None:
                    raise UniquenessConflict(
                        str(rule_of_index(machine, clash.name)), program.record(other)
                    ) from clash
                continue
            foreign = clash  # or the key's, whose row was gone in between
        else:
            if answer.rows:
                return program.row(answer.rows[0]), True
            wanted = simulate.create(machine, name, params, 0).row
        stored, _now = yield from read(program, str(wanted[machine.key.name]))
        if stored is not None:
            _same_facts(program, name, stored, wanted)
            return stored, False
    if foreign is not None:
        msg = f"the database refused the row: {foreign.name} is unique"
        raise IllegalTransition(msg) from foreign
    msg = "the rows in the way come and go; try again"
    raise StoreBusy(msg)


def _same_facts(program: Program, name: str, stored: Row, wanted: Row) -> None:
    columns = program.machine.creation(name).identity
    differs = [c.name for c in columns if stored[c.name] != wanted[c.name]]
    if differs:
        key = str(stored[program.machine.key.name])
        raise IdentityConflict(program.machine.name, key, differs)


def created_before(program: Program, name: str, caller: Caller) -> Operation[str | None]:
    """Return the key that an earlier creation of the same call id minted; within a transaction.

    Raises:
        IdentityConflict: The call id was used for something else.
    """
    yield from _lock_call(program, caller)
    machine = program.machine.name
    params = {"machine": machine, "call": caller.call}
    answer = yield Query(history.by_call(program.dialect), params)
    if not answer.rows:
        return None
    event = history.event_of(answer.rows[0])
    if event.transition != name:
        raise IdentityConflict(machine, caller.call, (f"call id of {event.transition}",))
    return event.key


def _lock_call(program: Program, caller: Caller) -> Operation[None]:
    """Let calls of one id that name no row come one after another; no index knows them as one."""
    lock = program.dialect.call_lock()
    if lock is not None:
        yield Query(Statement(lock), {"machine": program.machine.name, "call": caller.call})


def take_next(
    program: Program, name: str, params: Row, caller: Caller, exclude: Sequence[str] = ()
) -> Operation[Row | Refused]:
    """Make a selection's transition on its next row; under a given id within a transaction.

    Returns:
        The plain row afterwards, or a refusal: `nothing` to take, or all `locked` just now.
    """
    selection = program.machine.selection(name)
    if caller.given:
        yield from _lock_call(program, caller)
        repeated = yield from recall(program, selection.transition, None, params, caller)
        if repeated is not None:
            return repeated
    bound = _bound(params, caller)
    bound[EXCLUDE_BIND] = program.dialect.as_list(exclude)
    statement = program.next(name)
    try:
        answer = yield Query(statement, bound, fragile=statement.entering or caller.given)
    except Clash:
        return (yield from _take_by_key(program, name, params, caller, exclude))
    if answer.rows:
        return program.row(answer.rows[0])
    if program.dialect.row_locks:
        answer = yield Query(program.look(name), bound)
        if answer.rows[0][0] is not None:
            return Refused(transition=name, reason=Reason.LOCKED)
    return Refused(transition=name, reason=Reason.NOTHING)


def _take_by_key(
    program: Program, name: str, params: Row, caller: Caller, exclude: Sequence[str]
) -> Operation[Row | Refused]:
    """Choose first, then update by key: a unique index does not say which row it refused."""
    losers = list(exclude)
    transition = program.machine.selection(name).transition
    for _ in range(ATTEMPTS):
        bound = _bound(params, caller) | {EXCLUDE_BIND: program.dialect.as_list(losers)}
        answer = yield Query(program.look(name), bound)
        key = answer.rows[0][0]
        if key is None:
            return Refused(transition=name, reason=Reason.NOTHING)
        outcome = yield from apply(program, transition, key, params, caller)
        if not isinstance(outcome, Refused):
            return outcome
        losers.append(key)
    return Refused(transition=name, reason=Reason.LOCKED)


def _key(program: Program, row: Row) -> str:
    return str(row[program.machine.key.name])
