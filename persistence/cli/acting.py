"""`cancel`, `wake`, `requeue`, `reject`, `pause`, `resume`: what an operator may do to a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from persistence.cli.database import DEFAULT_DB, Db, Json, RunId, open_database
from persistence.cli.exits import REFUSED, Ended, done
from persistence.cli.printing import print_json, printable, run_members
from persistence.stores.claims import AlreadyFinal, Cancelled, CancelRequested
from statemachine.outcome import Refused

if TYPE_CHECKING:
    from statemachine.machines.run_launch import Run


def cancel(run_id: RunId, db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """Call a run off: at once, or by asking the holder that is at work on it."""
    with open_database(db) as store:
        answer = store.runs.cancel(run_id)
    match answer:
        case Cancelled(run):
            told = "is cancelled"
        case CancelRequested(run):
            told = "is being worked on; its holder has been asked to end it"
        case AlreadyFinal(run):
            told = f"has ended before: {run.status}"
        case Refused():
            raise Ended(REFUSED, str(answer))
        case _:
            assert_never(answer)
    _tell(run, told, as_json=as_json)


def wake(run_id: RunId, db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """Let a waiting run be taken again."""
    with open_database(db) as store:
        _tell(done(store.runs.wake(run_id)), "may be taken again", as_json=as_json)


def requeue(run_id: RunId, db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """Put a launch whose lease ran out before anything ran back into the queue."""
    with open_database(db) as store:
        _tell(done(store.runs.requeue(run_id)), "is queued again", as_json=as_json)


def reject(
    run_id: RunId,
    code: Annotated[str, typer.Option(help="What kind of failure it is.")] = "rejected",
    message: Annotated[str, typer.Option(help="Why.")] = "rejected by an operator",
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Fail a run that nobody holds."""
    with open_database(db) as store:
        run = done(store.runs.reject(run_id, error_code=code, error_message=message))
    _tell(run, "has failed", as_json=as_json)


def pause(run_id: RunId, db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """Keep a run from being taken; who is at work on it goes on."""
    with open_database(db) as store:
        _tell(done(store.runs.pause(run_id)), "is paused", as_json=as_json)


def resume(run_id: RunId, db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """Let a paused run be taken again."""
    with open_database(db) as store:
        _tell(done(store.runs.resume(run_id)), "is no longer paused", as_json=as_json)


def _tell(run: Run, told: str, *, as_json: bool) -> None:
    if as_json:
        print_json(run_members(run))
    else:
        print(printable(f"{run.run_id} {told}"))
