"""What a call is given: judged by a plan that is worked out once for its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import field, frozen

from statemachine.errors import InvalidArgument
from statemachine.kinds import JUDGES, Kind, Plain

if TYPE_CHECKING:
    from statemachine.kinds import Row
    from statemachine.vocabulary import Param

_Judged: TypeAlias = "tuple[str, Callable[[Any, object, str], Plain], Kind, bool]"


@frozen
class Admission:
    """Judges the arguments of a call.

    Attributes:
        params: What is wanted.
    """

    params: tuple[Param, ...]
    _plan: tuple[_Judged, ...] = field(init=False, repr=False, eq=False)

    @_plan.default
    def _planned(self) -> tuple[_Judged, ...]:
        return tuple((p.name, JUDGES[type(p.kind)], p.kind, p.optional) for p in self.params)

    def __call__(self, values: Mapping[str, object], known: Row | None = None) -> dict[str, Plain]:
        """Return the plain values of a call's arguments; an optional one left out is NULL.

        Args:
            values: What is given, in Python's form.

            known: What is given in plain form already, and need not be judged again.

        Raises:
            InvalidArgument: An unknown or missing argument, or a value out of its bounds; names it.
        """
        admitted: dict[str, Plain] = {} if known is None else {**known}
        for name, judge, kind, optional in self._plan:
            if name in admitted:
                continue
            value = values.get(name)
            if value is not None or (not optional and name in values):
                admitted[name] = judge(kind, value, name)
            elif optional:
                admitted[name] = None
            else:
                raise InvalidArgument(name, "given")
        if not values.keys() <= admitted.keys():
            unknown = next(name for name in values if name not in admitted)
            raise InvalidArgument(unknown, f"one of the parameters {', '.join(admitted)}")
        return admitted


def admit_params(params: Iterable[Param], values: Mapping[str, object]) -> dict[str, Plain]:
    """Return the plain values of a call's arguments, judged once.

    Raises:
        InvalidArgument: As `Admission`.
    """
    return Admission(tuple(params))(values)
