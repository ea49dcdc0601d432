"""Plain values of a kind, and plain rows of a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from hypothesis import strategies as st

from statemachine.kinds import (
    MAX_DURATION,
    MAX_INSTANT,
    MAX_INTEGER,
    TOKEN_BYTES,
    Boolean,
    Choice,
    Duration,
    Instant,
    Integer,
    Json,
    JsonValue,
    Kind,
    Plain,
    Prose,
    Text,
    Token,
    admit,
)
from statemachine.valuations import Completion

if TYPE_CHECKING:
    from collections.abc import Callable

    from statemachine.machine import Machine

_LONG = 40


def json_values() -> st.SearchStrategy[JsonValue]:
    """Return small JSON values that canonical JSON can say."""
    text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
    leaves: st.SearchStrategy[JsonValue] = (
        st.none()
        | st.booleans()
        | st.integers(-MAX_INTEGER, MAX_INTEGER)
        | st.floats(allow_nan=False, allow_infinity=False)
        | text
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
        max_leaves=6,
    )


def plain_values(kind: Kind) -> st.SearchStrategy[Plain]:
    """Return the plain values of a kind, within its bounds and without NULL."""
    match kind:
        case Text():
            return _texts(kind)
        case Prose():
            return _admitted(kind, st.text(max_size=min(_LONG, kind.max_bytes or _LONG)))
        case Json():
            return _admitted(kind, json_values())
        case Instant():
            return st.integers(0, MAX_INSTANT)
        case Duration():
            return st.integers(1, MAX_DURATION)
        case Boolean():
            return st.booleans()
        case Integer():
            return st.integers(kind.minimum, kind.maximum)
        case Choice():
            return st.sampled_from(kind.texts)
        case Token():
            return st.binary(min_size=TOKEN_BYTES, max_size=TOKEN_BYTES).map(_admit(kind))
    assert_never(kind)


def rows(machine: Machine) -> st.SearchStrategy[dict[str, Plain]]:
    """Return plain rows of a machine, in any state, that satisfy its invariants."""
    return _rows(machine, Completion(machine))


@st.composite
def _rows(draw: st.DrawFn, machine: Machine, completion: Completion) -> dict[str, Plain]:
    fixed: dict[str, Plain] = {machine.state.name: draw(st.sampled_from(machine.states))}
    others = [name for name in machine.fields if name not in fixed]
    for name in draw(st.lists(st.sampled_from(others), unique=True)):
        declared = machine.fields[name]
        values = plain_values(declared.kind)
        value = draw(st.none() | values if declared.nullable else values)
        # A value that no row with the earlier ones can hold is left out.
        if completion.row({**fixed, name: value}) is not None:
            fixed[name] = value
    row = completion.row(fixed, filled=draw(st.booleans()))
    # The search met these same values above, so that it finds them again.
    assert row is not None
    return row


def _texts(kind: Text) -> st.SearchStrategy[Plain]:
    if kind.pattern is not None:
        return _admitted(kind, st.from_regex(kind.pattern, fullmatch=True))
    letters = st.characters(
        exclude_categories=["Cs"], min_codepoint=0x20, exclude_characters="\x7f"
    )
    return _admitted(kind, st.text(letters, min_size=1, max_size=min(_LONG, kind.max_chars)))


def _admitted(kind: Kind, values: st.SearchStrategy[object]) -> st.SearchStrategy[Plain]:
    return values.filter(_is_admitted(kind)).map(_admit(kind))


def _admit(kind: Kind) -> Callable[[object], Plain]:
    return lambda value: admit(kind, value, "value")


def _is_admitted(kind: Kind) -> Callable[[object], bool]:
    def check(value: object) -> bool:
        try:
            admit(kind, value, "value")
        except ValueError:
            return False
        return True

    return check
