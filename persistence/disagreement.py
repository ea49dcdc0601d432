"""What differs between the in-memory machine's answer and the database's, readably."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from attrs import field, frozen

from statemachine.errors import SqlatchError
from statemachine.outcome import Moved, Refused
from statemachine.path import broken

if TYPE_CHECKING:
    from statemachine.kinds import Plain, Row
    from statemachine.machine import Machine
    from statemachine.outcome import Event

_LONG = 24

Found: TypeAlias = "Row | Refused | SqlatchError"


@frozen
class Difference:
    """One thing that differs.

    Attributes:
        about: `invariant`, `verdict`, `refusal`, `row`, `stored` or `history`.

        declared: What the declaration says, by the in-memory machine.

        found: What the database did.
    """

    about: str
    declared: str
    found: str


@frozen
class Disagreement:
    """A call of which the declaration and the database do not say the same.

    Attributes:
        call: The transition or creation.

        source: The state before; None for a creation.

        difference: The first thing that differs.

        row: The plain row before; None for a creation.

        params: The plain values of the call.
    """

    call: str
    source: Plain
    difference: Difference
    row: Row | None = field(repr=False)
    params: Row = field(repr=False)

    @property
    def place(self) -> str:
        """The call, and the state that it was tried from."""
        return self.call if self.source is None else f"{self.call} from {self.source}"

    def __str__(self) -> str:
        lines = [
            f"{self.place}: {self.difference.about} differs",
            f"  declared: {self.difference.declared}",
            f"  database: {self.difference.found}",
        ]
        if self.row is not None:
            filled = {name: value for name, value in self.row.items() if value is not None}
            lines.append(f"  row:      {_listed(filled)}")
        lines.append(f"  call:     {_listed(self.params)}")
        return "\n".join(lines)


def compared(
    machine: Machine, before: Row | None, verdict: Moved | Refused, found: Found
) -> Difference | None:
    """Compare answers; a moved row that breaks an invariant is a difference from the declaration.

    Args:
        machine: The declaration.

        before: The plain row before; None for a creation.

        verdict: What the in-memory machine says.

        found: What the database answered.
    """
    state = machine.state.name
    if isinstance(verdict, Refused):
        if isinstance(found, SqlatchError):
            return Difference("verdict", str(verdict), _said(found))
        if not isinstance(found, Refused):
            return Difference("verdict", str(verdict), f"moved to {found[state]}")
        return None if found == verdict else Difference("refusal", repr(verdict), repr(found))
    failed = broken(machine, verdict.row)
    if failed:
        moved = f"moved to {verdict.row[state]} with {_changed(before, verdict.row)}"
        return Difference("invariant", f'"{failed[0]}" holds of every row', moved)
    if isinstance(found, SqlatchError | Refused):
        return Difference("verdict", f"moved to {verdict.row[state]}", _said(found))
    return rows("row", verdict.row, found)


def rows(about: str, declared: Row, found: Row | None) -> Difference | None:
    """Compare two rows column by column."""
    if found is None:
        return Difference(about, "a row", "no row")
    differ = [name for name in declared if declared[name] != found.get(name)]
    if not differ and len(declared) == len(found):
        return None
    wanted = {name: declared[name] for name in differ}
    return Difference(about, _listed(wanted), _listed({name: found.get(name) for name in differ}))


def steps(declared: Event | None, found: list[Event]) -> Difference | None:
    """Compare what one call should have added to the history with what it did."""
    wanted = [] if declared is None else [declared]
    return None if found == wanted else Difference("history", repr(wanted), repr(found))


def _said(found: Refused | SqlatchError) -> str:
    return f"the database refused: {found}" if isinstance(found, SqlatchError) else str(found)


def _changed(before: Row | None, after: Row) -> str:
    if before is None:
        return _listed({name: value for name, value in after.items() if value is not None})
    return _listed({name: value for name, value in after.items() if value != before[name]})


def _listed(row: Row) -> str:
    return ", ".join(f"{name}={_shown(value)}" for name, value in row.items()) or "nothing"


def _shown(value: Plain) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str) and len(value) > _LONG:
        return repr(f"{value[:_LONG]}…")
    return repr(value)
