"""The parameters that the engine itself binds; a machine's own never begin so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import frozen

from persistence.dialect import Key, Placeholder

if TYPE_CHECKING:
    import sqlalchemy as sa

NOW_BIND = "sys_now"
KEY_BIND = "sys_key"
CALL_BIND = "sys_call"
ACTOR_BIND = "sys_actor"
ACTOR_KIND_BIND = "sys_actor_kind"
LIMIT_BIND = "sys_limit"
EXCLUDE_BIND = "sys_exclude"

Pick: TypeAlias = Callable[[Mapping[str, object]], tuple[object, ...]]
"""Picks a statement's values by name, in the order of their places."""


def picking(names: Collection[str]) -> Pick:
    """Return what picks the values of these names."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple(values[name] for name in names)


@frozen
class CallTerms:
    """Where the id of a call and its actor come from.

    Attributes:
        call, actor, actor_kind: The expressions.
    """

    call: sa.ColumnElement[Any]
    actor: sa.ColumnElement[Any]
    actor_kind: sa.ColumnElement[Any]


ONE_CALL = CallTerms(
    Placeholder(CALL_BIND, Key()),
    Placeholder(ACTOR_BIND, Key()),
    Placeholder(ACTOR_KIND_BIND, Key()),
)
