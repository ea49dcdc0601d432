"""The kinds of value that a column or parameter holds: its bounds, its plain and its Python form.

A *plain* value is what the database stores: instants and durations are integer milliseconds, JSON
is canonical text, a token is its SHA-256. The machine language speaks of plain values only.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, assert_never

from attrs import frozen

from statemachine.canonical import MAX_INTEGER, UNSTORABLE, JsonValue, canonical_json, parse_json
from statemachine.errors import InvalidArgument

__all__ = [
    "EPOCH", "MAX_DURATION", "MAX_INSTANT", "MAX_INTEGER", "MILLISECOND", "TOKEN_BYTES",
    "Boolean", "Choice", "Duration", "Instant", "Integer", "Json", "JsonValue", "Kind", "Plain",
    "Prose", "Row", "Text", "Token", "admit", "canonical_json", "member_of", "present", "stored",
]  # fmt: skip

Plain: TypeAlias = None | bool | int | str
Row: TypeAlias = Mapping[str, Plain]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
MAX_INSTANT = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MILLISECOND
MAX_DURATION = timedelta(days=36_525) // MILLISECOND
TOKEN_BYTES = 32

_NAMED = (str, enum.Enum)
_NONE, _LONGEST = timedelta(), MAX_DURATION * MILLISECOND

_FORBIDDEN = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
# ECMAScript's white space: trimming must agree with other implementations of the wire form.
_SPACE = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


@frozen
class Text:
    """A key: one line of text, compared and ordered by code point.

    Attributes:
        max_chars: Most Unicode code points; at least one is needed.

        max_bytes: Most bytes of UTF-8.

        pattern: Regular expression that the whole text must match, or None.
    """

    max_chars: int = 512
    max_bytes: int = 1024
    pattern: str | None = None


@frozen
class Prose:
    """Free text: U+0000 and lone surrogates become U+FFFD.

    Attributes:
        cut_chars: Longer text is cut to this many code points; None: never cut.

        max_bytes: Most bytes of UTF-8, after trimming; None: unbounded. Blank text is then refused.

        max_chars: Most code points, after trimming; None: unbounded. Blank text is then refused.

        verbatim: U+0000 and lone surrogates are refused instead: what is stored is what was given.
    """

    cut_chars: int | None = None
    max_bytes: int | None = None
    max_chars: int | None = None
    verbatim: bool = False


@frozen
class Json:
    """A JSON value, stored as canonical text (RFC 8785) of at most `max_bytes` bytes of UTF-8."""

    max_bytes: int


@frozen
class Instant:
    """An aware datetime from 1970 to 9999, stored as milliseconds since the epoch, rounded down."""


@frozen
class Duration:
    """A timedelta of 1 ms to 100 years, stored as milliseconds, rounded up."""


@frozen
class Boolean:
    """True or False."""


@frozen
class Integer:
    """An integer from `minimum` to `maximum`."""

    minimum: int = 0
    maximum: int = MAX_INTEGER


@frozen
class Choice:
    """A member of `options`; stored as its value where that is text, else as its name.

    Attributes:
        options: The enum.

        among: The members that are allowed; empty: all.
    """

    options: type[enum.Enum]
    among: tuple[enum.Enum, ...] = ()

    @functools.cached_property
    def texts(self) -> tuple[str, ...]:
        """The stored texts, in declared order."""
        return tuple(stored(member) for member in self.among or self.options)

    @functools.cached_property
    def spellings(self) -> Mapping[object, str]:
        """The stored text of each member and of each text."""
        members = self.among or tuple(self.options)
        return dict(zip((*members, *self.texts), self.texts * 2, strict=True))


@frozen
class Token:
    """32 secret bytes of which only the SHA-256, in hexadecimal, is ever stored or compared."""


Kind: TypeAlias = Text | Prose | Json | Instant | Duration | Boolean | Integer | Choice | Token


def stored(member: enum.Enum) -> str:
    """Return the text that stands for an enum member: its text value, else its name."""
    return str(member.value) if isinstance(member.value, str) else member.name


def admit(kind: Kind, value: object, field: str) -> Plain:
    """Return the plain form of a Python value.

    Raises:
        InvalidArgument: The value lies outside the kind's bounds; names the field and the bound.
    """
    return JUDGES[type(kind)](kind, value, field)


def present(kind: Kind, value: Plain) -> Any:
    """Return the Python form of a plain value that is not NULL."""
    match kind:
        case Text() | Prose() | Token() | Integer():
            return value
        case Json():
            return parse_json(str(value))
        case Instant():
            return instant_of(int(value or 0))
        case Duration():
            return timedelta(milliseconds=int(value or 0))
        case Boolean():
            return bool(value)
        case Choice():
            return member_of(kind.options, str(value))
    assert_never(kind)


def trimmed(text: str) -> str:
    """Return the text without white space at its ends, as ECMAScript sees white space."""
    return text.strip(_SPACE)


def member_of(options: type[enum.Enum], text: str) -> enum.Enum:
    """Return the member whose stored text this is.

    Raises:
        KeyError: No member is stored so.
    """
    return members_of(options)[text]


@functools.cache
def members_of(options: type[enum.Enum]) -> Mapping[str, enum.Enum]:
    """Return an enum's members by their stored texts."""
    return {stored(member): member for member in options}


