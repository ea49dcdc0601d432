"""`prune`: forgetting runs that ended long ago."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

import typer

from persistence.cli.database import DEFAULT_DB, Db, Json, open_database
from persistence.cli.exits import USAGE, Ended
from persistence.cli.printing import print_json

BATCH = 100
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_AGE = re.compile(r"([0-9]{1,9})([dhms])")


def prune(
    *,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="AGE",
            help="How long ago they must have ended: a number and d, h, m or s, as in 30d.",
        ),
    ],
    limit: Annotated[int | None, typer.Option(min=1, help="Most runs; default: all.")] = None,
    project: Annotated[
        str | None, typer.Option(help="Only runs of this project; default: of all.")
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Delete runs that ended long ago, with their histories; those that ended first go first.

    In small transactions, so that workers hardly wait. Interrupted, it has deleted what it has.
    """
    age = _age(older_than)
    deleted = 0
    with open_database(db, project=project) as store:
        while limit is None or deleted < limit:
            most = BATCH if limit is None else min(BATCH, limit - deleted)
            gone = store.runs.prune(age, limit=most)
            deleted += gone
            if not gone:
                break
    if as_json:
        print_json({"deleted": deleted})
    else:
        print(f"{deleted} deleted")


def _age(text: str) -> timedelta:
    found = _AGE.fullmatch(text)
    if found is None:
        raise Ended(USAGE, f"--older-than must be a number and d, h, m or s, not {text!r}")
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])
