"""JSON in its one canonical form (RFC 8785), so that equal values are equal texts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
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
    try:
        text = _written(value, field)
    except RecursionError as error:
        raise InvalidArgument(field, "JSON of moderate depth") from error
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise InvalidArgument(field, "canonical JSON") from error
    if len(text.encode()) > max_bytes:
        raise InvalidArgument(field, f"at most {max_bytes} bytes of canonical JSON")
    return text


def canonical_row(row: Mapping[str, None | bool | int | str]) -> str:
    """Return the RFC 8785 text of valid plain values under ASCII names."""
    return _encode(row)


def _written(value: object, field: str) -> str:
    text = _quickly(value)
    if text is not None:
        return text
    _check_json(value, field, ())
    return rfc8785.dumps(_as_doubles(value)).decode()


def _quickly(value: object) -> str | None:
    """Return the text where the standard library surely writes what RFC 8785 says.

    It writes floats otherwise, orders keys beyond ASCII otherwise, and writes keys that are no
    text; those are not what is read again.
    """
    if value is None:
        return "null"
    if type(value) is dict and not value:
        return "{}"
    try:
        text = _encode(value)
        if not text.isascii() or _unsure(text):
            return None
        return text if _decode_sure(text)[0] == value else None
    except (TypeError, ValueError, RecursionError):
        return None


def parse_json(text: str) -> Any:
    """Return the value of a canonical text; what was stored as a float is one again."""
    if text == "null":
        return None
    return {} if text == "{}" else _decode(text)[0]


def _as_doubles(value: Any) -> Any:
    """Return a JSON value in which ±2^53 is a float: RFC 8785 says it so, its library does not."""
    match value:
        case bool():
            return value
        case int() if abs(value) == MAX_INTEGER:
            return float(value)
        case list() | tuple():
            return [_as_doubles(item) for item in value]
        case dict():
            return {key: _as_doubles(item) for key, item in value.items()}
        case _:
            return value


def _integer(text: str) -> int | float:
    """Return a number without a point; beyond ±2^53 it was a float when it was stored."""
    number = int(text)
    return number if abs(number) <= MAX_INTEGER else float(text)


def _no_float(text: str) -> float:
    raise ValueError(text)


def _unsure(text: str) -> bool:
    """Tell whether a text may hold what is refused: U+0000, a large number, too many levels."""
    if r"\u0000" in text:
        return True
    if len(text) < _LARGE:
        return False
    deepest = text.count("[") + text.count("{")
    return deepest > MAX_DEPTH or _LARGE_NUMBER.search(text) is not None


def _encoder() -> Callable[[object], str]:
    """Return what writes JSON; the standard library's own `encode` builds its C part every time."""
    kept = json.JSONEncoder(
        ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")
    )
    build = getattr(json.encoder, "c_make_encoder", None)
    if build is None:
        return kept.encode
    text = json.encoder.encode_basestring
    chunks = build(None, kept.default, text, None, ":", ",", True, False, True)
    return lambda value: "".join(chunks(value, 0))


_LARGE = len(str(MAX_INTEGER))
_LARGE_NUMBER = re.compile(rf"[0-9]{{{_LARGE}}}")
_encode = _encoder()
_decode = json.JSONDecoder(parse_int=_integer).raw_decode
_decode_sure = json.JSONDecoder(parse_float=_no_float, parse_constant=_no_float).raw_decode


def _check_json(value: object, field: str, path: tuple[int, ...]) -> None:
    match value:
        case None | bool():
            return
        case str():
            if UNSTORABLE.search(value):
                raise InvalidArgument(field, "JSON text without U+0000 and lone surrogates")
        case int():
            if abs(value) > MAX_INTEGER:
                raise InvalidArgument(field, "JSON with integers within ±2^53")
        case float():
            if not math.isfinite(value):
                raise InvalidArgument(field, "JSON with finite numbers")
        case list() | tuple() | dict():
            if id(value) in path:
                raise InvalidArgument(field, "JSON without a cycle")
            if len(path) == MAX_DEPTH:
                raise InvalidArgument(field, f"JSON of at most {MAX_DEPTH} levels")
            inner = (*path, id(value))
            if isinstance(value, dict):
                for key in value:
                    if not isinstance(key, str):
                        raise InvalidArgument(field, "JSON with text keys")
                    _check_json(key, field, inner)
            for item in value.values() if isinstance(value, dict) else value:
                _check_json(item, field, inner)
        case _:
            raise InvalidArgument(field, f"a JSON value, not {type(value).__name__}")
