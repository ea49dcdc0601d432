"""How a typed face runs operations that are written without I/O."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from attrs import frozen

from persistence import history
from persistence.clock import SystemClock, milliseconds
from persistence.execute import apply
from persistence.operation import Query
from persistence.reading import counting
from statemachine.errors import InvalidArgument
from statemachine.kinds import MAX_INSTANT, Duration, Integer, admit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from persistence.compile import Program
    from persistence.engine import Engine
    from persistence.operation import Operation, Tell
    from statemachine.admission import Admission
    from statemachine.kinds import Plain, Row
    from statemachine.outcome import Actor, Event, Refused

_O = TypeVar("_O", covariant=True)  # noqa: PLC0105 - short, as the others
_P = ParamSpec("_P")
_T = TypeVar("_T")

MAX_LISTED = 1_000
MAX_EXCLUDED = 1_000


@frozen
class Operations:
    """The operations of one machine; a face runs them.

    Attributes:
        engine: The store's engine.

        program: The machine's statements.
    """

    engine: Engine
    program: Program

    def call(
        self,
        name: str,
        key: object,
        values: Mapping[str, object],
        tell: Tell[_T],
        *,
        call: str | None,
        actor: Actor | None,
        otherwise: Actor | None = None,
    ) -> Operation[_T | Refused]:
        """Validate a transition's arguments, and make it.

        Args:
            name: The transition.

            key: The row's.

            values: The arguments, in Python's form.

            tell: What is made of the row that moved.

            call, actor, otherwise: As for `Engine.call_of`.

        Raises:
            InvalidArgument: A value out of its bounds; nothing was written.
        """
        params = self.admitted(self.program.machine.transition(name).admission, values)
        made = self.engine.call_of(params, self.key(key), call, actor, otherwise)
        return apply(self.program, name, made, tell)

    def admitted(
        self, admission: Admission, values: Mapping[str, object], known: Row | None = None
    ) -> dict[str, Plain]:
        """Return the plain values of a call's arguments; those that are known need no judging.

        Raises:
            InvalidArgument: As `Admission` and `within_time`.
        """
        plain = admission(values, known)
        if self.engine.clock is not None:
            self.within_time(admission, plain)
        return plain

    def within_time(self, admission: Admission, plain: Row) -> None:
        """Refuse what an explicit clock cannot say; no other clock is near it.

        Raises:
            InvalidArgument: A duration that ends after the year 9999.
        """
        now = milliseconds(self.engine.clock or SystemClock())
        for param in admission.params:
            if isinstance(param.kind, Duration) and now + int(plain[param.name] or 0) > MAX_INSTANT:
                raise InvalidArgument(param.name, "a timedelta that ends by 9999-12-31")

    def key(self, value: object, name: str | None = None) -> str:
        """Return a row's key; `name` is that of the argument, where it is not the column's.

        Raises:
            InvalidArgument: It is none.
        """
        field = self.program.key
        return str(admit(field.kind, value, name or field.name))

    def excluded(self, keys: Collection[str]) -> list[str]:
        """Return the keys that a call passes over.

        Raises:
            InvalidArgument: More than 1,000, or one that is none.
        """
        if keys == ():
            return []
        return [self.key(key, "exclude") for key in items_of(keys, "exclude", MAX_EXCLUDED)]

    def counted(self, equal: Mapping[str, object]) -> Operation[dict[str, int]]:
        """Count the rows in each state, where some columns have these plain values."""
        answer = yield Query(counting(self.program, tuple(equal)), equal)
        found = {str(state): int(rows) for state, rows in answer.rows}
        return {state: found.get(state, 0) for state in self.program.machine.states}

    def steps(self, key: object, *, after_revision: int, limit: int) -> Operation[list[Event]]:
        """Read a row's history behind a revision, oldest first.

        Raises:
            InvalidArgument: A bound is broken; `limit` is 1 to 1,000.
        """
        params = {
            "machine": self.program.machine.name,
            "key": self.key(key),
            "after": admit(Integer(), after_revision, "after_revision"),
            "limit": limit_of(limit),
        }
        answer = yield Query(history.of_row(self.program.dialect), params)
        return [history.event_of(row) for row in answer.rows]


@frozen
class Face(Generic[_O]):
    """A synchronous face over a set of operations."""

    _operations: _O
    _engine: Engine


def single(
    operation: Callable[Concatenate[_O, _P], Operation[_T]],
) -> Callable[Concatenate[Face[_O], _P], _T]:
    """Run an operation statement by statement, or in the thread's open transaction."""
    return _written(operation, "face._engine.run(made)")


def whole(
    operation: Callable[Concatenate[_O, _P], Operation[_T]],
) -> Callable[Concatenate[Face[_O], _P], _T]:
    """Run an operation as one transaction."""
    return _written(operation, f"face._engine.run_whole(made{_named(operation)})")


def selecting(
    operation: Callable[Concatenate[_O, _P], Operation[_T]],
) -> Callable[Concatenate[Face[_O], _P], _T]:
    """Run an operation that names no row; one transaction where `call` is given, and no `run_id`.

    Of two such calls of one id the second must see what the first took before it chooses.
    """
    names_a_row = "run_id" in inspect.signature(operation).parameters
    alone = "call is None or run_id is not None" if names_a_row else "call is None"
    whole = f"face._engine.run_whole(made{_named(operation)})"
    return _written(operation, f"face._engine.run(made) if {alone} else {whole}")


def _named(operation: Callable[..., Any]) -> str:
    return ", call" if "call" in inspect.signature(operation).parameters else ""


def _written(
    operation: Callable[Concatenate[_O, _P], Operation[_T]], body: str
) -> Callable[Concatenate[Face[_O], _P], _T]:
    """Write the function of a face, with the operation's own parameters, as attrs does.

    Through `*args, **kwargs` each call packed and unpacked them: 2 % of a renewal.
    """
    _, *params = inspect.signature(operation).parameters.values()
    wanted = [p.name for p in params if p.kind is not p.KEYWORD_ONLY]
    named = [p.name for p in params if p.kind is p.KEYWORD_ONLY]
    taken = ", ".join(["face", *wanted, *(["*", *named] if named else [])])
    given = ", ".join(["face._operations", *wanted, *(f"{name}={name}" for name in named)])
    text = f"lambda {taken}: {body.replace('made', f'operation({given})')}"
    written = eval(text, {"operation": operation})  # noqa: S307 - of names in our own code
    model: Any = operation
    written.__defaults__, written.__kwdefaults__ = model.__defaults__, model.__kwdefaults__
    function: Callable[Concatenate[Face[_O], _P], _T] = functools.wraps(operation)(written)
    return function


def limit_of(value: object, most: int = MAX_LISTED) -> int:
    """Return a list's limit.

    Raises:
        InvalidArgument: Not an integer from 1 to `most`.
    """
    return int(admit(Integer(1, most), value, "limit") or 0)


def items_of(values: object, field: str, most: int) -> tuple[object, ...]:
    """Return a bounded collection as a tuple; a single text is no collection.

    Raises:
        InvalidArgument: Not a collection of at most `most` items.
    """
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise InvalidArgument(field, f"a collection of at most {most} items")
    items = tuple(values)
    if len(items) > most:
        raise InvalidArgument(field, f"a collection of at most {most} items")
    return items
