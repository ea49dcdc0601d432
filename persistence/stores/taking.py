"""What a call that takes a run is given: who is to hold it, and what it is bound to."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from statemachine.errors import InvalidArgument
from statemachine.kinds import Text, admit
from statemachine.machines import HolderKind
from statemachine.outcome import Actor

if TYPE_CHECKING:
    from datetime import timedelta

    from statemachine.kinds import JsonValue, Row

_KEY = Text()
_RUNNERS: Mapping[str, str] = {kind: kind.value for kind in (HolderKind.SESSION, HolderKind.HOST)}


def holding(runner_id: object, holder_kind: object) -> Row:
    """Return who is to hold a lease, in plain form.

    Raises:
        InvalidArgument: The runner's id is no key, or the kind neither `session` nor `host`.
    """
    if type(runner_id) is str and isinstance(holder_kind, str):
        return _holding(runner_id, holder_kind)
    return _judged(runner_id, holder_kind)


def _judged(runner_id: object, holder_kind: object) -> Row:
    kind = _RUNNERS.get(holder_kind) if isinstance(holder_kind, str) else None
    if kind is None:
        raise InvalidArgument("holder_kind", "session or host")
    return {"holder": admit(_KEY, runner_id, "runner_id"), "holder_kind": kind}


# A worker names itself with each call.
_holding = functools.lru_cache(maxsize=256)(_judged)


def taking(
    runner_id: str, lease: timedelta, holder_kind: HolderKind | str, token: bytes
) -> Mapping[str, object]:
    """Return what a taking transition is given.

    Raises:
        InvalidArgument: As for `holding`.
    """
    return {**holding(runner_id, holder_kind), "lease": lease, "token": token}


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


def runner(kind: HolderKind | str, name: object) -> Actor:
    """Return the runner itself as who calls; an id that is no key is refused elsewhere."""
    return _actor(str(kind), name if isinstance(name, str) else "")


_actor = functools.lru_cache(maxsize=256)(Actor)
