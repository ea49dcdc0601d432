"""Binding by position: psycopg reads a long statement with named parameters anew at every run."""

from __future__ import annotations

import functools
import re

from persistence.binds import Pick, picking

_NAMED = re.compile(r"%(?:%|\((\w+)\)s)")


@functools.lru_cache(maxsize=1024)
def positional(sql: str) -> tuple[bytes, Pick]:
    """Return a statement in the server's own spelling, and how its values are picked by name.

    Args:
        sql: With `%(name)s` for parameters and `%%` for a percent sign, in literals too.
    """
    places: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        name = found[1]
        return "%" if name is None else f"${places.setdefault(name, len(places) + 1)}"

    text = _NAMED.sub(numbered, sql).encode()
    return text, picking(places)
