"""JSON in its one canonical form (RFC 8785), so that equal values are equal texts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import rfc8785

from statemachine.errors import InvalidArgument

JsonValue: TypeAlias = None | bool | int | float | str | Sequence[Any] | Mapping[str, Any]

MAX_INTEGER = 2**53
MAX_DEPTH = 200
"""Most levels of nesting: what is stored must be read where the stack is nearly used up, too."""

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
"""What no database stores in a text."""


def canonical_json(value: object, field: str, max_bytes: int) -> str:
    """Return the RFC 8785 text of a JSON value.

    Raises:
        InvalidArgument: Not JSON, a cycle, a non-finite number, an integer beyond ±2^53, text with
            U+0000 or a lone surrogate, more than 200 levels, or more than `max_bytes` bytes.
    """
    if value is None and max_bytes >= len("null"):
        return "null"
    if type(value) is dict and not value and max_bytes >= len("{}"):
        return "{}"
    try:
        # The standard library writes floats otherwise, orders keys beyond ASCII otherwise, and
        # writes what is refused; where none of it can be, it is four times as fast and more.
        sure = _sure(value, MAX_DEPTH)
        text = "" if sure is _UNSURE else "".join(_chunks(sure, 0))
        if not text or not text.isascii() or _NUL in text:
            text = rfc8785.dumps(_checked(value, field, ())).decode()
    except RecursionError as error:
        raise InvalidArgument(field, "JSON of moderate depth") from error
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise InvalidArgument(field, "canonical JSON") from error
    if (len(text) if text.isascii() else len(text.encode())) > max_bytes:
        raise InvalidArgument(field, f"at most {max_bytes} bytes of canonical JSON")
    return text


def canonical_row(row: Mapping[str, None | bool | int | str]) -> str:
    """Return the RFC 8785 text of valid plain values under ASCII names."""
    return "".join(_chunks(row, 0))


def _sure(value: Any, levels: int) -> Any:
    """Return a copy of a value of JSON's own types, without floats; `_UNSURE` of any other.

    What is judged is what is written, whatever another thread does to the value meanwhile.
    """
    kind = type(value)
    if kind is dict and levels:
        copy: Any = value.copy()
        for key, item in copy.items():
            if type(key) is not str:
                return _UNSURE
            if type(item) not in _PLAIN:
                copy[key] = inner = _sure(item, levels - 1)
                if inner is _UNSURE:
                    return _UNSURE
    elif kind is list and levels:
        copy = value.copy()
        for place, item in enumerate(copy):
            if type(item) not in _PLAIN:
                copy[place] = inner = _sure(item, levels - 1)
                if inner is _UNSURE:
                    return _UNSURE
    else:
        sure = kind in _PLAIN or (kind is int and abs(value) < MAX_INTEGER)
        return value if sure else _UNSURE
    return copy


def parse_json(text: str) -> Any:
    """Return the value of a canonical text; what was stored as a float is one again."""
    if text == "null":
        return None
    return {} if text == "{}" else _decode(text)[0]


def _integer(text: str) -> int | float:
    """Return a number without a point; beyond ±2^53 it was a float when it was stored."""
    number = int(text)
    return number if abs(number) <= MAX_INTEGER else float(text)


def _encoder() -> Callable[[object, int], Iterable[str]]:
    """Return what writes JSON; the standard library's own `encode` builds its C part every time."""
    kept = json.JSONEncoder(
        ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")
    )
    build = getattr(json.encoder, "c_make_encoder", None)
    if build is None:
        return lambda value, _level: kept.iterencode(value)
    text = json.encoder.encode_basestring
    made: Callable[[object, int], Iterable[str]] = build(
        None, kept.default, text, None, ":", ",", True, False, True
    )
    return made


_PLAIN = frozenset({str, bool, type(None)})
_UNSURE = object()
_NUL = r"\u0000"
_chunks = _encoder()
_decode = json.JSONDecoder(parse_int=_integer).raw_decode


def _checked(value: object, field: str, path: tuple[int, ...]) -> Any:
    """Return a copy in which ±2^53 is a float: RFC 8785 says it so, its library does not."""
    match value:
        case str():
            if UNSTORABLE.search(value):
                raise InvalidArgument(field, "JSON text without U+0000 and lone surrogates")
        case int() if not isinstance(value, bool):
            if abs(value) > MAX_INTEGER:
                raise InvalidArgument(field, "JSON with integers within ±2^53")
            return float(value) if abs(value) == MAX_INTEGER else value
        case float():
            if not math.isfinite(value):
                raise InvalidArgument(field, "JSON with finite numbers")
        case list() | tuple() | dict():
            if id(value) in path:
                raise InvalidArgument(field, "JSON without a cycle")
            if len(path) == MAX_DEPTH:
                raise InvalidArgument(field, f"JSON of at most {MAX_DEPTH} levels")
            inner = (*path, id(value))
            if not isinstance(value, dict):
                return [_checked(item, field, inner) for item in tuple(value)]
            own = dict(value)
            if not all(isinstance(key, str) for key in own):
                raise InvalidArgument(field, "JSON with text keys")
            return {
                _checked(key, field, inner): _checked(item, field, inner)
                for key, item in own.items()
            }
        case None | bool():
            pass
        case _:
            raise InvalidArgument(field, f"a JSON value, not {type(value).__name__}")
    return value
