"""What a call does: one guarded statement, and the reading that explains it when nothing moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from attrs import evolve

from persistence import history
from persistence.binds import EXCLUDE_BIND, KEY_BIND
from persistence.compile import (
    Statement,
    rule_of_index,
)
from persistence.operation import EXPIRED, Clash, Direct, Query
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

    from persistence.call import Call
    from persistence.codec import Answered
    from persistence.compile import Program
    from persistence.operation import Operation, Tell
    from statemachine.kinds import Row

_T = TypeVar("_T")

ATTEMPTS = 3
"""How often a call is tried that would have succeeded by the time its refusal was explained."""


def apply(
    program: Program, name: str, call: Call, tell: Tell[_T], attempt: int = 1
) -> Operation[_T | Refused]:
    """Make a transition.

    Args:
        program: The machine's statements.

        name: The transition.

        call: Names the row.

        tell: What is made of the moved row.

        attempt: Which of `ATTEMPTS` it is.

    Returns:
        What is made of the row, or why it did not move. A call whose id is in the row's history is
        answered from there and moves nothing.

    Raises:
        IdentityConflict: The call id was used for another transition.
    """
    statement = program.update[name]
    fragile = statement.entering or call.given
    given = (program, name, call, tell, attempt)
    return Direct(statement, call.params, fragile, tell, _not_moved, given)


def _not_moved(  # noqa: PLR0917 - how it went, and what `apply` was given
    clash: Clash | None, program: Program, name: str, call: Call, tell: Tell[_T], attempt: int
) -> Operation[_T | Refused]:
    if clash is None:
        outcome = yield from explain(program, name, call)
    else:
        outcome = yield from _clashed(program, name, call, clash)
    if outcome is not None:
        return outcome if isinstance(outcome, Refused) else tell(outcome.cells)
    if attempt == ATTEMPTS:
        return Refused(transition=name, reason=Reason.RACED, key=call.key)
    return (yield from apply(program, name, call, tell, attempt + 1))


def _clashed(
    program: Program, name: str, call: Call, clash: Clash
) -> Operation[Answered | Refused | None]:
    if clash.name == EXPIRED:
        return None
    if clash.name == REPEATED:
        return (yield from recall(program, name, call))
    row, now = yield from read(program, call.key)
    verdict = simulate.decide(program.machine, row, name, call.params, now, actor=call.actor)
    if isinstance(verdict, Refused):
        return evolve(verdict, key=call.key)
    other = yield from blocker(program, clash.name, verdict.row)
    if other is None:
        return None
    assert row is not None
    return Refused(
        transition=name,
        reason=Reason.UNIQUE,
        key=call.key,
        state=str(row[program.machine.state.name]),
        guard=rule_of_index(program.machine, clash.name),
        blocker=program.record(other),
        blocked_by=_key(program, other),
    )


def create(
    program: Program, name: str, call: Call, tell: Tell[_T], attempt: int = 1
) -> Operation[_T]:
    """Create a row, or find the one that an earlier creation with the same facts left.

    Args:
        program: The machine's statements.

        name: The creation.

        call: Names no row.

        tell: What is made of the stored row.

        attempt: Which of `ATTEMPTS` it is.

    Raises:
        IdentityConflict: The key exists with other facts.

        UniquenessConflict: A uniqueness rule refused it; carries the record in the way.

        IllegalTransition: A user's own unique index refused it.

        StoreBusy: Whatever was in the way was gone when it was looked for, time and again.
    """
    given = (program, name, call, tell, attempt)
    return Direct(program.insert[name], call.params, True, tell, _not_created, given)


def _not_created(  # noqa: PLR0917 - how it went, and what `create` was given
    clash: Clash | None, program: Program, name: str, call: Call, tell: Tell[_T], attempt: int
) -> Operation[_T]:
    index = None if clash is None else clash.name
    if index != EXPIRED:
        wanted = simulate.create(program.machine, name, call.params, 0).row
        rule = None if index is None else rule_of_index(program.machine, index)
        if index is not None and rule is not None:
            other = yield from blocker(program, index, wanted)
            if other is not None:
                raise UniquenessConflict(rule, program.record(other)) from clash
        else:  # the key is there, or a user's own index refused it
            stored, _now = yield from read(program, str(wanted[program.machine.key.name]))
            if stored is not None:
                _same_facts(program, name, stored, wanted)
                return tell(stored.cells)
            if index is not None and attempt == ATTEMPTS:
                msg = f"the database refused the row: {index} is unique"
                raise IllegalTransition(msg) from clash
    if attempt < ATTEMPTS:
        return (yield from create(program, name, call, tell, attempt + 1))
    msg = "the rows in the way come and go; try again"
    raise StoreBusy(msg)


def _same_facts(program: Program, name: str, stored: Row, wanted: Row) -> None:
    columns = program.machine.creation(name).identity
    differs = [c.name for c in columns if stored[c.name] != wanted[c.name]]
    if differs:
        key = str(stored[program.machine.key.name])
        raise IdentityConflict(program.machine.name, key, differs)


def created_before(program: Program, name: str, call: str) -> Operation[str | None]:
    """Return the key that an earlier creation of the same call id minted; within a transaction.

    Raises:
        IdentityConflict: The call id was used for something else.
    """
    yield from _lock_call(program, call)
    machine = program.machine.name
    params = {"machine": machine, "call": call}
    answer = yield Query(history.by_call(program.dialect), params)
    if not answer.rows:
        return None
    event = history.event_of(answer.rows[0])
    if event.transition != name:
        raise IdentityConflict(machine, call, (f"call id of {event.transition}",))
    return event.key


def _lock_call(program: Program, call: str) -> Operation[None]:
    """Let calls of one id that name no row come one after another; no index knows them as one."""
    lock = program.dialect.call_lock()
    if lock is not None:
        yield Query(Statement(lock), {"machine": program.machine.name, "call": call})


def take_next(
    program: Program, name: str, call: Call, tell: Tell[_T], exclude: Sequence[str] = ()
) -> Operation[_T | Refused]:
    """Make a selection's transition on its next row; under a given id within a transaction.

    Args:
        program: The machine's statements.

        name: The selection.

        call: Names no row.

        tell: What is made of the moved row.

        exclude: Keys that are passed over.

    Returns:
        What is made of the row, or a refusal: `nothing` to take, or all `locked` just now.
    """
    bound = {**call.params, EXCLUDE_BIND: program.dialect.as_list(exclude)}
    statement = program.next[name]
    fragile = statement.entering or call.given
    given = (program, name, call, tell, exclude)
    taking = Direct(statement, bound, fragile, tell, _none_taken, given)
    return _once(program, name, call, tell, taking) if call.given else taking


def _once(
    program: Program, name: str, call: Call, tell: Tell[_T], taking: Operation[_T | Refused]
) -> Operation[_T | Refused]:
    """Take under a given id: what it took before is answered again."""
    yield from _lock_call(program, call.id)
    repeated = yield from recall(program, program.machine.selection(name).transition, call)
    if repeated is None:
        return (yield from taking)
    return repeated if isinstance(repeated, Refused) else tell(repeated.cells)


def _none_taken(  # noqa: PLR0917 - how it went, and what `take_next` was given
    clash: Clash | None,
    program: Program,
    name: str,
    call: Call,
    tell: Tell[_T],
    exclude: Sequence[str],
) -> Operation[_T | Refused]:
    if clash is not None:
        return (yield from _take_by_key(program, name, call, tell, exclude))
    if program.dialect.row_locks:
        bound = {**call.params, EXCLUDE_BIND: program.dialect.as_list(exclude)}
        answer = yield Query(program.look(name), bound)
        if answer.rows[0][0] is not None:
            return Refused(transition=name, reason=Reason.LOCKED)
    return Refused(transition=name, reason=Reason.NOTHING)


def _take_by_key(
    program: Program, name: str, call: Call, tell: Tell[_T], exclude: Sequence[str]
) -> Operation[_T | Refused]:
    """Choose first, then update by key: a unique index does not say which row it refused."""
    losers = list(exclude)
    transition = program.machine.selection(name).transition
    for _ in range(ATTEMPTS):
        bound = {**call.params, EXCLUDE_BIND: program.dialect.as_list(losers)}
        answer = yield Query(program.look(name), bound)
        key = answer.rows[0][0]
        if key is None:
            return Refused(transition=name, reason=Reason.NOTHING)
        one = call._replace(params={**call.params, KEY_BIND: key}, key=key)
        outcome = yield from apply(program, transition, one, tell)
        if not isinstance(outcome, Refused):
            return outcome
        losers.append(key)
    return Refused(transition=name, reason=Reason.LOCKED)


def _key(program: Program, row: Row) -> str:
    return str(row[program.machine.key.name])
