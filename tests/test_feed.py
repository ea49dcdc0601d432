"""The audit feed: a reader that follows it misses nothing and sees nothing twice."""

from __future__ import annotations

import random
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from persistence import ManualClock, Store, open_store
from statemachine import Event, HostEvent, Refused
from statemachine.errors import InvalidArgument, StoreBusy

LAUNCH: dict[str, Any] = {
    "workflow": "w",
    "source_ref": "r",
    "source": {},
    "definition_digest": "d",
}
Seen = tuple[str, int, str]


def _all(store: Store, cursor: str | None = None, *, limit: int = 100) -> list[Event | HostEvent]:
    events: list[Event | HostEvent] = []
    while True:
        page = store.events_after(cursor, limit)
        if not page.events:
            return events
        events += page.events
        cursor = page.cursor


def _settled(store: Store, count: int) -> list[Event | HostEvent]:
    """On PostgreSQL a foreign write transaction delays the feed."""
    deadline = time.monotonic() + 30
    while len(events := _all(store)) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    return events


def test_steps_and_host_events_stand_in_one_order(store: Store) -> None:
    """The feed is the histories of all rows and the hosts' events, as they were committed."""
    store.runs.reserve(run_id="r1", **LAUNCH)
    appended = store.runs.append_event("r1", type="seen", payload={"by": [1, None]})
    store.runs.pause("r1")

    events = _settled(store, 3)

    assert isinstance(appended, HostEvent)
    steps = store.runs.history("r1")
    assert [steps[0], appended, steps[1]] == events
    assert appended.revision == 1


def test_a_small_page_is_continued_where_it_ended(store: Store) -> None:
    """Pages of any size join to the same feed."""
    for number in range(7):
        store.runs.reserve(run_id=f"r{number}", **LAUNCH)
    whole = _settled(store, 7)

    assert whole == _all(store, limit=1)
    assert whole == _all(store, limit=3)


def test_an_event_of_a_missing_run_is_refused(store: Store) -> None:
    """There is no event without its run."""
    answer = store.runs.append_event("nowhere", type="seen")

    assert isinstance(answer, Refused)
    assert _all(store) == []


@pytest.mark.parametrize("cursor", ["", "x", "1", "1.", "-1.2", "1.2.3", "9" * 30 + ".1", "1.2\n"])
def test_what_is_no_cursor_is_refused(store: Store, cursor: str) -> None:
    """Only what an earlier page answered continues it."""
    with pytest.raises(InvalidArgument, match="cursor"):
        store.events_after(cursor)


def _follow(store: Store, done: threading.Event, seen: list[Seen]) -> None:
    cursor = None
    last = False
    while True:
        page = store.events_after(cursor, 7)
        cursor = page.cursor
        seen += [
            (e.key, e.revision, e.transition if isinstance(e, Event) else e.type)
            for e in page.events
        ]
        if not page.events:
            if last:
                return
            last = done.is_set()
            time.sleep(0.005)


def _write(store: Store, name: str, chance: random.Random) -> None:
    """Short calls, and transactions that stay open between their calls."""
    for number in range(12):
        run_id = f"{name}-{number}"
        while True:
            try:
                if chance.random() < 0.5:
                    with store.transaction():
                        store.runs.reserve(run_id=run_id, **LAUNCH)
                        time.sleep(chance.random() * 0.03)
                        store.runs.pause(run_id)
                else:
                    store.runs.reserve(run_id=run_id, **LAUNCH)
                    store.runs.pause(run_id)
            except StoreBusy:
                continue
            break
        store.runs.append_event(run_id, type="mark")


def test_followers_miss_nothing_while_others_write(database: str, tmp_path: Path) -> None:
    """Short and long transactions of several writers interleave; two readers follow."""
    url = str(tmp_path / "feed.db") if database == ":memory:" else database
    chance = random.Random(7)
    with open_store(url, busy_timeout=timedelta(seconds=20)) as store:
        done = threading.Event()
        seen: list[list[Seen]] = [[], []]
        readers = [threading.Thread(target=_follow, args=(store, done, s)) for s in seen]
        writers = [
            threading.Thread(target=_write, args=(store, f"w{n}", random.Random(chance.random())))
            for n in range(4)
        ]
        for thread in (*readers, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        expected = {
            (f"w{n}-{m}", revision, what)
            for n in range(4)
            for m in range(12)
            for revision, what in ((1, "reserve"), (2, "pause"), (2, "mark"))
        }
        complete = [(e.key, e.revision) for e in _settled(store, len(expected))]
        done.set()
        for thread in readers:
            thread.join()

    for one in seen:
        assert len(expected) == len(one)
        assert expected == set(one)
        assert complete == [(key, revision) for key, revision, _ in one]


def test_a_long_transaction_delays_the_feed_and_loses_nothing(postgres_url: str) -> None:
    """What commits later than it began is not passed over by a reader who was faster."""
    with (
        open_store(postgres_url, clock=ManualClock()) as store,
        open_store(postgres_url, clock=ManualClock()) as other,
    ):
        with other.transaction():
            other.runs.reserve(run_id="early", **LAUNCH)
            store.runs.reserve(run_id="late", **LAUNCH)
            meanwhile = store.events_after()

        events = _settled(store, 2)

    assert meanwhile.events == ()
    assert [event.key for event in events] == ["early", "late"]


def test_the_feed_cannot_be_written_from_outside(postgres_url: str) -> None:
    """A reader's role needs nothing but to read."""
    with open_store(postgres_url) as store:
        store.runs.reserve(run_id="r1", **LAUNCH)
    with (
        psycopg.connect(postgres_url, autocommit=True) as connection,
        pytest.raises(psycopg.Error, match="append-only"),
    ):
        connection.execute("UPDATE sqlatch_history SET at = 0")
