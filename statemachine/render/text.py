"""Text that any of the formats can carry, and how wide it is."""

from __future__ import annotations

import re
import unicodedata

_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_UNPRINTABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """Return the text with each line end as U+000A and other control characters as U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", _LINE_ENDS.sub("\n", text))


def cells(text: str) -> int:
    """Return the width in cells of a monospaced font."""
    return sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def identifiers(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return one distinct identifier per name, that no format takes for a keyword."""
    taken: list[str] = []
    for name in names:
        slug = candidate = "s_" + re.sub("[^A-Za-z0-9]", "_", name)
        number = 2
        while candidate in taken:
            candidate = f"{slug}_{number}"
            number += 1
        taken.append(candidate)
    return tuple(taken)
