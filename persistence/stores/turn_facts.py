"""What a fallback message may say: facts with exact names on the wire."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NewType, get_type_hints

import attrs
from cattrs import Converter
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from statemachine.errors import InvalidArgument
from statemachine.fields import kind_of
from statemachine.kinds import admit, present
from statemachine.machines.run_launch import RunId  # noqa: TC001 - cattrs reads the annotations
from statemachine.machines.turn_intent import TurnCause  # noqa: TC001 - likewise

if TYPE_CHECKING:
    from collections.abc import Callable

    from statemachine.kinds import Row

MAX_REASON = 8_192
FIELD = "fallback_facts"

Reason = NewType("Reason", str)
"""Text of at most 8,192 characters; may be empty or hold control characters."""


class FactsSchema(enum.StrEnum):
    """The version of the wire form."""

    V1 = "pi-workflows.deferred-turn-facts.v1"


@attrs.frozen(kw_only=True)
class TurnFacts:
    """What was observed of a run when its turn ended.

    Attributes:
        schema: The version of the wire form.

        workflow_name, run_id, cause, node_id, attempt_id: Those of the intent itself.

        observed_state: A key, such as `failed`, `timed_out` or `handedOff`.

        reason: Why, when it is known; at most 8,192 characters.

        handoff: Whether another runner goes on with the run.
    """

    schema: FactsSchema = FactsSchema.V1
    workflow_name: str
    run_id: RunId
    observed_state: str
    cause: TurnCause
    node_id: str | None
    attempt_id: str | None
    reason: Reason | None
    handoff: bool


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


OWN = {
    "workflow_name": "workflow",
    "run_id": "run_id",
    "cause": "cause",
    "node_id": "node_id",
    "attempt_id": "attempt_id",
}
"""What facts and intent say alike, and the intent's column of it."""

WIRE_NAMES = {field.name: _camel(field.name) for field in attrs.fields(TurnFacts)}


def _bounded(hint: object) -> Callable[[Any, Any], Any]:
    """Return the structuring of an attribute: cattrs alone would make texts of numbers."""
    if hint == Reason | None:
        return _reason
    kind, nullable = kind_of(hint)
    assert kind is not None, hint

    def structured(value: object, _: object) -> Any:
        return None if nullable and value is None else present(kind, admit(kind, value, FIELD))

    return structured


def _reason(value: object, _: object) -> str | None:
    if value is not None and (not isinstance(value, str) or len(value) > MAX_REASON):
        raise InvalidArgument(FIELD, f"null, or text of at most {MAX_REASON} characters")
    return value


def _converter() -> Converter:
    hints = get_type_hints(TurnFacts, include_extras=True)
    names = {
        name: override(rename=wire, struct_hook=_bounded(hints[name]))
        for name, wire in WIRE_NAMES.items()
    }
    converter = Converter()
    converter.register_structure_hook(
        TurnFacts,
        make_dict_structure_fn(
            TurnFacts,
            converter,
            _cattrs_forbid_extra_keys=True,
            **names,  # type: ignore[arg-type]  # attributes, not options
        ),
    )
    converter.register_unstructure_hook(
        TurnFacts,
        make_dict_unstructure_fn(TurnFacts, converter, **names),  # type: ignore[arg-type]  # likewise
    )
    return converter


_WIRE = _converter()


def facts_of(document: object) -> TurnFacts:
    """Return the facts of a wire document.

    Raises:
        InvalidArgument: A field is unknown, missing, of a wrong type or out of bounds; named.
    """
    if not isinstance(document, Mapping):
        raise InvalidArgument(FIELD, "an object of turn facts")
    for wire in WIRE_NAMES.values():
        if wire not in document:
            raise InvalidArgument(f"{FIELD}.{wire}", "given")
    try:
        facts: TurnFacts = _WIRE.structure(document, TurnFacts)
    except ClassValidationError as error:
        raise _named(error) from error
    return facts


def wire_of(facts: TurnFacts) -> dict[str, Any]:
    """Return the wire document of facts."""
    document: dict[str, Any] = _WIRE.unstructure(facts)
    return document


def own_facts(given: object, row: Row | None) -> dict[str, Any]:
    """Return the wire document of facts, which must be the row's own.

    Args:
        given: `TurnFacts`, or their wire document.

        row: The intent's plain values; None where there is no such intent.

    Raises:
        InvalidArgument: They break a bound, or name another run, cause, node, attempt or
            workflow.
    """
    facts = facts_of(wire_of(given) if isinstance(given, TurnFacts) else given)
    own = {} if row is None else {name: row[column] for name, column in OWN.items()}
    for name, value in own.items():
        if getattr(facts, name) != value:
            raise InvalidArgument(f"{FIELD}.{WIRE_NAMES[name]}", f"the intent's own, {value!r}")
    return wire_of(facts)


def _named(error: ClassValidationError) -> InvalidArgument:
    noted, rest = error.group_exceptions()
    for cause, note in noted:
        bound = cause.bound if isinstance(cause, InvalidArgument) else "of its declared type"
        return InvalidArgument(f"{FIELD}.{WIRE_NAMES[note.name]}", bound)
    for cause in rest:
        if isinstance(cause, ForbiddenExtraKeysError):
            names = ", ".join(sorted(repr(name) for name in cause.extra_fields))
            return InvalidArgument(FIELD, f"without unknown fields such as {names}")
    return InvalidArgument(FIELD, "an object of turn facts")
