"""The face of any machine, the user's own included: `store.machine(M)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from persistence.batching import apply_many
from persistence.binds import LIMIT_BIND
from persistence.execute import create, take_next
from persistence.operation import Query
from persistence.reading import AFTER_BIND, STATES_BIND, Listing, listing
from persistence.refusal import read
from persistence.retention import prune
from persistence.stores.face import (
    MAX_LISTED,
    Face,
    Operations,
    items_of,
    limit_of,
    selecting,
    single,
    whole,
)
from statemachine.errors import InvalidArgument
from statemachine.kinds import Boolean, Duration, admit
from statemachine.outcome import Actor, Event, Refused
from statemachine.row_call import RowCall

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import timedelta

    from persistence.operation import Operation


class RowOperations(Operations):
    """Every operation that a declaration gives, without I/O; records are of the machine's class."""

    def create(
        self,
        name: str,
        values: Mapping[str, object],
        *,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Any]:
        """Make a declared creation.

        Args:
            name: The creation.

            values: Its parameters, by name; Python values.

            call: The call's id, kept over retries; minted when None.

            actor: Who calls; None: the store's.

        Returns:
            The record; the stored one where the same key was created before with the same facts.

        Raises:
            UnknownTransition, InvalidArgument, IdentityConflict, UniquenessConflict: Nothing was
                written.
        """
        params = self.admitted(self.program.machine.creation(name).admission, values)
        made = self.engine.call_of(params, "", call, actor)
        return create(self.program, name, made, self.program.moved)

    def apply(
        self,
        name: str,
        key: str,
        values: Mapping[str, object] | None = None,
        *,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Any | Refused]:
        """Make a declared transition; answers the moved record or why it did not move.

        Raises:
            UnknownTransition, InvalidArgument: Nothing was written.
        """
        return self.call(name, key, values or {}, self.program.moved, call=call, actor=actor)

    def apply_many(
        self, name: str, calls: Sequence[RowCall], *, actor: Actor | None = None
    ) -> Operation[list[Any | Refused]]:
        """Make one transition on several rows, in one transaction.

        Args:
            name: The transition.

            calls: At most 1,000, of different rows.

            actor: Who calls; None: the store's.

        Returns:
            Each call's own outcome, in the order given.

        Raises:
            UnknownTransition, InvalidArgument: Nothing was written.
        """
        admission = self.program.machine.transition(name).admission
        given = []
        for call in items_of(calls, "calls", MAX_LISTED):
            if not isinstance(call, RowCall):
                raise InvalidArgument("calls", "of RowCall")
            params = self.admitted(admission, call.values)
            given.append(self.engine.call_of(params, self.key(call.key), call.call, actor))
        rows = yield from apply_many(self.program, name, given)
        return [row if isinstance(row, Refused) else self.program.moved(row.cells) for row in rows]

    def next(
        self,
        name: str,
        values: Mapping[str, object],
        *,
        exclude: Collection[str] = (),
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Any | Refused]:
        """Make a selection's transition on its next row.

        Args:
            name: The selection.

            values: The parameters of the transition and of the selection's arms.

            exclude: At most 1,000 keys that are passed over.

            call, actor: As for `create`.

        Returns:
            The record, or `Refused`: `nothing` to take, or all of it `locked` just now.

        Raises:
            UnknownTransition, InvalidArgument: Nothing was written.
        """
        selection = self.program.machine.selection(name)
        params = self.admitted(self.program.wanted[selection.name], values)
        made = self.engine.call_of(params, "", call, actor)
        passed = self.excluded(exclude)
        return take_next(self.program, name, made, self.program.moved, passed)

    def get(self, key: str) -> Operation[Any]:
        """Return a record, or None."""
        row, _ = yield from read(self.program, self.key(key))
        return None if row is None else self.program.record(row)

    def history(
        self, key: str, *, after_revision: int = 0, limit: int = 100
    ) -> Operation[list[Event]]:
        """Return a row's steps behind a revision, oldest first; `limit` 1 to 1,000."""
        return (yield from self.steps(key, after_revision=after_revision, limit=limit))

    def list(
        self,
        *,
        states: Collection[str] = (),
        limit: int = 100,
        newest_first: bool = False,
        after: str | None = None,
    ) -> Operation[list[Any]]:
        """List records in the machine's order; `limit` 1 to 1,000, continued behind `after`."""
        machine = self.program.machine
        known = machine.fields[machine.state.name].kind
        chosen = [
            str(admit(known, s, "states")) for s in items_of(states, "states", len(machine.states))
        ]
        params: dict[str, object] = {
            LIMIT_BIND: limit_of(limit),
            STATES_BIND: self.program.dialect.as_list(chosen),
        }
        if after is not None:
            params[AFTER_BIND] = self.key(after, "after")
        wanted = Listing(
            states=bool(chosen),
            after=after is not None,
            newest_first=bool(admit(Boolean(), newest_first, "newest_first")),
        )
        answer = yield Query(listing(self.program, wanted), params)
        return [self.program.record(self.program.row(row)) for row in answer.rows]

    def counts(self) -> Operation[dict[str, int]]:
        """Count the rows in each state, in declared order; it reads every row once."""
        return (yield from self.counted({}))

    def prune(self, older_than: timedelta, *, limit: int = 100) -> Operation[int]:
        """Delete the rows whose final state was reached first, with their histories.

        One call is one short transaction: repeat it until it answers 0.

        Args:
            older_than: How long ago a row must have moved last, 1 ms to 100 years.

            limit: Most rows of this call, 1 to 1,000.

        Returns:
            How many rows were deleted.

        Raises:
            InvalidArgument, IllegalTransition: Nothing was deleted; the latter where a foreign key
                of the user's own stands against it.
        """
        age = int(admit(Duration(), older_than, "older_than") or 0)
        most = limit_of(limit)
        return (yield from prune(self.program, age, most)) if self.program.machine.final else 0


class Rows(Face[RowOperations]):
    """The rows of one machine; see `RowOperations` for each call."""

    create = single(RowOperations.create)
    apply = single(RowOperations.apply)
    apply_many = whole(RowOperations.apply_many)
    next = selecting(RowOperations.next)
    get = single(RowOperations.get)
    history = single(RowOperations.history)
    list = single(RowOperations.list)
    counts = single(RowOperations.counts)
    prune = whole(RowOperations.prune)
