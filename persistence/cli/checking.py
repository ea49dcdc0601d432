"""`check`: machines tried whole, in memory and on a real database."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from persistence.cli.database import DEFAULT_DB, Db, Json
from persistence.cli.exits import REFUSED, Ended
from persistence.cli.naming import MachineNames, machines_named
from persistence.cli.printing import print_json, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from persistence import CheckReport

HELPERS = {
    "run_launch": (
        *("claim", "mark_running", "renew", "park", "finish", "fail"),
        *("reap", "reap_cancelled", "wake", "resume"),
    ),
    "turn_intent": ("claim", "resolve"),
    "notification": ("claim", "mark_delivered"),
}
"""What workers, reapers and whoever wakes and resumes do: with time it must end every row."""


def check(
    names: MachineNames = None,
    *,
    helper: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TRANSITION",
            help="May be repeated: with time these alone must lead from everywhere to an end."
            " Default: of a shipped machine what workers, reapers and waking do.",
        ),
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Check machines: every call against a real database, every reachable row, and its way out.

    On PostgreSQL within a transaction that is never committed, on SQLite in memory: no database is
    changed. Exits with 1 when something is wrong, which is then told with the way there.
    """
    from persistence import check_machine  # noqa: PLC0415 - `--help` need not pay for it
    from statemachine.machines import ALL  # noqa: PLC0415 - likewise

    machines = machines_named(names)
    url = db if "://" in db else None
    reports: list[CheckReport] = []
    for machine in machines:
        with _progress(machine.name) as progress:
            shipped = HELPERS[machine.name] if machine in ALL else ()
            helpers = tuple(helper) if helper else shipped
            report = check_machine(machine, url, helpers=helpers, progress=progress)
        reports.append(report)
        if not as_json:
            print(printable(str(report)), flush=True)
    if as_json:
        print_json([_members(report) for report in reports])
    if not all(reports):
        raise Ended(REFUSED)


def _members(report: CheckReport) -> dict[str, Any]:
    tried, explored = report.agreement, report.exploration
    return {
        "machine": tried.machine.name,
        "database": tried.database,
        "ways": tried.ways,
        "calls": tried.cells,
        "left_out": tried.left_out,
        "slots": tried.slots,
        "creations": tried.births,
        "states": explored.states,
        "edges": explored.edges,
        "seconds": round(report.seconds, 3),
        "findings": report.findings(),
        "well": bool(report),
    }


@contextmanager
def _progress(machine: str) -> Iterator[Callable[[str, int, int], None] | None]:
    """Show how far it is on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - costs what is piped nothing
    from rich.progress import Progress  # noqa: PLC0415 - likewise

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(machine)
        yield lambda what, done, total: bar.update(
            task, description=f"{machine}: {what}", completed=done, total=total
        )
