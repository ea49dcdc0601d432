"""`events`: the audit feed, read to its end or followed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from persistence.cli.database import DEFAULT_DB, Db, Json, open_database
from persistence.cli.exits import INTERRUPTED, Ended
from persistence.cli.printing import event_members, instant_of, one_line, print_json
from statemachine.outcome import Event, HostEvent

if TYPE_CHECKING:
    from persistence import Page, Store

MAX_PAGE = 1_000
POLL = timedelta(seconds=1)


def events(
    *,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what is appended, until Ctrl-C.")
    ] = False,
    after: Annotated[
        str | None,
        typer.Option(metavar="CURSOR", help="Begin behind this cursor, not at the beginning."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=MAX_PAGE, help="Most events; with --follow, at a time.")
    ] = 100,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Print what happened to all rows, in commit order, and the cursor behind it.

    Who begins at the printed cursor misses nothing and sees nothing twice. With --json each page
    is one document on one line.
    """
    with open_database(db) as store:
        page = store.events_after(after, limit)
        if not follow:
            _print(page, as_json=as_json)
        else:
            _follow(store, page, limit, as_json=as_json)


def _follow(store: Store, page: Page, limit: int, *, as_json: bool) -> None:
    try:
        while True:
            if page.events:
                _print(page, as_json=as_json)
            else:
                store.wait_for_change(POLL)
            page = store.events_after(page.cursor, limit)
    except KeyboardInterrupt:
        raise Ended(INTERRUPTED) from None


def _print(page: Page, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {"events": [event_members(event) for event in page.events], "cursor": page.cursor}
        )
    else:
        for event in page.events:
            print(one_line(f"{instant_of(event.at)} {_told(event)}"))
        print(f"cursor {page.cursor}", flush=True)


def _told(event: Event | HostEvent) -> str:
    by = f"by {event.actor.kind} {event.actor.name}"
    place = f"{event.machine} {event.key} {event.revision}"
    if isinstance(event, HostEvent):
        return f"{place} event {event.type} {by}"
    source = f"{event.source} -> " if event.source else "-> "
    return f"{place} {event.transition} {source}{event.dest} {by}"
