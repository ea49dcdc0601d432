"""Identifiers of Promela for names and texts of a declaration, whatever they are written in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

NIL = "NIL"
"""Stands for NULL."""

_LETTERS = 24
_QUOTED = {"\\": "/", '"': "'", "%": "%%", "*": "."}


def column(name: str) -> str:
    """Return the array of a column as the rows hold it; no such name is a keyword."""
    return f"row_{name}"


def moved(name: str) -> str:
    """Return the variable of a column as a move leaves it."""
    return f"new_{name}"


def param(name: str) -> str:
    """Return the variable of a parameter."""
    return f"p_{name}"


def slack(name: str) -> str:
    """Return the variable that says how far beyond its bound a count was that comes back."""
    return f"slack_{name}"


def told(text: str) -> str:
    """Return a text as it may stand in a comment and in the format of a `printf`."""
    return "".join(_QUOTED.get(c, c if " " <= c <= "~" else "?") for c in text)


@frozen
class Identifiers:
    """Distinct identifiers for distinct texts.

    Attributes:
        prefix: What they begin with.
    """

    prefix: str
    _known: dict[str, str] = field(factory=dict, init=False)

    @classmethod
    def of(cls, prefix: str, texts: Iterable[str]) -> Identifiers:
        """Return identifiers for some texts, in their order."""
        made = cls(prefix)
        for text in texts:
            made.add(text)
        return made

    def add(self, text: str) -> None:
        """Give a text an identifier, unless it has one."""
        if text in self._known:
            return
        word = self.prefix + re.sub("[^A-Za-z0-9]+", "_", text)[:_LETTERS].strip("_")
        taken = set(self._known.values())
        number = 2
        name = word
        while name in taken:
            name = f"{word}_{number}"
            number += 1
        self._known[text] = name

    def __getitem__(self, text: str) -> str:
        return self._known[text]

    def items(self) -> tuple[tuple[str, str], ...]:
        """Return the texts with their identifiers, in order."""
        return tuple(self._known.items())