@functools.lru_cache(maxsize=1024)
def instant_of(milliseconds: int) -> datetime:
    """Return an instant; the few of one call stand in several columns and rows."""
    return EPOCH + timedelta(milliseconds=milliseconds)


def _text(kind: Text, value: object, field: str) -> str:
    if (
        isinstance(value, str)
        and 1 <= len(value) <= kind.max_chars
        and (value.isprintable() or _FORBIDDEN.search(value) is None)
        and (len(value) if value.isascii() else len(value.encode())) <= kind.max_bytes
        and (kind.pattern is None or _pattern(kind.pattern).fullmatch(value))
    ):
        # An enum's own `str` is its member's name, not the text just judged.
        return str.__str__(value)
    bound = (
        f"text of 1 to {kind.max_chars} characters and at most {kind.max_bytes} bytes"
        " without control characters or lone surrogates"
    )
    if kind.pattern is not None:
        bound = f"text that matches {kind.pattern}"
    raise InvalidArgument(field, bound)


_pattern = functools.cache(re.compile)


def _prose(kind: Prose, value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(field, "text")
    if kind.verbatim and UNSTORABLE.search(value):
        raise InvalidArgument(field, "text without U+0000 and lone surrogates")
    text = UNSTORABLE.sub("\ufffd", value)
    if kind.max_bytes is None and kind.max_chars is None:
        return text[: kind.cut_chars]
    text = trimmed(trimmed(text)[: kind.cut_chars])
    if kind.max_bytes is not None and not 1 <= len(text.encode()) <= kind.max_bytes:
        raise InvalidArgument(field, f"text of 1 to {kind.max_bytes} bytes once trimmed")
    if kind.max_chars is not None and not 1 <= len(text) <= kind.max_chars:
        raise InvalidArgument(field, f"text of 1 to {kind.max_chars} characters once trimmed")
    return text


def _instant(_: Instant, value: object, field: str) -> int:
    bound = "an aware datetime from 1970 to 9999"
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidArgument(field, bound)
    milliseconds = (value - EPOCH) // MILLISECOND
    if not 0 <= milliseconds <= MAX_INSTANT:
        raise InvalidArgument(field, bound)
    return milliseconds


def _duration(_: Duration, value: object, field: str) -> int:
    if not isinstance(value, timedelta) or not _NONE < value <= _LONGEST:
        raise InvalidArgument(field, "a timedelta of 1 ms to 100 years")
    return -(-value // MILLISECOND)


def _token(_: Token, value: object, field: str) -> str:
    if not isinstance(value, bytes) or len(value) != TOKEN_BYTES:
        raise InvalidArgument(field, f"{TOKEN_BYTES} bytes")
    return hashlib.sha256(value).hexdigest()


def _whole(kind: Integer, value: object, field: str) -> int:
    if isinstance(value, int) and type(value) is not bool and kind.minimum <= value <= kind.maximum:
        return value
    raise InvalidArgument(field, f"an integer from {kind.minimum} to {kind.maximum}")


def _json(kind: Json, value: object, field: str) -> str:
    return canonical_json(value, field, kind.max_bytes)


def _truth(_: Boolean, value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(field, "True or False")
    return value


def _choice(kind: Choice, value: object, field: str) -> str:
    text = kind.spellings.get(value) if isinstance(value, _NAMED) else None
    if text is None:
        raise InvalidArgument(field, f"one of {', '.join(kind.texts)}")
    return text


# What `admit` does, by type: a chain of patterns is walked for each of a call's dozen values.
JUDGES: Mapping[type[Any], Callable[[Any, object, str], Plain]] = {
    Text: _text,
    Prose: _prose,
    Json: _json,
    Instant: _instant,
    Duration: _duration,
    Boolean: _truth,
    Integer: _whole,
    Choice: _choice,
    Token: _token,
}
