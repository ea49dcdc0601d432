"""The rows that an exploration reached, and the ways between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from statemachine.path import Path

if TYPE_CHECKING:
    from statemachine.calls import Call
    from statemachine.kinds import Plain, Row
    from statemachine.lens import Lens, Seen
    from statemachine.machine import Machine

TICK = "tick"


@frozen
class Edge:
    """One way from a state to another.

    Attributes:
        name: The transition; `tick` for the passing of time.

        dest: Number of the state that it reaches.
    """

    name: str
    dest: int


class Graph:
    """The rows that were reached, and the ways between them.

    Attributes:
        rows: What is seen of each row, in the order of discovery.

        ways: The ways out of each.
    """

    def __init__(self, machine: Machine, lens: Lens) -> None:
        self.machine = machine
        self.lens = lens
        self.rows: list[Seen] = []
        self.ways: list[dict[Edge, None]] = []
        self._index: dict[Seen, int] = {}
        self._origin: list[tuple[int | None, Call | None]] = []

    def find(self, row: Row) -> tuple[Seen, int | None]:
        """Return what is seen of a row, and its number if it was reached before."""
        seen = self.lens.see(row)
        return seen, self._index.get(seen)

    def add(self, seen: Seen, origin: int | None, call: Call | None) -> int:
        """Add a row that was reached by a call (None: by a tick) and return its number."""
        self._index[seen] = len(self.rows)
        self.rows.append(seen)
        self.ways.append({})
        self._origin.append((origin, call))
        return len(self.rows) - 1

    def path(self, number: int | None, *last: Call) -> Path:
        """Return a shortest path to a row, and on by further calls."""
        calls: list[Call | None] = list(reversed(last))
        while number is not None:
            number, call = self._origin[number]
            calls.append(call)
        return Path(self.machine, tuple(reversed(calls)))

    def state(self, number: int) -> Plain:
        """Return the state of a row."""
        return self.lens.show(self.rows[number])[self.machine.state.name]

    def widest(self) -> tuple[str, int]:
        """Return the column in view that has the most values in the rows, and how many."""
        columns = zip(self.lens.views, zip(*self.rows, strict=True), strict=True)
        return max(((n, len(set(values))) for n, values in columns), key=lambda found: found[1])

    def leading_to(self, goals: list[int], names: tuple[str, ...] | None) -> set[int]:
        """Return the rows from which ways of these names (None: any) and ticks reach a goal."""
        back: list[list[int]] = [[] for _ in self.rows]
        for number, ways in enumerate(self.ways):
            for way in ways:
                if names is None or way.name == TICK or way.name in names:
                    back[way.dest].append(number)
        reached, queue = set(goals), list(goals)
        for number in queue:
            for before in back[number]:
                if before not in reached:
                    reached.add(before)
                    queue.append(before)
        return reached
