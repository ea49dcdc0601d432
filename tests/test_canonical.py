"""Canonical JSON: the quick way writes what the library of RFC 8785 does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from statemachine import canonical
from statemachine.canonical import canonical_json, canonical_row, parse_json
from statemachine.errors import InvalidArgument

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
INTEGERS = st.integers(-(2**53) + 1, 2**53 - 1)
ATOMS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    ATOMS | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(VALUES)
@example({"\ue000": 1, "\U0001f600": 2, "b": 3, "a": 4})
@example(['\x01\x1f\x7f\b\t\n\f\r"\\/\u2028é'])
@example([-0.0, 1e21, 1e-7, 5e-324, 333333333.33333329])
def test_text_is_that_of_rfc_8785(value: object) -> None:
    """Whichever way a value is written, its text is the canonical one, and so again once read."""
    text = canonical_json(value, "value", 2**20)

    assert text == rfc8785.dumps(value).decode()  # type: ignore[arg-type]  # JSON by its strategy
    assert canonical_json(parse_json(text), "value", 2**20) == text


@given(
    st.dictionaries(
        st.from_regex("[a-z_]{1,9}", fullmatch=True), st.none() | st.booleans() | INTEGERS | TEXT
    )
)
def test_row_is_written_alike(row: dict[str, None | bool | int | str]) -> None:
    """Plain values need no check, and are written as JSON values are."""
    assert canonical_row(row) == canonical_json(row, "row", 2**20)


@pytest.mark.parametrize("number", [1, 1.5])
def test_what_was_judged_is_what_is_written(monkeypatch: pytest.MonkeyPatch, number: float) -> None:
    """Of a value that another thread changes meanwhile nothing is written that was not judged."""
    value: dict[str, object] = {"a": number, "b": [1, {"c": 2}]}
    quick, slow = canonical._chunks, rfc8785.dumps  # the moment between judging and writing

    def change() -> None:
        value["a"], value["b"] = float("nan"), "\0"

    def quickly(judged: object, level: int) -> Iterable[str]:
        change()
        return quick(judged, level)

    def slowly(judged: Any) -> bytes:
        change()
        return slow(judged)

    monkeypatch.setattr(canonical, "_chunks", quickly)
    monkeypatch.setattr(rfc8785, "dumps", slowly)

    assert canonical_json(value, "value", 100) == f'{{"a":{number},"b":[1,{{"c":2}}]}}'
    assert value["b"] == "\0"


@pytest.mark.parametrize("value", ["é" * 3, "aa" * 3, None, {}, [], {"a": 1}, {"é": 1.5}])
def test_bound_is_in_bytes(value: object) -> None:
    """The bound counts bytes of UTF-8, quotes included, of every value."""
    size = len(rfc8785.dumps(value))  # type: ignore[arg-type]  # JSON, all of them

    assert len(canonical_json(value, "value", size).encode()) == size
    with pytest.raises(InvalidArgument, match=f"at most {size - 1} bytes"):
        canonical_json(value, "value", size - 1)
