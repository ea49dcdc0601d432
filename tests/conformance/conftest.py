"""The database behind the store's back; and how much of the recorded traces was compared."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from attrs import define, field

from persistence import Store
from tests.conformance.replay import Tally
from tests.conftest import Capabilities
from tests.raw import Raw


@define
class Figures:
    """What the replays compared, to be printed once the tests are done."""

    lines: list[str] = field(factory=list)
    sums: dict[str, tuple[int, int]] = field(factory=dict)

    def add(self, backend: str, family: str, tally: Tally) -> None:
        """Keep a family's figures."""
        unmapped = sum(tally.unmapped.values())
        told = f"{backend} {family}: {tally.compared} of {tally.steps} steps compared"
        if tally.behind:
            told += f", {tally.behind} behind a difference that parted the rows"
        if unmapped:
            told += f", {unmapped} without a counterpart"
        for name, counted in (("parted by", tally.ended), ("seen", tally.shown)):
            if counted:
                told += f"; {name} {_brief(counted)}"
        self.lines.append(told)
        compared, steps = self.sums.get(backend, (0, 0))
        self.sums[backend] = (compared + tally.compared, steps + tally.steps)


def _brief(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {counted[name]}x" for name in sorted(counted))


_FIGURES = Figures()


@pytest.fixture
def figures() -> Figures:
    """Where a replay leaves its figures."""
    return _FIGURES


@pytest.fixture
def raw(store: Store, database: str, capabilities: Capabilities) -> Raw:
    """The database behind the store's back."""
    return Raw(store, database, capabilities)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures, as far as there are any."""
    if _FIGURES.lines:
        terminalreporter.section("recorded traces")
        for line in _FIGURES.lines:
            terminalreporter.write_line(line)
        for backend, (compared, steps) in _FIGURES.sums.items():
            terminalreporter.write_line(f"{backend}: {compared} of {steps} steps in all")
