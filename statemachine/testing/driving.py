"""A store and its model, driven by the same calls and compared after each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, assert_never

from statemachine.admission import admit_params
from statemachine.errors import IllegalTransition, SqlatchError
from statemachine.kinds import MILLISECOND
from statemachine.outcome import Refused
from statemachine.row_call import RowCall
from statemachine.testing.asked import Asked, Together
from statemachine.testing.choosing import rank
from statemachine.testing.history_laws import history_faults
from statemachine.testing.model import Made, Outcome, Stored
from statemachine.testing.story import Disagreement, differing, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from statemachine.kinds import Row
    from statemachine.testing.faces import Rows, StoppedClock
    from statemachine.testing.model import Answer, Model

_EVERYTHING = 1_000
_UNKNOWN = "unnamed"


class Driver:
    """Makes calls of a store and of its model, and compares them.

    Every method raises `Disagreement` where the store answers, or afterwards holds, something else
    than its declaration says.
    """

    def __init__(self, model: Model, rows: Rows, clock: StoppedClock) -> None:
        self._model = model
        self._machine = model.machine
        self._rows = rows
        self._clock = clock
        self._story: list[str] = []

    @property
    def story(self) -> tuple[str, ...]:
        """What was done so far, and what came of it."""
        return tuple(self._story)

    def make(self, asked: Asked | Together) -> None:
        """Make one call, or several together."""
        if isinstance(asked, Together):
            self._make_together(asked)
            return
        self._clock.ms += asked.after // MILLISECOND
        found = _answered(lambda: self._call(asked))
        key = self._key_of(found) if asked.key is None else asked.key
        made = self._made(asked, key)
        self._settle(str(asked), self._outcomes(asked, made), found)
        self._compare([key])

    def _call(self, asked: Asked) -> Any:
        rows = self._rows
        match asked.kind:
            case "create":
                return rows.create(asked.name, asked.values, call=asked.call, actor=asked.actor)
            case "apply":
                key = str(asked.key)
                return rows.apply(asked.name, key, asked.values, call=asked.call, actor=asked.actor)
            case "next":
                return rows.next(
                    asked.name,
                    asked.values,
                    exclude=asked.exclude,
                    call=asked.call,
                    actor=asked.actor,
                )
        assert_never(asked.kind)

    def _outcomes(self, asked: Asked, made: Made) -> list[Outcome]:
        machine, model = self._machine, self._model
        match asked.kind:
            case "create":
                params = admit_params(machine.creation(asked.name).params, asked.values)
                return model.create(asked.name, params, made)
            case "apply":
                params = admit_params(machine.transition(asked.name).params, asked.values)
                return model.apply(asked.name, str(asked.key), params, made)
            case "next":
                params = admit_params(machine.selection_params(asked.name), asked.values)
                return model.next(asked.name, params, asked.exclude, made)
        assert_never(asked.kind)

    def _make_together(self, asked: Together) -> None:
        calls = [RowCall(str(one.key), one.values, one.call) for one in asked.calls]
        actor = asked.calls[0].actor if calls else None
        found = _answered(lambda: self._rows.apply_many(asked.name, calls, actor=actor))
        steps = [f"together, {one}" for one in asked.calls]
        if isinstance(found, SqlatchError):
            self._story += steps
            self._disagree("an outcome of each call", told(self._machine, None, found))
        declared = self._machine.transition(asked.name).params
        ways = self._model.apply_many(
            asked.name,
            [
                (str(one.key), admit_params(declared, one.values), self._made(one, one.key))
                for one in asked.calls
            ],
        )
        best = max(ways, key=lambda way: sum(map(self._right, way, found)))
        for step, outcomes, answer in zip(steps, best, found, strict=True):
            self._settle(step, outcomes, answer)
        self._compare([one.key for one in asked.calls])

    def _key_of(self, answer: Any) -> str | None:
        """Return the key of an answered record; None for any other answer."""
        name = self._machine.key.name
        return None if isinstance(answer, Refused | SqlatchError) else str(getattr(answer, name))

    def _made(self, asked: Asked, key: str | None) -> Made:
        """Return who made a call and when; an id that the store minted stands in its history."""
        call = asked.call
        if call is None and key is not None:
            known = len(self._model.events.get(key, ()))
            new = self._rows.history(key, after_revision=known)
            call = new[0].call if new else None
        return Made(asked.actor, self._clock.ms, call or _UNKNOWN, given=asked.call is not None)

    def _right(self, outcomes: list[Outcome], found: object) -> bool:
        return any(self._agrees(outcome.answer, found) for outcome in outcomes)

    def _agrees(self, answer: Answer, found: object) -> bool:
        match answer:
            case Stored(row=row):
                return bool(found == self._model.record(row))
            case Refused():
                return answer == found
            case IllegalTransition():
                return isinstance(found, IllegalTransition)
            case SqlatchError():
                return type(answer) is type(found) and answer.args == found.args
        assert_never(answer)

    def _settle(self, step: str, outcomes: list[Outcome], found: object) -> None:
        """Let the outcome happen that the store answered."""
        key = self._key_of(found)
        before = None if key is None else self._model.rows.get(key)
        right = [one for one in outcomes if self._agrees(one.answer, found)]
        if not right:
            self._story.append(step)
            self._disagree(*self._sides(before, outcomes[0].answer, found))
        self._story.append(f"{step} {told(self._machine, before, found)}")
        self._model.accept(right[0])

    def _sides(self, before: Row | None, declared: Answer, found: object) -> tuple[str, str]:
        """Return what the machine says, and what the store answered."""
        one: object = self._model.record(declared.row) if isinstance(declared, Stored) else declared
        if isinstance(declared, Stored) and self._key_of(found) is not None:
            return differing(one, found)
        return told(self._machine, before, one), told(self._machine, before, found)

    def _compare(self, touched: Iterable[str | None]) -> None:
        """Compare every record, and the whole history of the rows that were touched."""
        declared = {key: self._model.record(row) for key, row in self._model.rows.items()}
        listed = self._rows.list(limit=_EVERYTHING)
        found = {self._key_of(record): record for record in listed}
        for key in dict.fromkeys((*declared, *found)):
            if declared.get(str(key)) != found.get(key):
                self._disagree_on(key, declared.get(str(key)), found.get(key))
        if [self._key_of(record) for record in listed] not in self._orders():
            self._disagree("a list in the declared order", ", ".join(map(str, found)))
        for key in touched:
            if key is not None:
                self._compare_row(key, declared.get(key))

    def _compare_row(self, key: str, declared: object) -> None:
        found = self._rows.get(key)
        if found != declared:
            self._disagree_on(key, declared, found)
        events = self._rows.history(key, limit=_EVERYTHING)
        expected = self._model.events.get(key, [])
        for number in range(max(len(events), len(expected))):
            one, other = expected[number : number + 1], events[number : number + 1]
            if one != other:
                said, is_ = differing(next(iter(one), None), next(iter(other), None))
                self._disagree(
                    f"event {number + 1} of {key!r}: {said}", f"event {number + 1}: {is_}"
                )
        faults = history_faults(self._machine, events, self._model.rows[key]) if events else ()
        if faults:
            self._disagree(f"a lawful history of {key!r}", "; ".join(faults))

    def _orders(self) -> list[list[str]]:
        """Return the keys in the order of lists, with NULL before everything, and behind it."""
        columns = [column.name for column in self._machine.listed_by or (self._machine.key,)]
        return [
            sorted(rows, key=lambda key: rank([rows[key][n] for n in columns], nulls_first=first))
            for rows in (self._model.rows,)
            for first in (True, False)
        ]

    def _disagree_on(self, key: object, declared: object, found: object) -> NoReturn:
        said, is_ = differing(declared, found)
        self._disagree(f"row {key!r}: {said}", f"row {key!r}: {is_}")

    def _disagree(self, declared: str, found: str) -> NoReturn:
        # All from one place: to Hypothesis it is one failure, of which it shrinks the shortest.
        raise Disagreement(self._machine.name, self._story, declared, found)


def _answered(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except SqlatchError as error:
        return error
