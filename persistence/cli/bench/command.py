"""The command `bench`."""

from __future__ import annotations

import enum
import os
import sqlite3
import sys
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer

from persistence.cli.database import DEFAULT_DB, Db, Json, shown
from persistence.cli.printing import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from persistence.cli.bench.figures import Figure
    from persistence.cli.bench.places import Durability


class Work(enum.StrEnum):
    """What can be measured."""

    LIFECYCLE = "lifecycle"
    DRAIN = "drain"
    CLAIM = "claim"
    RENEWALS = "renewals"
    BATCHES = "batches"


def bench(
    *,
    only: Annotated[
        list[Work] | None, typer.Option(help="Measure only this; may be repeated.")
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, max=1_000, help="Rounds; medians are taken over them.")
    ] = 21,
    runs: Annotated[int, typer.Option(min=1, max=100_000, help="Runs of each round.")] = 200,
    backlog: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Runs queued, and kept, for `claim`.")
    ] = 100_000,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Processes that drain.")] = 4,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Measure the store beside hand-written driver code: same tables, triggers and statements.

    In databases of its own, which are removed again: beside the file of the URL, or in schemas of
    the server. Both take turns in each round; compare ratios, not runs.
    """
    asked = tuple(only or Work)
    measured: list[dict[str, Any]] = []
    for title, figures in _measured(db, asked, rounds, runs, backlog, processes):
        measured += [
            attrs.asdict(one) | {"place": title, "reached": one.reached} for one in figures
        ]
        if not as_json:
            from persistence.cli.bench.figures import COLUMNS  # noqa: PLC0415 - `--help` is quick

            print_table(title, COLUMNS, [one.cells for one in figures])
    if as_json:
        print_json(measured)


def _measured(  # noqa: PLR0917 - the command's own options, passed on
    db: str, asked: tuple[Work, ...], rounds: int, runs: int, backlog: int, processes: int
) -> Iterator[tuple[str, list[Figure]]]:
    """Yield the figures of each setting, with a line that says which it is."""
    from persistence.cli.bench import backlogs, drains, works  # noqa: PLC0415 - `--help` is quick
    from persistence.cli.bench.places import scratch  # noqa: PLC0415 - likewise
    from persistence.opening import on_server  # noqa: PLC0415 - likewise

    server = on_server(db)
    settings: tuple[Durability, ...] = ("normal",) if server else ("normal", "full")
    for durability in settings:
        whole = durability == "normal"
        figures: list[Figure] = []
        if Work.LIFECYCLE in asked:
            _tell(f"lifecycle, {durability}")
            floor = 0.85 if server else 0.7 if whole else 0.9
            with scratch(db, durability) as place:
                figures.append(works.lifecycles(place, rounds=rounds, runs=runs, target=floor))
        if Work.DRAIN in asked and whole:
            _tell("drain")
            with scratch(db) as place:
                figures.append(
                    drains.drains(
                        place,
                        rounds=rounds,
                        runs=runs,
                        processes=processes,
                        target=0.85 if server else None,
                    )
                )
        if Work.RENEWALS in asked and whole:
            _tell("renewals")
            with scratch(db) as place:
                figures.append(works.renewals(place, rounds=rounds, runs=runs, target=0.8))
        if Work.BATCHES in asked and whole:
            _tell("batches")
            with scratch(db) as place:
                figures.append(works.batches(place, rounds=rounds, runs=runs, target=0.7))
        if Work.CLAIM in asked and whole:
            figures += backlogs.claims(
                db, rounds=rounds, runs=min(runs, 100), backlog=backlog, progress=_tell
            )
        if figures:
            yield _title(db, durability), figures


def _title(db: str, durability: Durability) -> str:
    """Say where it was measured, and how fast a write becomes durable there just now."""
    from persistence.cli.bench.places import scratch, sync_ms  # noqa: PLC0415 - as above
    from persistence.opening import on_server  # noqa: PLC0415 - as above

    with scratch(db) as place:
        place.store().close()
        sync = sync_ms(place)
    load = f"load {os.getloadavg()[0]:.1f}"
    if on_server(db):
        return f"PostgreSQL, {shown(db)}; one commit {sync:.3f} ms; {load}"
    version = f"SQLite {sqlite3.sqlite_version}"
    return f"{version}, {db}, synchronous={durability}; fdatasync {sync:.3f} ms; {load}"


def _tell(what: str) -> None:
    """Say on a terminal what is being done."""
    if sys.stderr.isatty():
        print(f"measuring: {what}", file=sys.stderr, flush=True)
