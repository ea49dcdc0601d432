"""Canonical JSON against the recorded vectors, but for what we refuse or sort on purpose (D22)."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from statemachine.canonical import MAX_DEPTH, canonical_json, parse_json
from statemachine.errors import InvalidArgument

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "canonical_json.json").read_text())
SIZE = 2**20

# A text whose keys look like array indexes: the recorded implementation puts those first, by value.
# RFC 8785 knows no such keys, and so do we.
BY_UTF16_ALONE = {
    '{"B":1,"a":2,"_":3,"":4," ":5,"0":6}': '{"":4," ":5,"0":6,"B":1,"_":3,"a":2}',
    '{"10":1,"9":2,"a":3}': '{"10":1,"9":2,"a":3}',
    '{"2":1,"10":2,"1":3,"01":4,"-1":5,"1.5":6,"4294967294":7,"4294967295":8,"4294967296":9}': (
        '{"-1":5,"01":4,"1":3,"1.5":6,"10":2,"2":1,"4294967294":7,"4294967295":8,"4294967296":9}'
    ),
}
# The recorded implementation loses a key of this name.
PROTO_KEPT = {
    '{"__proto__":{"x":1},"b":2}': '{"__proto__":{"x":1},"b":2}',
    '{"__proto__":5,"b":2}': '{"__proto__":5,"b":2}',
    '{"a":{"__proto__":null}}': '{"a":{"__proto__":null}}',
}


def _loop(within: Callable[[list[Any]], Any]) -> Any:
    ring: list[Any] = []
    ring.append(within(ring))
    return ring


def _ring() -> dict[str, Any]:
    ring: dict[str, Any] = {}
    ring["self"] = ring
    return ring


class _Instance:
    """An object with an attribute."""

    x = 1


SHARED = {"x": 1}

# What stands in Python for the value that a vector describes.
VALUES: dict[str, Any] = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
    "minus zero": -0.0,
    "minus zero nested": [-0.0],
    "undefined": Ellipsis,
    "undefined in an array": [Ellipsis],
    "undefined property": {"a": Ellipsis},
    "NaN property": {"a": math.nan},
    "Infinity in array": [math.inf],
    "bigint": Decimal(1),
    "bigint property": {"a": Decimal(1)},
    "symbol": object(),
    "function": len,
    "function property": {"f": len},
    "Date": datetime(1970, 1, 1, tzinfo=UTC),
    "Map": MappingProxyType({}),
    "Set": {1},
    "RegExp": re.compile("x"),
    "class instance": _Instance(),
    "object cycle": _ring(),
    "array cycle": _loop(lambda ring: [ring]),
    "one object twice, no cycle": {"a": SHARED, "b": SHARED},
    "Error": ValueError("x"),
    "Buffer": b"a",
    "typed array": bytearray(2),
    "1e21": 1e21,
    "2^53": 2**53,
    "0.1+0.2": 0.1 + 0.2,
    "min value": 5e-324,
    "max value": 1.7976931348623157e308,
    "lone surrogate": "\ud800",
    "lone surrogate key": {"\ud800": 1},
}
ONLY_THERE = {
    "sparse array (a hole)", "array of holes", "boxed string", "boxed number",
    "null-prototype object", "null-prototype object with keys",
    "object with a plain-object prototype", "symbol key", "non-enumerable property", "getter",
    "toJSON method", "array with an extra property", "Proxy of a plain object",
}  # fmt: skip


def _beyond(value: Any) -> bool:
    """Tell whether we refuse a value on purpose: too large an integer, a text that none stores."""
    match value:
        case str():
            return any(c == "\x00" or "\ud800" <= c <= "\udfff" for c in value)
        case list():
            return any(map(_beyond, value))
        case dict():
            return any(map(_beyond, (*value, *value.values())))
        case _:
            return isinstance(value, int) and abs(value) > 2**53


def _check(value: Any, vector: dict[str, Any], canonical: str | None) -> None:
    if canonical is None or _beyond(value):
        with pytest.raises(InvalidArgument, match="field must be "):
            canonical_json(value, "field", SIZE)
        return

    text = canonical_json(value, "field", SIZE)

    assert text == canonical
    assert canonical_json(parse_json(text), "field", SIZE) == text
    if canonical == vector["canonical"]:
        assert hashlib.sha256(text.encode()).hexdigest() == vector["fingerprint"]


@pytest.mark.parametrize("vector", VECTORS["from_json_text"], ids=lambda vector: vector["json"])
def test_a_text_has_the_recorded_canonical_form(vector: dict[str, Any]) -> None:
    """Equal JSON values have one text, as RFC 8785 writes it; and it reads back to itself."""
    ours = {**BY_UTF16_ALONE, **PROTO_KEPT}.get(vector["json"], vector.get("canonical"))

    _check(json.loads(vector["json"]), vector, ours)


@pytest.mark.parametrize("what", VALUES)
def test_a_value_has_the_recorded_canonical_form(what: str) -> None:
    """What is no JSON is refused by name, whatever it is; numbers are written as recorded."""
    (vector,) = [vector for vector in VECTORS["from_js"] if vector["what"] == what]

    _check(VALUES[what], vector, vector.get("canonical"))


def test_every_vector_of_a_value_has_its_counterpart() -> None:
    """What Python has no counterpart for is named; nothing else is left out."""
    recorded = {vector["what"] for vector in VECTORS["from_js"]}

    assert recorded == VALUES.keys() | ONLY_THERE


@pytest.mark.parametrize(
    "nest", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["arrays", "objects"]
)
@pytest.mark.parametrize("depth", [vector["nested_arrays"] for vector in VECTORS["depth"]])
def test_depth(depth: int, nest: Callable[[Any], Any]) -> None:
    """JSON may be nested to a stated depth; deeper JSON is refused and exhausts no stack."""
    value: Any = 0
    for _ in range(depth):
        value = nest(value)

    if depth > MAX_DEPTH:
        with pytest.raises(InvalidArgument, match=f"{MAX_DEPTH} levels"):
            canonical_json(value, "field", SIZE)
    else:
        assert parse_json(canonical_json(value, "field", SIZE)) == value


def test_the_bound_of_depth_holds_at_any_height_of_the_stack() -> None:
    """What was stored can be read again, however deep the reader's own calls are nested."""
    value: Any = 0.5
    for _ in range(MAX_DEPTH):
        value = {"é": value}
    text = canonical_json(value, "field", SIZE)

    def called(height: int) -> Any:
        return called(height - 1) if height else parse_json(canonical_json(value, "field", SIZE))

    assert called(300) == value
    with pytest.raises(InvalidArgument, match=f"{MAX_DEPTH} levels"):
        canonical_json([value], "field", SIZE)
    assert parse_json(text) == value
