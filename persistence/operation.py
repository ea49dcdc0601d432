"""Operations without I/O: generators that ask for statements and are answered with rows."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from attrs import frozen

from statemachine.errors import SqlatchError
from statemachine.outcome import NOBODY, Actor

if TYPE_CHECKING:
    from persistence.compile import Statement

_T = TypeVar("_T")


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

    rows: Sequence[Sequence[Any]]
    now: int | None


Operation: TypeAlias = Generator[Query, Answer, _T]


EXPIRED = "sqlatch_expired"
"""The clash of a statement whose lease had run out by the time it was given; it changed nothing."""


class Clash(SqlatchError):
    """A unique index, or the trigger that stands before it, refused a statement.

    Attributes:
        name: Name of the index, or `EXPIRED`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@frozen
class Caller:
    """Who calls, and under which id.

    Attributes:
        actor: Who.

        call: The call's id.

        given: Whether the caller chose the id, and may have used it before.
    """

    actor: Actor = NOBODY
    call: str = "unnamed"
    given: bool = False
