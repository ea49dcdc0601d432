"""`run` and `launch`: reserve the launches of a file, and run them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from persistence.cli.database import DEFAULT_DB, Db, Json, Project, open_database
from persistence.cli.exits import DONE, INTERRUPTED, REFUSED, SOME_FAILED, Ended
from persistence.cli.launch_file import Launch, read_launches
from persistence.cli.printing import print_json, run_members
from persistence.cli.working import DEFAULT_LEASE_S, LeaseSeconds
from statemachine.errors import IdentityConflict
from statemachine.machines import RunStatus
from statemachine.machines.run_launch import FINAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from persistence import Store
    from statemachine.machines import Run

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", exists=True, dir_okay=False, readable=True, help="Launches, one a line."
    ),
]


def launch(
    file: File, db: Db = DEFAULT_DB, project: Project = "default", as_json: Json = False
) -> None:
    """Queue the launches of a file for workers; those of an earlier time are left as they are."""
    launches = read_launches(file)
    with open_database(db, create=True, project=project) as store:
        runs, new = reserve(store, launches)
    if as_json:
        print_json([run_members(run) for run in runs])
    else:
        print(f"{new} launched, {len(runs) - new} known before")


def run(
    file: File,
    *,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Worker processes.")] = 4,
    lease: LeaseSeconds = DEFAULT_LEASE_S,
    db: Db = DEFAULT_DB,
    project: Project = "default",
    as_json: Json = False,
) -> None:
    """Run the launches of a file, with live progress and a table at the end.

    Kill it at any time and run it again: what has finished stays finished, what was running is
    taken up when its lease ends, and nothing runs twice at once.
    """
    from persistence.cli.progress import Progress, print_outcome  # noqa: PLC0415 - `--help` is quick
    from persistence.cli.supervising import Crew, supervise  # noqa: PLC0415 - likewise

    launches = read_launches(file)
    with open_database(db, create=True, project=project) as store:
        runs, new = reserve(store, launches)
        with Progress(runs, new=new, shown=not as_json) as progress:
            whole = True
            if progress.open_runs():
                crew = Crew(workers, lease_s=lease, db=db, project=project)
                whole = supervise(store, progress, crew)
        runs = [store.runs.get(one.run_id) or one for one in runs]
    if as_json:
        print_json([run_members(one) for one in runs])
    else:
        print_outcome(runs)
    if not whole:
        raise Ended(INTERRUPTED)
    left = sum(one.status not in FINAL for one in runs)
    if left:
        raise Ended(REFUSED, f"{left} launches could not be run; `sqlatch list` says why")
    bad = any(one.status in (RunStatus.FAILED, RunStatus.CANCELLED) for one in runs)
    raise Ended(SOME_FAILED if bad else DONE)


def reserve(store: Store, launches: Sequence[Launch]) -> tuple[list[Run], int]:
    """Reserve all launches or, where an id is known with other facts, none.

    Returns:
        The runs, in the file's order, and how many are new.

    Raises:
        Ended: Some lines have changed since their ids were used; each is named.
    """
    runs: list[Run] = []
    new = 0
    conflicts: list[str] = []
    with store.transaction():
        for one in launches:
            known = store.runs.get(one.run_id)
            try:
                runs.append(
                    store.runs.reserve(
                        run_id=one.run_id,
                        workflow=one.workflow,
                        source_ref=one.source_ref,
                        source=one.source,
                        definition_digest=one.definition_digest,
                        input=one.input,
                        launch_options=one.launch_options,
                        max_attempts=one.max_attempts,
                    )
                )
            except IdentityConflict as error:
                conflicts.append(f"line {one.line}: {error}")
            new += known is None
        if conflicts:
            raise Ended(REFUSED, "\n".join((*conflicts, "nothing was launched")))
    return runs, new
