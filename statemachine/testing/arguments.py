"""What a call may be given: Python values of a kind, at its bounds as well."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, assert_never

from hypothesis import strategies as st

from statemachine.errors import InvalidArgument
from statemachine.examples import examples
from statemachine.kinds import (
    EPOCH,
    MAX_DURATION,
    MILLISECOND,
    TOKEN_BYTES,
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
    admit,
    present,
)
from statemachine.testing.values import plain_values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from statemachine.vocabulary import Param

_LONGEST = 4_096
"""Bounds of text beyond this are not tried: each step reads every row again."""

_TOKENS = tuple(bytes([number]) * TOKEN_BYTES for number in (1, 2, 3))


def arguments(kind: Kind) -> st.SearchStrategy[object]:
    """Return the Python values that a call may give for a kind, without None.

    Some are few and plain, so that calls meet; some lie at the kind's bounds; some are any. They
    shrink to the plainest.
    """
    return few(kind) | odd(kind)


def parameters(params: Iterable[Param]) -> st.SearchStrategy[dict[str, object]]:
    """Return the arguments of a call, by name: those of a transition's or creation's `params`."""
    return st.fixed_dictionaries(
        {
            param.name: st.none() | arguments(param.kind)
            if param.optional
            else arguments(param.kind)
            for param in params
        }
    )


@functools.cache
def few(kind: Kind) -> st.SearchStrategy[object]:
    """Return the plain values of a kind."""
    return st.sampled_from(usual(kind)) if usual(kind) else _any(kind)


@functools.cache
def odd(kind: Kind) -> st.SearchStrategy[object]:
    """Return the values at a kind's bounds, and any."""
    bounds = at_bounds(kind)
    return st.sampled_from(bounds) | _any(kind) if bounds else _any(kind)


@functools.cache
def usual(kind: Kind) -> tuple[object, ...]:
    """Return a few values of a kind, the plainest first."""
    if isinstance(kind, Token):
        return _TOKENS
    values = (present(kind, plain) for plain in examples(kind))
    return tuple(value for value in values if _is_admitted(kind, value))


@functools.cache
def at_bounds(kind: Kind) -> tuple[object, ...]:
    """Return values at the bounds of a kind, and what is easily mistaken."""
    return tuple(value for value in _odd(kind) if _is_admitted(kind, value))


def _odd(kind: Kind) -> tuple[object, ...]:
    match kind:
        case Text():
            longest = min(kind.max_chars, kind.max_bytes, _LONGEST)
            return (
                "z" * longest,
                "\U0001f511" * min(longest, kind.max_bytes // 4),
                " ",
                "'\"\\%_?:",
            )
        case Prose():
            bounds = (kind.cut_chars, kind.max_bytes, kind.max_chars)
            longest = min((_LONGEST, *(bound for bound in bounds if bound is not None)))
            return ("z" * longest, "\u00e9\t\r\n\u2028'", "", " ends are blank ", "\x00")
        case Json():
            longest = min(kind.max_bytes, _LONGEST)
            return (
                None,
                False,
                0,
                "z" * max(0, longest - 2),
                {},
                [],
                {"\u00e9": [1.5, None, "\\"]},
            )
        case Instant():
            last = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
            east = timezone(timedelta(hours=5, minutes=30))
            return (EPOCH, last, datetime(2030, 1, 1, 5, 30, 0, 999, tzinfo=east))
        case Duration():
            return (timedelta(microseconds=1), MAX_DURATION * MILLISECOND)
        case Boolean():
            return ()
        case Integer():
            return (kind.minimum, kind.maximum)
        case Choice():
            return kind.texts
        case Token():
            return (bytes(TOKEN_BYTES), b"\xff" * TOKEN_BYTES)
    assert_never(kind)


def _any(kind: Kind) -> st.SearchStrategy[object]:
    if isinstance(kind, Token):
        return st.binary(min_size=TOKEN_BYTES, max_size=TOKEN_BYTES)
    return plain_values(kind).map(functools.partial(present, kind))


def _is_admitted(kind: Kind, value: object) -> bool:
    try:
        admit(kind, value, "value")
    except InvalidArgument:
        return False
    return True
