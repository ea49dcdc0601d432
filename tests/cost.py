"""What `claim_next` costs with much in the table; `python -m tests.cost [URL]` prints it.

It measures SQLite files on the memory disk, then the server of the URL, there without waiting for
its disk. The figures of one table are taken in turns; compare them with each other, not with
another run's.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa
from attrs import frozen
from rich.console import Console
from rich.table import Table

from persistence import Claim, ManualClock, Store, open_store
from persistence.compile import Program
from persistence.dialect import text_of
from statemachine import RUN_LAUNCH
from tests.cases.launches import queue, start

LEASE = timedelta(hours=1)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
TAKEABLE, MANY, KEPT = 1_000, 100_000, 300_000
ROUNDS, CLAIMS = 20, 10
DECADES = timedelta(days=36_500)
_QUICK = "%20-csynchronous_commit%3Doff"


@frozen
class Load:
    """Rows that stand in the table beside `TAKEABLE` younger ones which can be taken.

    Attributes:
        name: What they are.

        count: How many.

        make: Makes the templates, from which the rest is copied.

        ruled_out: Whether a row's own fields rule it out, so that it costs a claim nothing.
    """

    name: str
    count: int
    make: Callable[[Store], object]
    ruled_out: bool = True


def _finished(store: Store) -> None:
    queue(store, "t")
    store.runs.finish(start(store, "t"))


def _waiting(store: Store) -> None:
    queue(store, "t")
    store.runs.park(start(store, "t"), waiting=True)


def _paused(store: Store) -> None:
    queue(store, "t")
    store.runs.pause("t")


def _source_changed(store: Store) -> None:
    queue(store, "t")
    store.runs.park_source_changed(start(store, "t"), error_message="changed")


def _to_cancel(store: Store) -> None:
    queue(store, "t")
    start(store, "t", lease=DECADES)
    store.runs.request_cancel("t")


def _pinned(store: Store) -> None:
    queue(store, "t", pinned_to="another", pinned_until=LONG_AGO + DECADES)


def _reserved(store: Store) -> None:
    queue(store, "t", session="s")
    store.runs.park(start(store, "t"))
    queue(store, "u", session="s")


def _controlled(store: Store) -> None:
    queue(store, "t")
    store.runs.claim_for_control("t", holder="c", lease=DECADES)


def loads(many: int = MANY, kept: int = KEPT) -> tuple[Load, ...]:
    """Return what is measured; the first is what the others are compared with."""
    return (
        Load("nothing else", 0, lambda _: None),
        Load("more that can be taken", many, lambda store: queue(store, "t")),
        Load("finished, kept", kept, _finished),
        Load("waiting, at the head", many, _waiting),
        Load("paused, at the head", many, _paused),
        Load("source changed, at the head", many, _source_changed),
        Load("cancellation requested, at the head", many, _to_cancel),
        Load("pinned to another, at the head", many // 100, _pinned, ruled_out=False),
        Load("behind a live reservation, at the head", many // 100, _reserved, ruled_out=False),
        Load("under control, at the head", many // 100, _controlled, ruled_out=False),
    )


def fill(url: str, load: Load, *, takeable: int = TAKEABLE) -> None:
    """Make the layout, the load and the rows that can be taken in an empty database."""
    with open_store(url, clock=ManualClock(LONG_AGO)) as store:
        load.make(store)
        with _unguarded(store):
            for template in ("t", "u"):
                if load.count and store.runs.get(template) is not None:
                    _copy(store, template, load.count)
    with open_store(url, clock=ManualClock(LONG_AGO + timedelta(days=1))) as store:
        queue(store, "younger")
        with _unguarded(store):
            _copy(store, "younger", takeable - 1)
        if url.startswith("postgres"):
            _script(store, "ANALYZE")


@contextmanager
def _unguarded(store: Store) -> Iterator[None]:
    """Go without the triggers, which would take minutes and refuse rows out of nowhere."""
    if store.engine.backend.dialect.row_locks:
        _script(store, "ALTER TABLE runs DISABLE TRIGGER USER")
        yield
        _script(store, "ALTER TABLE runs ENABLE TRIGGER USER")
        return
    with store.engine.backend.session() as session:
        listed = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'runs'"
        triggers, _ = session.execute(listed, {})
    _script(store, *(f"DROP TRIGGER {name}" for name, _ in triggers))
    yield
    _script(store, *(sql for _, sql in triggers))


def _copy(store: Store, template: str, count: int) -> None:
    """Copy a row, each copy with an id and a session of its own, a millisecond younger each."""
    program: Program = store.engine.program(RUN_LAUNCH)
    table = program.table
    first = sa.select(sa.literal(1, sa.Integer()).label("n")).cte("several", recursive=True)
    several = first.union_all(sa.select(first.c.n + 1).where(first.c.n < count))
    number = sa.cast(several.c.n, sa.Text())
    changed: Mapping[str, sa.ColumnElement[Any]] = {
        "run_id": table.c.run_id + "-" + number,
        "origin_session_id": table.c.origin_session_id + "-" + number,
        "available_at": table.c.available_at + several.c.n,
    }
    rows = (
        sa.select(*(changed.get(name, table.c[name]) for name in program.names))
        .select_from(table.join(several, sa.true()))
        .where(table.c.run_id == template)
    )
    insert = sa.insert(table).from_select(list(program.names), rows)
    _script(store, text_of(insert, program.dialect.ddl))


def _script(store: Store, *statements: str) -> None:
    with store.engine.backend.session() as session:
        session.script(statements)


def claim_seconds(store: Store, count: int) -> list[float]:
    """Take so many runs; return how long each took."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        claim = store.runs.claim_next("w", LEASE)
        taken.append(time.perf_counter() - began)
        assert isinstance(claim, Claim)
    return taken


