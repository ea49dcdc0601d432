"""A few plain values of each kind, for the checks that try them all."""

from __future__ import annotations

import functools
import re
from typing import assert_never

from statemachine.kinds import (
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
)

NOW_MS = 1_893_456_000_000
"""The instant of every check: 2030-01-01, so that there is room on both sides."""

PERIOD_MS = 30_000
"""How long a duration of an example is."""

_LETTERS = "abcxyzABC012"
_LONGEST = 128
_ENOUGH = 3
_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")


def examples(kind: Kind) -> tuple[Plain, ...]:
    """Return plain values of a kind, the plainest first; all of a choice, two or three else.

    A text's pattern is met by a literal beginning and one repeated letter or digit; where no such
    text fits, there are none.
    """
    match kind:
        case Text():
            return _texts(kind)
        case Prose():
            return ("some text", "other text")
        case Json():
            return ('"some"', '"other"')
        case Instant():
            return (NOW_MS - 2 * PERIOD_MS, NOW_MS, NOW_MS + 2 * PERIOD_MS)
        case Duration():
            return (PERIOD_MS,)
        case Boolean():
            return (False, True)
        case Integer():
            return tuple(range(kind.minimum, min(kind.minimum + _ENOUGH, kind.maximum + 1)))
        case Choice():
            return kind.texts
        case Token():
            return ("a" * 64, "b" * 64)
    assert_never(kind)


@functools.lru_cache(maxsize=256)
def _texts(kind: Text) -> tuple[str, ...]:
    if kind.pattern is None:
        return ("a", "b", "c")
    special = _SPECIAL.search(kind.pattern)
    prefix = kind.pattern if special is None else kind.pattern[: special.start()]
    found: list[str] = []
    for letter in ("", *_LETTERS):
        for length in range(1, _LONGEST + 1) if letter else (1,):
            text = prefix + letter * length
            if len(text) <= kind.max_chars and re.fullmatch(kind.pattern, text):
                found.append(text)
                break
        if len(found) == _ENOUGH:
            break
    return tuple(found)
