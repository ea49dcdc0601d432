"""`intents list`, `intents show`: which sessions are owed a turn, and what became of it."""

from __future__ import annotations

from typing import Annotated, Any

import attrs
import typer

from persistence.cli.database import DEFAULT_DB, Db, Json, open_database
from persistence.cli.exits import REFUSED, Ended
from persistence.cli.printing import (
    HIDDEN,
    event_members,
    instant,
    instant_of,
    member,
    print_facts,
    print_json,
    print_table,
)
from statemachine.machines import TurnIntent, TurnStatus

MAX_STEPS = 1_000

intents = typer.Typer(
    help="Look at turn intents: the turns that sessions are owed.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@intents.command("list")
def list_intents(
    *,
    session: Annotated[str | None, typer.Option(help="Only intents of this session.")] = None,
    run: Annotated[str | None, typer.Option(help="Only intents of this run.")] = None,
    status: Annotated[
        list[TurnStatus] | None,
        typer.Option(help="Only intents in this state; may be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Most intents.")] = 20,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """List turn intents, the newest requested first."""
    with open_database(db) as store:
        found = store.intents.list(
            session_id=session, run_id=run, statuses=tuple(status or ()), limit=limit
        )
    if as_json:
        print_json([_members(intent) for intent in found])
        return
    print_table(
        "",
        ("intent", "run", "session", "cause", "status", "resolution", "holder", "requested"),
        [
            (
                intent.intent_id,
                intent.run_id,
                intent.target_session_id,
                intent.cause,
                intent.status,
                intent.resolution or "",
                intent.lease_holder or "",
                instant(intent.requested_at),
            )
            for intent in found
        ],
    )


@intents.command("show")
def show_intent(
    intent_id: Annotated[str, typer.Argument(metavar="ID", help="The intent's id.")],
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Show a turn intent, its facts and what happened to it."""
    with open_database(db) as store:
        intent = store.intents.get(intent_id)
        if intent is None:
            raise Ended(REFUSED, f"there is no turn intent {intent_id!r}")
        steps = store.intents.history(intent_id, limit=MAX_STEPS)
    members = _members(intent)
    if as_json:
        print_json(members | {"history": [event_members(step) for step in steps]})
        return
    print_facts(members)
    print_table(
        "",
        ("revision", "at", "transition", "to", "actor", "generation"),
        [
            (
                str(step.revision),
                instant_of(step.at),
                step.transition,
                step.dest,
                f"{step.actor.kind} {step.actor.name}",
                "" if step.generation is None else str(step.generation),
            )
            for step in steps
        ],
    )


def _members(intent: TurnIntent) -> dict[str, Any]:
    names = (attribute.name for attribute in attrs.fields(TurnIntent))
    return {name: member(getattr(intent, name)) for name in names if name not in HIDDEN}
