"""What `run` shows: how far it is while it runs, and a table at the end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from persistence.cli.printing import console, one_line
from statemachine.machines import Run, RunStatus
from statemachine.machines.run_launch import CLAIMED, FINAL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_STYLES = {
    RunStatus.DONE: "green",
    RunStatus.FAILED: "red",
    RunStatus.CANCELLED: "yellow",
    RunStatus.RUNNING: "cyan",
}
_SHOWN_RUNNING = 8


class Progress:
    """The launches of one `run`, as last seen.

    Args:
        runs: Those of the file.

        new: How many of them were not known before.

        shown: Whether to show anything, on standard error.
    """

    def __init__(self, runs: Sequence[Run], *, new: int, shown: bool) -> None:
        self.runs = {run.run_id: run for run in runs}
        self._open = dict.fromkeys(run.run_id for run in runs if run.status not in FINAL)
        self._new = new
        self._console = Console(stderr=True, highlight=False, quiet=not shown)
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, get_renderable=self._drawn
        )

    def open_runs(self) -> list[Run]:
        """Return those that are not final."""
        return [self.runs[run_id] for run_id in self._open]

    def oldest_seen(self, at_most: int) -> list[Run]:
        """Return open runs, those first that were not seen for the longest time."""
        return [self.runs[run_id] for run_id in list(self._open)[:at_most]]

    def see(self, run: Run) -> None:
        """Take in a run's present state; where no terminal shows it live, say how it ended."""
        before = self.runs[run.run_id]
        self.runs[run.run_id] = run
        self._open.pop(run.run_id, None)
        if run.status not in FINAL:
            self._open[run.run_id] = None
        if run.status in FINAL and before.status not in FINAL and not self._console.is_terminal:
            self.say(f"{run.run_id} {run.status} {run.error_message or ''}")

    def say(self, line: str) -> None:
        """Tell something on standard error."""
        self._console.print(Text(one_line(line)))

    def show(self) -> None:
        """Draw what was taken in."""
        self._live.refresh()

    def __enter__(self) -> Self:
        known = len(self.runs) - self._new
        self.say(f"{self._new} launched, {known} known before")
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def _drawn(self) -> Table:
        counts = Counter(run.status for run in self.runs.values())
        finished = sum(counts[status] for status in FINAL)
        drawn = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=max(1, len(self.runs)), completed=finished, width=40)
        told = Text(" ").join(
            Text(f"{counts[status]} {status}", _STYLES.get(status, ""))
            for status in RunStatus
            if counts[status]
        )
        drawn.add_row(bar, Text(f"{finished}/{len(self.runs)}"), told)
        running = [run for run in self.runs.values() if run.status in CLAIMED]
        for run in running[:_SHOWN_RUNNING]:
            drawn.add_row(Text(one_line(run.run_id)), Text(""), Text(run.lease_holder or ""))
        return drawn


def print_outcome(runs: Sequence[Run]) -> None:
    """Print a line per launch, in the file's order, and what they come to."""
    table = Table("launch", "status", "outcome", "exit", "seconds", "attempts", "error")
    for run in runs:
        kept = run.result if isinstance(run.result, dict) else {}
        table.add_row(
            Text(one_line(run.run_id)),
            Text(run.status, _STYLES.get(run.status, "")),
            Text(run.outcome or ""),
            Text(str(kept.get("exit_code", ""))),
            Text(str(kept.get("seconds", ""))),
            Text(f"{run.attempts}"),
            Text(one_line(run.error_message or "")),
        )
    counts = Counter(run.status for run in runs)
    total = ", ".join(f"{counts[status]} {status}" for status in RunStatus if counts[status])
    out = console()
    out.print(table)
    out.print(f"{len(runs)} launches: {total or 'none'}")
