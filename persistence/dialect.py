"""What differs between the databases when statements are built, and the column types."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Protocol, assert_never

import sqlalchemy as sa
from attrs import frozen
from sqlalchemy.ext.compiler import compiles

from statemachine.kinds import (
    Boolean,
    Choice,
    Duration,
    Instant,
    Integer,
    Json,
    Kind,
    Prose,
    Text,
    Token,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy.sql.compiler import SQLCompiler, TypeCompiler

    from persistence.rules import Guardrails


_LONGEST_NAME = 58
"""Bytes, so that a slot's trigger has room for what its name adds."""
_DIGITS = 8


class Flag(sa.Boolean):
    """A boolean; INTEGER on SQLite, whose STRICT tables know no other."""


class Key(sa.Text):
    """Text that is compared and ordered by code point."""


class Whole(sa.BigInteger):
    """A 64-bit integer."""


class TextList(sa.types.UserDefinedType[Any]):
    """A list of texts, as one parameter."""


class WholeList(sa.types.UserDefinedType[Any]):
    """A list of integers, as one parameter."""


class FlagList(sa.types.UserDefinedType[Any]):
    """A list of booleans, as one parameter."""


@compiles(Flag, "sqlite")
@compiles(Whole, "sqlite")
def _sqlite_integer(_type: Flag | Whole, _compiler: TypeCompiler, **_: Any) -> str:
    return "INTEGER"


@compiles(Key, "postgresql")
def _postgresql_key(_type: Key, _compiler: TypeCompiler, **_: Any) -> str:
    return 'TEXT COLLATE "C"'


def column_type(kind: Kind) -> sa.types.TypeEngine[Any]:
    """Return the SQL type of a kind."""
    match kind:
        case Text() | Choice() | Token() | Prose() | Json():
            return Key()
        case Boolean():
            return Flag()
        case Integer() | Instant() | Duration():
            return Whole()
    assert_never(kind)


def list_type(kind: Kind) -> sa.types.TypeEngine[Any]:
    """Return the type of a list of a kind's values."""
    match column_type(kind):
        case Whole():
            return WholeList()
        case Flag():
            return FlagList()
        case _:
            return TextList()


class Placeholder(sa.ColumnElement[Any]):
    """A named parameter of the finished statement, typed: PostgreSQL cannot infer `now + lease`."""

    inherit_cache = False

    def __init__(self, name: str, type_: sa.types.TypeEngine[Any]) -> None:
        self.name = name
        self.type = type_


@compiles(Placeholder)
def _placeholder(element: Placeholder, _compiler: SQLCompiler, **_: Any) -> str:
    return f":{element.name}"


@compiles(Placeholder, "postgresql")
def _typed(element: Placeholder, _compiler: SQLCompiler, **_: Any) -> str:
    match element.type:
        case Flag():
            cast = "boolean"
        case Whole():
            cast = "bigint"
        case TextList():
            cast = "text[]"
        case WholeList():
            cast = "bigint[]"
        case FlagList():
            cast = "boolean[]"
        case _:
            cast = "text"
    return f"%({element.name})s::{cast}"


@frozen
class Types:
    """The column types, as the catalog names them, in which a kind's values can be kept.

    Attributes:
        text: Pattern of the types of text; its group, if any: the most characters.

        whole: Patterns of the types of integers, each with the least number that is too large.

        flag: Pattern of the types of booleans.
    """

    text: str
    whole: tuple[tuple[str, int], ...]
    flag: str


class Dialect(Protocol):
    """One database's side of the compiler; each backend states only what differs."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def statements(self) -> sa.Dialect:
        """Prints statements with parameters."""

    @property
    def ddl(self) -> sa.Dialect:
        """Prints statements without parameters: there a percent sign stands for itself."""

    @property
    def row_locks(self) -> bool:
        """Whether single rows can be locked, and locked ones passed over."""

    @property
    def arrays(self) -> bool:
        """Whether one statement can carry many calls, each parameter as an array."""

    @property
    def server_clock(self) -> bool:
        """Whether `NOW` is the server's clock when the store was given none."""

    @property
    def native_booleans(self) -> bool:
        """Whether a boolean column can hold nothing else."""

    @property
    def adds_checks(self) -> bool:
        """Whether a table that is there can be given CHECKs; else its triggers hold them."""

    @property
    def types(self) -> Types:
        """The types of a user's own columns that will do."""

    @property
    def feed_order(self) -> tuple[str, ...]:
        """The history's columns in commit order."""

    def __hash__(self) -> int: ...

    def same(
        self, left: sa.ColumnElement[Any], right: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """Return "the two are equal, or both NULL"."""

    def among(
        self, column: sa.ColumnElement[Any], values: Sequence[sa.ColumnElement[Any]]
    ) -> sa.ColumnElement[bool]:
        """Return "the column is one of these constants"."""

    def greatest(self, *terms: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """Return the greatest of the terms that are not NULL."""

    def clock(self) -> sa.ColumnElement[int]:
        """Return the server's clock in milliseconds since the epoch, read when evaluated."""

    def likely(self, condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
        """Return the condition, which the planner is to take for true of most rows."""

    def listed(self, column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
        """Return "the column is in the list parameter `name`"."""

    def as_list(self, values: Sequence[str]) -> object:
        """Return the value to bind to a list parameter."""

    def json_text(self, value: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
        """Return a value as JSON text."""

    def guard_ddl(self, rails: Guardrails) -> tuple[str, ...]:
        """Return the statements that create a machine's triggers."""

    def settled(self, tx: sa.ColumnElement[int]) -> sa.ColumnElement[bool] | None:
        """Return "no transaction can still append before this"; None where none ever can."""

    def catalog(self) -> str:
        """Return the SELECT of (name, definition, place) of whatever guards or holds our tables.

        The place is the table, NULL of a function. A column's definition is its type and, each
        behind a comma, what else is to be known of it, the default last. A `relation` is what has
        a table's name, and is none or more than one.
        """

    def gathered(
        self, names: sa.ColumnElement[str], values: sa.ColumnElement[str]
    ) -> sa.ColumnElement[str]:
        """Return a JSON object of all rows' names and values, as text."""

    def unfit(self, table: str, columns: Iterable[str], catalog: Mapping[str, str]) -> list[str]:
        """Return why triggers over these columns cannot guard a table that is there."""

    def layout_lock(self) -> str | None:
        """Return the statement that lets one process at a time make the layout."""

    def call_lock(self) -> str | None:
        """Return the statement that lets one transaction at a time use a machine's call id."""

    def layout_ddl(self) -> tuple[str, ...]:
        """Return the statements that guard the history itself."""

    def set_apart(self, schema: str) -> tuple[str, ...]:
        """Return the statements that hide all tables, and the clock, from one transaction."""

    def set_clock(self, now: int) -> tuple[str, ...]:
        """Return the statements that set the server's clock for a transaction set apart."""


def short(name: str) -> str:
    """Return a name that PostgreSQL does not cut: it keeps 63 bytes, and tells nobody."""
    whole = name.encode()
    if len(whole) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(whole).hexdigest()[:_DIGITS]
    return f"{whole[: _LONGEST_NAME - _DIGITS - 1].decode(errors='ignore')}_{digest}"


def text_of(element: sa.sql.ClauseElement, dialect: sa.Dialect) -> str:
    """Return an element as finished SQL text, constants written out."""
    return str(element.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
