"""Binding by position: for each named parameter SQLite is asked its name, at every run."""

from __future__ import annotations

import functools
import re

from persistence.binds import Pick, picking

_NAMED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|:([A-Za-z_]\w*)""")


@functools.lru_cache(maxsize=1024)
def positional(sql: str) -> tuple[str, Pick]:
    """Return a statement with numbered parameters, and how their values are picked by name."""
    places: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        name = found[1]
        return found[0] if name is None else f"?{places.setdefault(name, len(places) + 1)}"

    text = _NAMED.sub(numbered, sql)
    return text, picking(places)
