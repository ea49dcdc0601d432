"""Many calls of one transition: one statement over arrays, or one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from persistence.binds import (
    ACTOR_BIND,
    ACTOR_KIND_BIND,
    CALL_BIND,
    EXCLUDE_BIND,
    KEY_BIND,
    LIMIT_BIND,
    NOW_BIND,
    CallTerms,
)
from persistence.compile import (
    Statement,
)
from persistence.dialect import Placeholder, TextList, Whole, list_type, text_of
from persistence.execute import apply
from persistence.expressions import Scope
from persistence.operation import Clash, Query
from persistence.refusal import explain
from statemachine.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from persistence.call import Call
    from persistence.codec import Answered
    from persistence.compile import Program
    from persistence.operation import Operation
    from statemachine.kinds import Row
    from statemachine.outcome import Refused
    from statemachine.parts import Transition

_OWN = (KEY_BIND, CALL_BIND, ACTOR_BIND, ACTOR_KIND_BIND)


def apply_many(
    program: Program, name: str, calls: Sequence[Call]
) -> Operation[list[Answered | Refused]]:
    """Make one transition on many rows; to be run as one transaction.

    Returns:
        Each call's own outcome, in the order given.

    Raises:
        InvalidArgument: A key is given twice.

        IdentityConflict: A call id was used for another transition.
    """
    if len({call.key for call in calls}) < len(calls):
        raise InvalidArgument("calls", "of different rows")
    moved: dict[int, Answered] = {}
    if program.dialect.arrays and calls:
        moved = yield from at_once(program, name, calls)
    outcomes: dict[int, Answered | Refused] = {}
    # Where nothing moved, nothing is locked yet: one by one is in the order of the keys too.
    for number, call in sorted(enumerate(calls), key=lambda numbered: numbered[1].key):
        outcome: Answered | Refused | None = moved.get(number)
        if outcome is None and moved:
            outcome = yield from explain(program, name, call)
        if outcome is None:
            outcome = yield from apply(program, name, call, program.row)
        outcomes[number] = outcome
    return [outcomes[number] for number in range(len(calls))]


def at_once(program: Program, name: str, calls: Sequence[Call]) -> Operation[dict[int, Answered]]:
    """Move what can be moved by one statement; nothing where another row is in the way of one."""
    names = [param.name for param in program.machine.transition(name).params]
    bound = {name: [call.params[name] for call in calls] for name in (*names, *_OWN)}
    statement = update_many(program, name)
    fragile = statement.entering or any(call.given for call in calls)
    try:
        answer = yield Query(statement, bound, fragile=fragile)
    except Clash:
        return {}
    return {int(row[0]) - 1: program.row(row[1:]) for row in answer.rows}


def update_many(program: Program, name: str) -> Statement:
    """Return the UPDATE of many calls of a transition: each parameter is an array."""
    return program.once("update many", name, lambda: _update_many(program, name))


def _update_many(program: Program, name: str) -> Statement:
    """Lock the rows in the order of their keys, then read the clock: unsorted batches deadlock."""
    transition = program.machine.transition(name)
    key = program.table.c[program.machine.key.name]
    given = _given(transition)
    keys = Placeholder(KEY_BIND, TextList())
    locked = sa.select(key).where(key == sa.func.any(keys)).order_by(key).with_for_update()
    waited = sa.select(sa.func.count()).select_from(
        locked.cte("locked").prefix_with("MATERIALIZED")
    )
    now = program.dialect.clock() if program.server_clock else Placeholder(NOW_BIND, Whole())
    clock = sa.select(now.label("now")).select_from(waited.subquery("waited")).cte("clock")
    moment = clock.prefix_with("MATERIALIZED").c.now
    scope = Scope(
        program.machine,
        program.dialect,
        lambda column: program.table.c[column],
        moment,
        lambda param: given.c[param.name],
    )
    call = CallTerms(given.c[CALL_BIND], given.c[ACTOR_BIND], given.c[ACTOR_KIND_BIND])
    entering = program.update[name].entering
    query = (
        sa.update(program.table)
        .where(key == given.c[KEY_BIND], *program.guarded(transition, scope))
        .values(program.values(transition, scope, call))
        .returning(given.c.number, *program.answer(transition.assign, waits=entering))
    )
    return Statement(text_of(query, program.dialect.statements), entering)


def _given(transition: Transition) -> Any:
    lists = [Placeholder(p.name, list_type(p.kind)) for p in transition.params]
    own = [Placeholder(name, TextList()) for name in _OWN]
    names = [*(p.name for p in transition.params), *_OWN]
    rows = sa.func.unnest(*lists, *own).table_valued(
        *(sa.column(name) for name in names), with_ordinality="number", name="given"
    )
    return rows.render_derived()


def choose_many(
    program: Program, name: str, params: Row, limit: int, exclude: Sequence[str] = ()
) -> Operation[list[str]]:
    """Choose up to `limit` rows of a selection, in its order; locked where rows can be."""
    bound: dict[str, object] = dict(params)
    chosen: list[str] = []
    selection = program.machine.selection(name)
    for number in range(len(selection.arms)):
        if len(chosen) == limit:
            break
        bound[EXCLUDE_BIND] = program.dialect.as_list([*exclude, *chosen])
        bound[LIMIT_BIND] = limit - len(chosen)
        answer = yield Query(program.choices(name, number), bound)
        chosen += [str(row[0]) for row in answer.rows]
    return chosen
