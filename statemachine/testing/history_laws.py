"""What is true of the history of any row of any machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from statemachine.kinds import Plain, Row
    from statemachine.machine import Machine
    from statemachine.outcome import Event


def history_faults(machine: Machine, events: Sequence[Event], row: Row) -> tuple[str, ...]:
    """Return what is wrong with a row's whole history, one sentence each.

    The first event is a declared creation, each further one a declared edge from where the one
    before it ended; revisions count from 1 without a gap; and the changes, folded, give the
    recorded columns of the row.

    Args:
        machine: The declaration.

        events: All of the row's events, oldest first.

        row: The plain row as it is now; it may lack columns that are not recorded.
    """
    return tuple(_faults(machine, events, row))


def _faults(machine: Machine, events: Sequence[Event], row: Row) -> Iterator[str]:
    if not events:
        yield "there is no event of its creation"
        return
    folded: dict[str, Plain] = {column.name: None for column in machine.recorded}
    state: str | None = None
    for number, event in enumerate(events, 1):
        if event.revision != number:
            yield f"revision {event.revision} stands where {number} should"
        if (event.source, event.dest) not in _edges(machine, event.transition, state):
            yield f"{event.transition} from {event.source} to {event.dest} is no declared edge"
        state = event.dest
        folded |= event.changes
    if state != row[machine.state.name]:
        yield f"it ends in {state}, the row is {row[machine.state.name]}"
    for name, value in folded.items():
        if row[name] != value:
            yield f"its changes give {name} as {value!r}, the row has {row[name]!r}"


def _edges(machine: Machine, name: str, state: str | None) -> set[tuple[str | None, str]]:
    """Return the edges of this name that lead on from a state (None: from nothing)."""
    if state is None:
        return {(None, creation.dest) for creation in machine.creations if creation.name == name}
    return {
        (source, transition.reaches(source))
        for transition in machine.transitions
        if transition.name == name and not transition.quiet
        for source in transition.source
        if source == state
    }
