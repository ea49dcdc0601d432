"""The strategies for users' own property tests."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import Phase, find, given, settings

from statemachine.kinds import Json, JsonValue, Plain, Row, Text, Token, canonical_json
from statemachine.machine import Machine
from statemachine.machines import ALL
from statemachine.path import broken
from statemachine.testing import json_values, plain_values, rows
from tests.order import ORDER

ANY = settings(phases=[Phase.generate], database=None, deadline=None)
"""The first one found will do."""


@given(json_values())
def test_json_values_can_be_said_canonically(value: JsonValue) -> None:
    """Each has one canonical text, which is JSON."""
    text = canonical_json(value, "value", 100_000)

    assert canonical_json(json.loads(text, parse_int=float), "value", 100_000) == text


def _holding(column: str, value: Plain) -> Callable[[Row], bool]:
    return lambda row: row[column] == value


@pytest.mark.parametrize("machine", [*ALL, ORDER], ids=lambda machine: machine.name)
def test_rows_come_in_every_state(machine: Machine) -> None:
    """And with columns filled that may be NULL."""
    strategy = rows(machine)
    for state in machine.states:
        row = find(strategy, _holding(machine.state.name, state), settings=ANY)

        assert broken(machine, row) == ()
    nullable = [name for name, field in machine.fields.items() if field.nullable]
    some = find(strategy, lambda row: any(row[name] is not None for name in nullable), settings=ANY)

    assert broken(machine, some) == ()


@given(plain_values(Text(max_chars=3, max_bytes=4)))
@settings(max_examples=50)
def test_texts_keep_both_bounds(value: Plain) -> None:
    """Characters and bytes."""
    assert 1 <= len(str(value)) <= 3
    assert len(str(value).encode()) <= 4


@given(plain_values(Json(5)), plain_values(Token()))
@settings(max_examples=50)
def test_json_and_tokens_keep_theirs(text: Plain, token: Plain) -> None:
    """Bytes of canonical text; the hash of a token."""
    assert len(str(text).encode()) <= 5
    assert len(str(token)) == 64
