"""What the rows of a machine must be: the in-memory machine, over many rows and their rules."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from attrs import evolve, frozen

from statemachine import simulate
from statemachine.errors import (
    IdentityConflict,
    IllegalTransition,
    SqlatchError,
    UniquenessConflict,
)
from statemachine.kinds import present
from statemachine.outcome import LostLease, Moved, Reason, Refused
from statemachine.path import broken
from statemachine.testing.choosing import Choice
from statemachine.testing.places import in_the_way
from statemachine.vocabulary import Param, Set

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from statemachine.kinds import Row
    from statemachine.machine import Machine
    from statemachine.outcome import Actor, Event


@frozen
class Made:
    """Who makes a call, when, and under which id.

    Attributes:
        actor: Who.

        now: Milliseconds since the Unix epoch.

        call: The call's id.

        given: Whether the caller chose the id; only then is a repetition recognised.
    """

    actor: Actor
    now: int
    call: str
    given: bool


@frozen
class Stored:
    """The call answers a record: that of this plain row."""

    row: Row


Answer: TypeAlias = Stored | Refused | SqlatchError


@frozen
class Outcome:
    """One right way for a call to end.

    Attributes:
        answer: What the caller is told.

        moved: What changed; None: nothing.
    """

    answer: Answer
    moved: Moved | None = None


class Model:
    """The rows of a machine, as its declaration has them.

    Each question answers every right outcome: where two uniqueness rules refuse a row, either may
    be named. `accept` makes one of them happen.

    Attributes:
        rows: The plain rows, by key.

        seen: What each row has ever been, oldest first.

        events: Each row's history.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.rows: dict[str, Row] = {}
        self.seen: dict[str, list[Row]] = {}
        self.events: dict[str, list[Event]] = {}

    def record(self, row: Row) -> Any:
        """Return the record of a plain row."""
        return record_of(self.machine, row)

    def accept(self, outcome: Outcome) -> None:
        """Let an outcome happen."""
        moved = outcome.moved
        if moved is None:
            return
        key = str(moved.row[self.machine.key.name])
        self.rows[key] = moved.row
        self.seen.setdefault(key, []).append(moved.row)
        if moved.event is not None:
            self.events.setdefault(key, []).append(moved.event)

    def create(self, name: str, params: Row, made: Made) -> list[Outcome]:
        """Return how a creation may end."""
        machine = self.machine
        new = simulate.create(machine, name, params, made.now, actor=made.actor, call=made.call)
        key = str(new.row[machine.key.name])
        stored = self.rows.get(key)
        if stored is not None:
            columns = machine.creation(name).identity
            differs = [c.name for c in columns if stored[c.name] != new.row[c.name]]
            if differs:
                return [Outcome(IdentityConflict(machine.name, key, differs))]
            return [Outcome(Stored(stored))]
        refusals: list[Outcome] = [
            Outcome(UniquenessConflict(rule.name, self.record(other)))
            for rule, other in in_the_way(machine, self.rows, new.row)
        ]
        if broken(machine, new.row):
            refusals.append(Outcome(IllegalTransition(f"not {broken(machine, new.row)}")))
        return refusals or [Outcome(Stored(new.row), new)]

    def apply(self, name: str, key: str, params: Row, made: Made) -> list[Outcome]:
        """Return how a transition may end."""
        repeated = self._recalled(name, key, params, made)
        if repeated is not None:
            return [Outcome(repeated)]
        return self._moved(name, key, params, made)

    def apply_many(
        self, name: str, calls: Sequence[tuple[str, Row, Made]]
    ) -> list[list[list[Outcome]]]:
        """Return how several calls may end: one after the other, or, if none clashes, at once."""
        after = self._copied()
        in_turn: list[list[Outcome]] = []
        for key, params, made in calls:
            outcomes = after.apply(name, key, params, made)
            after.accept(outcomes[0])
            in_turn.append(outcomes)
        return [in_turn, *self._at_once(name, calls)]

    def next(self, name: str, params: Row, exclude: Collection[str], made: Made) -> list[Outcome]:
        """Return how a selection may end."""
        selection = self.machine.selection(name)
        transition = selection.transition
        repeated = self._recalled(transition, None, params, made)
        if repeated is not None:
            return [Outcome(repeated)]
        outcomes: list[Outcome] = []
        for queue in Choice(self.machine, selection, self.rows, params, made.now).queues():
            tried = [
                self._moved(transition, key, params, made)[0] for key in queue if key not in exclude
            ]
            taken = [outcome for outcome in tried if outcome.moved is not None]
            nothing = Outcome(Refused(transition=name, reason=Reason.NOTHING))
            outcomes.append(taken[0] if taken else nothing)
            if tried[:1] != taken[:1]:
                # Whoever meets row after row whose places are held may give up.
                outcomes.append(Outcome(Refused(transition=name, reason=Reason.LOCKED)))
        return outcomes

    def _moved(self, name: str, key: str, params: Row, made: Made) -> list[Outcome]:
        row = self.rows.get(key)
        verdict = simulate.decide(
            self.machine, row, name, params, made.now, actor=made.actor, call=made.call
        )
        if isinstance(verdict, Refused):
            return [Outcome(evolve(verdict, key=key))]
        assert row is not None
        refusals = [
            Outcome(
                Refused(
                    transition=name,
                    reason=Reason.UNIQUE,
                    key=key,
                    state=str(row[self.machine.state.name]),
                    guard=rule.name,
                    blocker=self.record(other),
                    blocked_by=str(other[self.machine.key.name]),
                )
            )
            for rule, other in in_the_way(self.machine, self.rows, verdict.row)
        ]
        return refusals or [Outcome(Stored(verdict.row), verdict)]

    def _at_once(
        self, name: str, calls: Sequence[tuple[str, Row, Made]]
    ) -> Iterator[list[list[Outcome]]]:
        after = self._copied()
        outcomes: list[list[Outcome]] = []
        for key, params, made in calls:
            alone = self.apply(name, key, params, made)
            row = self.rows.get(key)
            if isinstance(alone[0].answer, Refused) and alone[0].answer.reason is Reason.UNIQUE:
                moved = simulate.decide(
                    self.machine, row, name, params, made.now, actor=made.actor, call=made.call
                )
                assert isinstance(moved, Moved)
                alone = [Outcome(Stored(moved.row), moved)]
            after.accept(alone[0])
            outcomes.append(alone)
        if not any(in_the_way(self.machine, after.rows, row) for row in after.rows.values()):
            yield outcomes

    def _copied(self) -> Model:
        other = copy.copy(self)
        other.rows = dict(self.rows)
        other.seen = {key: list(rows) for key, rows in self.seen.items()}
        other.events = {key: list(events) for key, events in self.events.items()}
        return other

    def _recalled(self, name: str, key: str | None, params: Row, made: Made) -> Answer | None:
        """Return what a call that was made before answers now; it moves nothing."""
        if not made.given:
            return None
        events = [
            event
            for _, steps in sorted(self.events.items())
            for event in steps
            if event.call == made.call and key in (None, event.key)
        ]
        if not events:
            return None
        if events[0].transition != name:
            used = (f"call id of {events[0].transition}",)
            return IdentityConflict(self.machine.name, made.call, used)
        row = self.rows[events[0].key]
        token = self._presented(name)
        lease = self.machine.lease
        if lease is None or token is None or row[lease.token_hash.name] == params[token]:
            return Stored(row)
        holder = row[lease.holder.name]
        generation = int(row[lease.generation.name] or 0)
        return Refused(
            transition=name,
            reason=Reason.GUARD,
            key=events[0].key,
            state=str(row[self.machine.state.name]),
            guard="held",
            lost=LostLease(None, generation, None if holder is None else str(holder)),
        )

    def _presented(self, name: str) -> str | None:
        """Return the parameter by which a transition takes the lease, if it does."""
        lease = self.machine.lease
        for assignment in self.machine.transition(name).assign:
            match assignment:
                case Set(column=column, source=Param(name=param)):
                    if lease is not None and column == lease.token_hash:
                        return param
                case _:
                    pass
        return None


def record_of(machine: Machine, row: Row) -> Any:
    """Return a plain row as the machine's record; engine columns that it lacks are left out."""
    return machine.record(
        **{
            attribute.alias: None
            if row[attribute.name] is None
            else present(machine.fields[attribute.name].kind, row[attribute.name])
            for attribute in attrs.fields(machine.record)
        }
    )
