"""What is worked out for each name, when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Part = TypeVar("_Part")


class Built(dict[str, _Part]):
    """Parts by name, each built once.

    Args:
        build: Builds the part of a name; what it raises for an unknown one is raised.
    """

    def __init__(self, build: Callable[[str], _Part]) -> None:
        super().__init__()
        self._build = build

    def __missing__(self, name: str) -> _Part:
        return self.setdefault(name, self._build(name))
