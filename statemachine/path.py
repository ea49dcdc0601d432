"""A path through a machine, told as a story or as a script that walks it again."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

from attrs import field, frozen

from statemachine.examples import NOW_MS
from statemachine.interpret import Meaning, meaning
from statemachine.lens import TICK_MS
from statemachine.outcome import Moved
from statemachine.simulate import create, decide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statemachine.calls import Call
    from statemachine.kinds import Plain, Row
    from statemachine.machine import Machine

_SCRIPT = '''\
"""{story}"""

from statemachine.interpret import holds
from statemachine.simulate import create, decide


def replay(machine):
    """Walk the path; return the last row."""
{lines}
    print(row)
    for invariant in machine.invariants:
        if holds(invariant.condition, row, {{}}, 0) is not True:
            print(f"broken: {{invariant.name}}")
    return row
'''

_MAIN = """

if __name__ == "__main__":
    from {module} import {name}

    replay({name})
"""


@frozen
class Step:
    """One step of a path.

    Attributes:
        label: What was done, as a story tells it.

        name: The creation or transition; None for a tick of the clock.

        params: The plain values of the call.

        now: When, in milliseconds since the Unix epoch.

        row: The plain row afterwards.
    """

    label: str
    name: str | None
    params: Row
    now: int
    row: Row


@frozen
class Path:
    """The calls that lead from nothing to a row, with ticks of the clock (None) between them.

    Attributes:
        machine: The declaration.

        calls: The first one is a creation.
    """

    machine: Machine = field(repr=False)
    calls: tuple[Call | None, ...]

    def __len__(self) -> int:
        return len(self.calls)

    def __str__(self) -> str:
        state = self.machine.state.name
        return " ".join(f"—{step.label}→ {step.row[state]}" for step in self.steps())

    def steps(self) -> Iterator[Step]:
        """Walk the path on whole rows and yield its steps."""
        row: Row = {}
        now = NOW_MS
        for call in self.calls:
            if call is None:
                now += TICK_MS
                yield Step("tick", None, {}, now, row)
                continue
            params = call.params(row, now)
            if not row:
                row = create(self.machine, call.name, params, now).row
            else:
                moved = decide(self.machine, row, call.name, params, now)
                # A call that is refused here would have been refused when the path was found.
                assert isinstance(moved, Moved), str(moved)
                row = moved.row
            yield Step(call.label, call.name, params, now, row)

    def script(self, title: str = "") -> str:
        """Return a Python script that walks the path again and prints the last row."""
        lines: list[str] = []
        for step in self.steps():
            if step.name is None:
                continue
            params: dict[str, Plain] = dict(step.params)
            if not lines:
                made = f'create(machine, "{step.name}", {params!r}, {step.now}).row'
                lines.append(f"    row = {made}")
            else:
                moved = f'decide(machine, row, "{step.name}", {params!r}, {step.now}).row'
                lines.append(f"    row = {moved}")
        story = (title or str(self)).replace('"', "'")
        return _SCRIPT.format(story=story, lines="\n".join(lines)) + _main(self.machine)


def _main(machine: Machine) -> str:
    """Return the lines that run a script by itself, where the machine can be imported.

    A module that only uses the machine holds it too: one that exports it goes first, then the
    outermost.
    """
    places = [
        (name not in getattr(loaded, "__all__", ()), module.count("."), len(module), module, name)
        for module, loaded in list(sys.modules.items())
        for name, value in list(vars(loaded).items())
        if value is machine and module != "__main__" and name.isidentifier()
    ]
    if not places:
        return ""
    *_, module, name = min(places)
    return _MAIN.format(module=module, name=name)


@frozen
class Discovery:
    """A property that does not hold.

    Attributes:
        name: The invariant, rule or property.

        path: A shortest path to where it fails.
    """

    name: str
    path: Path

    def __str__(self) -> str:
        return f'{self.path}: "{self.name}" fails'

    def script(self) -> str:
        """Return a Python script that walks there again."""
        return self.path.script(str(self))


def broken(machine: Machine, row: Row) -> tuple[str, ...]:
    """Return the names of the invariants that a plain row breaks."""
    return tuple(name for name, truth in _invariants(machine) if truth(row, {}, 0) is not True)


@functools.lru_cache(maxsize=128)
def _invariants(machine: Machine) -> tuple[tuple[str, Meaning], ...]:
    return tuple((rule.name, meaning(rule.condition)) for rule in machine.invariants)
