"""The commands, listed once."""

from __future__ import annotations

from typing import NoReturn

import typer

from persistence.cli import (
    acting,
    checking,
    doctoring,
    drawing,
    exporting,
    feed,
    launching,
    laying_out,
    looking,
    pruning,
    working,
)
from persistence.cli.bench.command import bench
from persistence.cli.exits import guarded
from persistence.cli.turn_intents import intents

app = typer.Typer(
    name="sqlatch",
    help="Durable, leased launches in one SQLite file or on PostgreSQL.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

COMMANDS = (
    ("init", laying_out.init),
    ("migrate", laying_out.migrate),
    ("ddl", laying_out.ddl),
    ("run", launching.run),
    ("launch", launching.launch),
    ("work", working.work),
    ("list", looking.list_runs),
    ("show", looking.show),
    ("history", looking.history),
    ("events", feed.events),
    ("cancel", acting.cancel),
    ("wake", acting.wake),
    ("requeue", acting.requeue),
    ("reject", acting.reject),
    ("pause", acting.pause),
    ("resume", acting.resume),
    ("prune", pruning.prune),
    ("diagram", drawing.diagram),
    ("export", exporting.export),
    ("check", checking.check),
    ("doctor", doctoring.doctor),
    ("bench", bench),
)
for name, function in COMMANDS:
    app.command(name)(function)
app.add_typer(intents, name="intents")


def run_app() -> NoReturn:
    """Run the command named on the command line, and exit."""
    guarded(app)
