"""Operations without I/O: generators that ask for statements and are answered with rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from attrs import define, field

from statemachine.errors import SqlatchError

if TYPE_CHECKING:
    from persistence.compile import Statement

_T = TypeVar("_T")


Cells: TypeAlias = Sequence[Any]
"""An answered row, in the order of the columns; the server's clock may stand behind them."""


Reply: TypeAlias = tuple[Sequence[Cells], int | None]
"""All rows of a statement, and the explicit clock's reading that was bound."""


class Query(NamedTuple):
    """A request to run one statement.

    Attributes:
        statement: What to run.

        params: What to bind; the executor adds the clock's reading.

        fragile: Whether a refusal by the database is expected: inside a transaction it then runs
            in a savepoint.
    """

    statement: Statement
    params: Mapping[str, object]
    fragile: bool = False


class Answer(NamedTuple):
    """What a statement answered.

    Attributes:
        rows: All its rows.

        now: The clock's reading that was bound; None where the server's clock rules.
    """

    rows: Sequence[Cells]
    now: int | None


Operation: TypeAlias = Generator[Query, Answer, _T]


EXPIRED = "sqlatch_expired"
"""The clash of a statement whose lease had run out by the time it was given; it changed nothing."""


UNDER_WAY = "this thread is in the midst of a call, which a signal's handler interrupts: try later"
"""What a handler is told that asks for what must wait until the call has returned."""


class Clash(SqlatchError):
    """A unique index, or the trigger that stands before it, refused a statement.

    Attributes:
        name: Name of the index, or `EXPIRED`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


Tell: TypeAlias = Callable[[Cells], _T]
"""Makes of a moved row's cells what a call answers."""


@define(eq=False)
class Direct(Generator[Query, Answer, _T]):
    """An operation that is one statement, as a rule; alone it is run without a generator's cost.

    Attributes:
        statement, params, fragile: As of a `Query`.

        tell: What is made of the row that it answers.

        otherwise, given: What follows where it answered no row, or clashed: told which, and what it
            is given.
    """

    statement: Statement
    params: Mapping[str, object]
    fragile: bool
    tell: Tell[_T]
    otherwise: Callable[..., Operation[_T]]
    given: tuple[Any, ...]
    _steps: Operation[_T] | None = field(default=None, init=False)

    def send(self, answer: Answer) -> Query:
        """Go on as a part of another operation."""
        return self._begun().send(answer)

    def throw(self, *error: Any) -> Query:
        """Go on with an error."""
        return self._begun().throw(*error)

    def instead(self, clash: Clash | None) -> Operation[_T]:
        """Return what follows."""
        return self.otherwise(clash, *self.given)

    def _begun(self) -> Operation[_T]:
        if self._steps is None:
            self._steps = self._run()
        return self._steps

    def _run(self) -> Operation[_T]:
        try:
            answer = yield Query(self.statement, self.params, self.fragile)
        except Clash as clash:
            return (yield from self.instead(clash))
        return self.tell(answer.rows[0]) if answer.rows else (yield from self.instead(None))
