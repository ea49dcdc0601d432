"""A test's steps told in words, so that a failure reads like a story."""

from __future__ import annotations

import enum
import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import attrs

from statemachine.errors import SqlatchError, UniquenessConflict
from statemachine.outcome import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from statemachine.kinds import Row
    from statemachine.machine import Machine

_SHOWN = 40


class Disagreement(AssertionError):
    """A store did not do what its machine says; tells every step that led there.

    Attributes:
        machine: Name of the machine.

        steps: What was done, in order; the last one went wrong.

        declared: What the machine says of the last step.

        found: What the store did.
    """

    def __init__(self, machine: str, steps: Sequence[str], declared: str, found: str) -> None:
        super().__init__(machine, steps, declared, found)
        self.machine = machine
        self.steps = tuple(steps)
        self.declared = declared
        self.found = found

    def __str__(self) -> str:
        told = [f"{number:4}. {step}" for number, step in enumerate(self.steps, 1)]
        return "\n".join(
            (
                f"{self.machine} and its store disagree after this:",
                *told,
                f"    the machine: {self.declared}",
                f"    the store:   {self.found}",
            )
        )


def written(value: object) -> str:
    """Return an argument or a column's value in a few words."""
    match value:
        case bytes():
            return f"token {value[:2].hex()}"
        case timedelta():
            return f"{value.total_seconds():g} s"
        case datetime():
            return value.isoformat()
        case enum.Enum():
            return value.name.lower()
        case str() if len(value) > _SHOWN:
            return f"{value[:_SHOWN]!r}… ({len(value)} characters)"
        case None | bool() | int() | str():
            return repr(value)
        case _:
            return json.dumps(value, ensure_ascii=False, default=repr)[:_SHOWN]


def told(machine: Machine, before: Row | None, answer: object) -> str:
    """Return what a call came to.

    Args:
        machine: The declaration.

        before: The plain row before it; None where there was none.

        answer: A record, a refusal or an error.
    """
    match answer:
        case Refused():
            return str(answer).removeprefix(f"{answer.transition} ")
        case UniquenessConflict():
            return f"refused: {answer.rule!r} is taken"
        case SqlatchError():
            return f"{type(answer).__name__}: {answer}"
        case None:
            return "nothing"
        case _:
            pass
    state = written(getattr(answer, machine.state.name, answer)).strip("'")
    if before is None:
        return f"→ {state}"
    source = before[machine.state.name]
    return f"stays {state}" if source == state else f"{source} → {state}"


def differing(declared: object, found: object) -> tuple[str, str]:
    """Return what of two records differs, the declared and the found."""
    kind: type[Any] = type(declared)
    if not isinstance(found, kind) or not attrs.has(kind):
        return written(declared), written(found)
    names = [
        attribute.name
        for attribute in attrs.fields(kind)
        if getattr(declared, attribute.name) != getattr(found, attribute.name)
    ]
    return _members(declared, names), _members(found, names)


def _members(value: object, names: Sequence[str]) -> str:
    return ", ".join(f"{name}={written(getattr(value, name))}" for name in names)