@contextmanager
def _places(url: str | None, number: int) -> Iterator[list[str]]:
    """Lend so many empty databases; they are removed afterwards."""
    with ExitStack() as cleanup:
        if url is None:
            memory = Path("/dev/shm")  # noqa: S108  # the memory disk, where there is one
            parent = memory if memory.is_dir() else None
            folder = cleanup.enter_context(tempfile.TemporaryDirectory(dir=parent))
            yield [f"{folder}/{place}.db" for place in range(number)]
            return
        connection = cleanup.enter_context(psycopg.connect(url, autocommit=True))
        schemas = [f"cost_{place}" for place in range(number)]
        for schema in schemas:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
            connection.execute(f"CREATE SCHEMA {schema}")
            cleanup.callback(connection.execute, f"DROP SCHEMA {schema} CASCADE")
        separator = "&" if "?" in url else "?"
        yield [f"{url}{separator}options=-csearch_path%3D{schema}{_QUICK}" for schema in schemas]


def measure(url: str | None) -> Table:
    """Fill a database for each load, and take from each in turns."""
    wanted = loads()
    table = Table("beside 1,000 that can be taken", "rows", "p50 of claim_next", "ratio")
    table.title = "SQLite" if url is None else "PostgreSQL"
    with _places(url, len(wanted)) as places, ExitStack() as opened:
        stores = []
        for load, place in zip(wanted, places, strict=True):
            fill(place, load)
            stores.append(opened.enter_context(open_store(place)))
        seconds: list[list[float]] = [[] for _ in wanted]
        for _ in range(ROUNDS):
            for taken, store in zip(seconds, stores, strict=True):
                taken.extend(claim_seconds(store, CLAIMS))
    least = statistics.median(seconds[0])
    for load, taken in zip(wanted, seconds, strict=True):
        middle = statistics.median(taken)
        figures = f"{middle * 1e6:.0f} µs", f"{middle / least:.2f}"
        table.add_row(load.name, f"{load.count:,}", *figures)
    return table


if __name__ == "__main__":
    for place in [None, *sys.argv[1:]]:
        Console().print(measure(place))
