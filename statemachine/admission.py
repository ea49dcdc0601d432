"""What a call is given: judged by a plan that is worked out once for its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import field, frozen

from statemachine.errors import InvalidArgument
from statemachine.kinds import (
    JUDGES,
    Boolean,
    Choice,
    Duration,
    Integer,
    Kind,
    Plain,
    Text,
)

if TYPE_CHECKING:
    from statemachine.kinds import Row
    from statemachine.vocabulary import Param

_Judged: TypeAlias = "tuple[Callable[[Any, object, str], Plain], Kind, bool, bool]"

_LASTING = (Text, Choice, Duration, Integer, Boolean)
"""Kinds of which the very same value is judged the same again, and is no secret."""

_EXACT = frozenset({type(None), str, int, bool, timedelta})
_LONGEST = 1_024
"""Most bytes of a text that is kept."""


def _lasts(kind: Kind) -> bool:
    return isinstance(kind, _LASTING) and getattr(kind, "max_bytes", 0) <= _LONGEST


@frozen
class Admission:
    """Judges the arguments of a call.

    Attributes:
        params: What is wanted.
    """

    params: tuple[Param, ...]
    _plan: dict[str, _Judged] = field(init=False, repr=False, eq=False)
    _required: tuple[str, ...] = field(init=False, repr=False, eq=False)
    _absent: dict[str, Plain] = field(init=False, repr=False, eq=False)
    _last: dict[str, tuple[object, Plain]] = field(factory=dict, init=False, repr=False, eq=False)

    @_plan.default
    def _planned(self) -> dict[str, _Judged]:
        return {
            p.name: (JUDGES[type(p.kind)], p.kind, p.optional, _lasts(p.kind)) for p in self.params
        }

    @_required.default
    def _needed(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.params if not p.optional)

    @_absent.default
    def _left_out(self) -> dict[str, Plain]:
        return {p.name: None for p in self.params if p.optional}

    def __call__(self, values: Mapping[str, object], known: Row | None = None) -> dict[str, Plain]:
        """Return the plain values of a call's arguments; an optional one left out is NULL.

        A value that is the very one of the last call is not judged again: a worker gives its name
        and its lease with each call.

        Args:
            values: What is given, in Python's form.

            known: Plain values that win over `values`; names beside the parameters are kept.

        Raises:
            InvalidArgument: An unknown or missing argument, or a value out of its bounds; names it.
        """
        admitted, last = self._absent.copy(), self._last
        for name, value in values.items():
            judged = last.get(name)
            if judged is not None and judged[0] is value:
                admitted[name] = judged[1]
                continue
            planned = self._plan.get(name)
            if planned is None:
                raise InvalidArgument(name, f"one of the parameters {', '.join(self._plan)}")
            judge, kind, optional, lasting = planned
            plain = None if value is None and optional else judge(kind, value, name)
            admitted[name] = plain
            if lasting and (type(value) in _EXACT or isinstance(value, Enum)):
                last[name] = (value, plain)
        if known:
            admitted |= known
        for name in self._required:
            if name not in admitted:
                raise InvalidArgument(name, "given")
        return admitted


def admit_params(params: Iterable[Param], values: Mapping[str, object]) -> dict[str, Plain]:
    """Return the plain values of a call's arguments, judged once.

    Raises:
        InvalidArgument: As `Admission`.
    """
    return Admission(tuple(params))(values)
