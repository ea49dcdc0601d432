"""Which columns and parameters of a machine meet: compared, or the one written into the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from statemachine.apart import comparisons
from statemachine.solve import Variable, variables_of
from statemachine.vocabulary import Deadline, Literal, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from statemachine.vocabulary import Assignment, Column, Condition, Constant, Term


@define(eq=False)
class Group:
    """Variables whose values meet.

    Attributes:
        variables: The columns and parameters.

        constants: What they are compared with.

        compared: Whether anything but a test for NULL reads them.

        against: Whether two variables are compared with each other.

        ordered: Whether they are compared by less or at most.
    """

    variables: dict[Variable, None] = field(factory=dict)
    constants: dict[Constant, None] = field(factory=dict)
    compared: bool = False
    against: bool = False
    ordered: bool = False

    def join(self, other: Group) -> None:
        """Take in what another group knows."""
        self.variables |= other.variables
        self.constants |= other.constants
        self.compared |= other.compared
        self.against |= other.against
        self.ordered |= other.ordered


def groups(
    conditions: Iterable[Condition],
    assignments: Iterable[Assignment],
    watched: Iterable[Column] = (),
) -> dict[Variable, Group]:
    """Return each variable's group.

    Args:
        conditions: What compares them.

        assignments: What writes them.

        watched: Columns that are compared with themselves, in another row or before a move.
    """
    found: dict[Variable, Group] = {}
    for terms, ordered in comparisons(conditions, ()):
        variables = _variables(terms)
        constants = {t.value: None for t in terms if isinstance(t, Literal)}
        met = Group(dict.fromkeys(variables), constants, compared=True, against=len(variables) > 1)
        met.ordered = ordered
        _meet(found, met)
    for assignment in assignments:
        terms = (assignment.column, *terms_of(assignment))
        _meet(found, Group(dict.fromkeys(_variables(terms))))
    for column in watched:
        _meet(found, Group({column: None}, compared=True, against=True))
    return found


def _variables(terms: tuple[Term, ...]) -> tuple[Variable, ...]:
    """Return columns and parameters; a deadline's duration is never compared itself."""
    return variables_of(term for term in terms if not isinstance(term, Deadline))


def _meet(found: dict[Variable, Group], met: Group) -> None:
    for variable in tuple(met.variables):
        if variable in found:
            met.join(found[variable])
    found |= dict.fromkeys(met.variables, met)
