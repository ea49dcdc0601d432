"""One call: who makes it, under which id, and what it binds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from statemachine.kinds import Row
    from statemachine.outcome import Actor


class Call(NamedTuple):
    """One call, as `Engine.call_of` makes it.

    Attributes:
        actor: Who calls.

        id: The call's id.

        given: Whether the caller chose the id, and may have used it before.

        params: What is bound: its plain values, who calls, and the key.

        key: Of the row; empty where the call names none.
    """

    actor: Actor
    id: str
    given: bool
    params: Row
    key: str
