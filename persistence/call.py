"""One call: who makes it, under which id, and what it binds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from persistence.binds import ACTOR_BIND, ACTOR_KIND_BIND, CALL_BIND, KEY_BIND
from statemachine.outcome import NOBODY, Actor

if TYPE_CHECKING:
    from statemachine.kinds import Row


class Caller(NamedTuple):
    """Who calls, and under which id.

    Attributes:
        actor: Who.

        call: The call's id.

        given: Whether the caller chose the id, and may have used it before.
    """

    actor: Actor = NOBODY
    call: str = "unnamed"
    given: bool = False


class Call(NamedTuple):
    """One call, as `call_of` makes it.

    Attributes:
        caller: Who calls, under which id.

        params: What is bound: its plain values, its caller and the key.

        key: Of the row; empty where the call names none.
    """

    caller: Caller
    params: Row
    key: str


def call_of(caller: Caller, params: Row, key: str = "") -> Call:
    """Return a call with these plain values."""
    bound = {
        **params,
        KEY_BIND: key,
        CALL_BIND: caller.call,
        ACTOR_BIND: caller.actor.name,
        ACTOR_KIND_BIND: caller.actor.kind,
    }
    # As `Call` makes it, whose own constructor is a function of Python's.
    return tuple.__new__(Call, (caller, bound, key))
