"""`list`, `show`, `history`: what an operator may see of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from persistence.cli.database import DEFAULT_DB, Db, Json, RunId, open_database
from persistence.cli.exits import REFUSED, Ended
from persistence.cli.printing import (
    event_members,
    instant,
    instant_of,
    print_facts,
    print_json,
    print_table,
    printable,
    run_members,
)
from persistence.cli.stuck import why_stuck
from statemachine.machines.run_launch import Run, RunStatus

if TYPE_CHECKING:
    from persistence import Store

MAX_EVENTS = 1_000


def list_runs(
    *,
    status: Annotated[
        list[RunStatus] | None, typer.Option(help="Only runs in this state; may be repeated.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="Only runs of this session.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Most runs.")] = 100,
    newest: Annotated[bool, typer.Option("--newest", help="Newest first.")] = False,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """List runs, and say in a word what is stuck and why."""
    with open_database(db) as store:
        runs = store.runs.list(
            statuses=tuple(status or ()),
            origin_session_id=session,
            limit=limit,
            newest_first=newest,
        )
        stuck = [_stuck(store, run) for run in runs]
    if as_json:
        print_json(
            [run_members(run) | {"stuck": why} for run, why in zip(runs, stuck, strict=True)]
        )
        return
    print_table(
        "",
        ("run", "workflow", "status", "stuck", "attempts", "holder", "updated", "error"),
        [
            (
                run.run_id,
                run.workflow,
                run.status,
                why,
                str(run.attempts)
                if run.max_attempts is None
                else f"{run.attempts}/{run.max_attempts}",
                run.lease_holder or "",
                instant(run.updated_at),
                run.error_message or "",
            )
            for run, why in zip(runs, stuck, strict=True)
        ],
    )


def show(run_id: RunId, db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """Show a run with its kept output; never its input and the values of its environment."""
    with open_database(db) as store:
        run = store.runs.get(run_id)
        if run is None:
            raise Ended(REFUSED, f"there is no run {run_id!r}")
        why = _stuck(store, run)
    members = run_members(run) | {"stuck": why, "environment": _environment(run)}
    if as_json:
        print_json(members)
        return
    kept = members.pop("result")
    output = {}
    if isinstance(kept, dict) and "exit_code" in kept:
        output = {name: kept.pop(name) for name in ("stdout", "stderr") if name in kept}
    print_facts(members | {"result": kept})
    for name, text in output.items():
        print(f"--- {name} ---")
        print(printable(str(text)), end="" if str(text).endswith("\n") or not text else "\n")


def history(
    run_id: RunId,
    limit: Annotated[int, typer.Option(min=1, max=MAX_EVENTS, help="Most events.")] = MAX_EVENTS,
    after: Annotated[int, typer.Option(min=0, help="Only events after this revision.")] = 0,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Show what happened to a run: each transition, by whom, and what it changed."""
    with open_database(db) as store:
        events = store.runs.history(run_id, limit=limit, after_revision=after)
        if not events and store.runs.get(run_id) is None:
            raise Ended(REFUSED, f"there is no run {run_id!r}")
    if as_json:
        print_json([event_members(event) for event in events])
        return
    print_table(
        "",
        ("revision", "at", "transition", "from", "to", "actor", "generation", "changes"),
        [
            (
                str(event.revision),
                instant_of(event.at),
                event.transition,
                event.source or "",
                event.dest,
                f"{event.actor.kind} {event.actor.name}",
                "" if event.generation is None else str(event.generation),
                ", ".join(f"{name}={value}" for name, value in event.changes.items()),
            )
            for event in events
        ],
    )


def _stuck(store: Store, run: Run) -> str:
    return why_stuck(run, store.clock.now(), store.runs.find_reservation)


def _environment(run: Run) -> list[str]:
    """Return the names of the given variables, and where they come from; never a value."""
    options = run.launch_options
    env = options.get("env") if isinstance(options, dict) else None
    if not isinstance(env, dict):
        return []
    return [
        f"{name} from {value['from']}" if isinstance(value, dict) and "from" in value else name
        for name, value in env.items()
    ]
