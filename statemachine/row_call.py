"""One call among several that are made together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Mapping


@frozen
class RowCall:
    """One call of a batch.

    Attributes:
        key: Which row.

        values: The transition's parameters, by name; Python values.

        call: The call's id; minted when None.
    """

    key: str
    values: Mapping[str, object] = field(factory=dict)
    call: str | None = None
