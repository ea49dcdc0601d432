"""Taking deliveries: what a holder presents, and several rows by one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from persistence.execute import take_next
from persistence.refusal import read, recall
from persistence.stores.claims import part_of
from statemachine.errors import InvalidArgument
from statemachine.machines import HolderKind
from statemachine.outcome import Moved, Refused
from statemachine.simulate import decide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from persistence.compile import Program
    from persistence.engine import Engine
    from persistence.operation import Operation
    from statemachine.kinds import Row
    from statemachine.outcome import Actor

DEFAULT_LIMIT = 20
MAX_BATCH = 100


def delivering(
    holder: str, lease: timedelta, holder_kind: HolderKind | str, token: bytes
) -> Mapping[str, object]:
    """Return what a claim of a delivery presents.

    Raises:
        InvalidArgument: Another kind of holder than a session or a host.
    """
    if holder_kind not in (HolderKind.SESSION, HolderKind.HOST):
        raise InvalidArgument("holder_kind", "session or host")
    return {"holder": holder, "holder_kind": holder_kind, "lease": lease, "token": token}


def is_live(
    program: Program, name: str, key: str, presented: Mapping[str, object]
) -> Operation[bool]:
    """Tell whether a holder could make a transition just now, its lease not expired.

    Args:
        program: The machine's statements.

        name: A transition that only the holder makes, expired or not.

        key: The row.

        presented: What the holder presents.
    """
    row, now = yield from read(program, key)
    params = program.machine.transition(name).admission(presented)
    verdict = decide(program.machine, row, name, params, now)
    if row is None or not isinstance(verdict, Moved):
        return False
    return int(row["lease_expires_at"] or 0) > now


def take_batch(
    program: Program,
    name: str,
    params: Row,
    *,
    engine: Engine,
    actor: Actor,
    call: str | None,
    limit: int,
    exclude: Sequence[str] = (),
) -> Operation[list[Row]]:
    """Take the next rows of a selection, each once, under one token.

    Args:
        program, name, params: The selection and what it needs.

        engine, actor, call: Who calls, and under which id; repeated, the call answers what it took
            and takes nothing more.

        limit: Most rows.

        exclude: Keys that are passed over.
    """
    if call is not None:
        repeated = yield from _recalled(program, name, params, engine=engine, call=call)
        if repeated is not None:
            return repeated
    rows: list[Row] = []
    taken = list(exclude)
    for number in range(limit):
        one = None if call is None else part_of(call, number)
        made = engine.call_of(params, "", one, actor)
        row = yield from take_next(program, name, made, program.row, taken)
        if isinstance(row, Refused):
            break
        rows.append(row)
        taken.append(str(row[program.machine.key.name]))
    return rows


def _recalled(
    program: Program, name: str, params: Row, *, engine: Engine, call: str
) -> Operation[list[Row] | None]:
    """Return what an earlier call of this id still holds; None where there was none."""
    transition = program.machine.selection(name).transition
    rows: list[Row] = []
    for number in range(MAX_BATCH):
        one = engine.call_of(params, "", part_of(call, number))
        outcome = yield from recall(program, transition, one)
        if outcome is None:
            return rows if number else None
        if not isinstance(outcome, Refused):
            rows.append(outcome)
    return rows
