"""Which kinds of value may be compared with each other, and which fit into which column."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from statemachine.errors import InvalidArgument
from statemachine.kinds import (
    MAX_INSTANT,
    Boolean,
    Choice,
    Duration,
    Instant,
    Integer,
    Json,
    Kind,
    Plain,
    Prose,
    Text,
    Token,
    admit,
    canonical_json,
    present,
)

if TYPE_CHECKING:
    import enum

_HASH = "0" * 64


def comparable(left: Kind, right: Kind, *, ordered: bool) -> bool:
    """Tell whether two kinds may be compared; `ordered`: by less or at most."""
    match left, right:
        case (Integer(), Integer()) | (Instant(), Instant()) | (Text(), Text()):
            return True
        case (Text() | Token(), Text() | Token()):
            return not ordered
        case (Boolean(), Boolean()) | (Json(), Json()) | (Prose(), Prose()):
            return not ordered
        case Choice(), Choice():
            return left.options is right.options and not ordered
        case _:
            return False


def fits(source: Kind, target: Kind) -> bool:
    """Tell whether every value of one kind is a value of another."""
    match source, target:
        case Text(), Text():
            within = source.max_chars <= target.max_chars and source.max_bytes <= target.max_bytes
            return within and target.pattern in (None, source.pattern)
        case Token(), Text():
            pattern = target.pattern is None or re.fullmatch(target.pattern, _HASH) is not None
            return pattern and min(target.max_chars, target.max_bytes) >= len(_HASH)
        case Prose(), Prose():
            return (
                _within(source.cut_chars, target.cut_chars)
                and _within(source.max_bytes, target.max_bytes)
                and _within(source.max_chars, target.max_chars)
                and (source.verbatim or not target.verbatim)
            )
        case Json(), Json():
            return source.max_bytes <= target.max_bytes
        case Integer(), Integer():
            return target.minimum <= source.minimum and source.maximum <= target.maximum
        case Choice(), Choice():
            among: set[str] = set(target.texts)
            return source.options is target.options and among.issuperset(source.texts)
        case (Instant(), Instant()) | (Boolean(), Boolean()) | (Token(), Token()):
            return True
        case _:
            return False


def is_constant_of(kind: Kind, value: Plain) -> bool:
    """Tell whether a constant is a plain value of a kind."""
    match kind:
        case Text() | Prose() | Integer() | Boolean() | Choice():
            return _admits(kind, value)
        case Json():
            return isinstance(value, str) and _is_canonical(value, kind.max_bytes)
        case Instant():
            return type(value) is int and 0 <= value <= MAX_INSTANT
        case Duration():
            return False
        case Token():
            return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def colliding(options: type[enum.Enum], texts: tuple[str, ...]) -> str | None:
    """Return the first stored text that two members of an enum share, or None."""
    seen: list[str] = []
    for text in texts:
        if text in seen:
            return f"two members of {options.__name__} are stored as {text!r}"
        seen.append(text)
    return None


def _within(bound: int | None, limit: int | None) -> bool:
    return limit is None or (bound is not None and bound <= limit)


def _admits(kind: Kind, value: Plain) -> bool:
    try:
        return admit(kind, value, "constant") == value
    except InvalidArgument:
        return False


def _is_canonical(text: str, max_bytes: int) -> bool:
    try:
        return canonical_json(present(Json(max_bytes), text), "constant", max_bytes) == text
    except (ValueError, RecursionError):
        return False
