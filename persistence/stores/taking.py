"""What a call that takes a run is given: who is to hold it, and what it is bound to."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from statemachine.errors import InvalidArgument
from statemachine.kinds import Text, admit
from statemachine.machines import HolderKind
from statemachine.outcome import Actor

if TYPE_CHECKING:
    from statemachine.kinds import JsonValue, Row

_KEY = Text()
_RUNNERS: Mapping[str, str] = {kind: kind.value for kind in (HolderKind.SESSION, HolderKind.HOST)}


class Holder(NamedTuple):
    """A runner that is to hold a lease.

    Attributes:
        plain: What a taking transition is given of it, in plain form.

        actor: The runner itself, as who calls.
    """

    plain: Row
    actor: Actor


def holding(runner_id: object, holder_kind: object) -> Holder:
    """Return who is to hold a lease.

    Raises:
        InvalidArgument: The runner's id is no key, or the kind neither `session` nor `host`.
    """
    if type(runner_id) is str and isinstance(holder_kind, str):
        return _named(runner_id, holder_kind)
    return _holder(runner_id, holder_kind)


def _holder(runner_id: object, holder_kind: object) -> Holder:
    kind = _RUNNERS.get(holder_kind) if isinstance(holder_kind, str) else None
    if kind is None:
        raise InvalidArgument("holder_kind", "session or host")
    name = str(admit(_KEY, runner_id, "runner_id"))
    return Holder({"holder": name, "holder_kind": kind}, Actor(kind, name))


# A worker names itself with each call.
_named = functools.lru_cache(maxsize=256)(_holder)


def binding(
    workflow: str, source_ref: str, source: JsonValue, digest: str, expected: str
) -> Mapping[str, object]:
    """Return what a rebinding transition is given."""
    return {
        "workflow": workflow,
        "source_ref": source_ref,
        "source": source,
        "definition_digest": digest,
        "expected_source_ref": expected,
    }
