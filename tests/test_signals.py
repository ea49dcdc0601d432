"""A signal's handler that calls the store, wherever it interrupts the thread's own call."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from persistence import Store
from statemachine.errors import StoreBusy
from tests.cases.launches import queue
from tests.conftest import SQLITE_FILE, SQLITE_MEMORY

_EVERY_S = 0.0007


@contextmanager
def _ringing(handler: Callable[[], None]) -> Iterator[None]:
    """Interrupt the block time and again; a handler is not interrupted itself."""
    within: list[bool] = []

    def ring(*_: object) -> None:
        if not within:
            within.append(True)
            handler()
            within.clear()

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, _EVERY_S, _EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _alone(store: Store, run_id: str) -> None:
    queue(store, run_id)


def _in_a_block(store: Store, run_id: str) -> None:
    with store.transaction():
        queue(store, run_id)
        store.runs.get(run_id)


WAYS = {"alone": _alone, "in a transaction": _in_a_block}


@pytest.mark.parametrize("own", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("handled", WAYS.values(), ids=WAYS)
def test_what_was_answered_is_stored(
    store: Store,
    own: Callable[[Store, str], None],
    handled: Callable[[Store, str], None],
) -> None:
    """The call's and the handler's; what has to wait is told so, and is not stored."""
    kept: list[str] = []
    told: list[str] = []

    def handler() -> None:
        run_id = f"h{len(kept) + len(told)}"
        try:
            handled(store, run_id)
        except StoreBusy as busy:
            told.append(str(busy))
        else:
            kept.append(run_id)

    with _ringing(handler):
        for number in range(150):
            own(store, f"r{number}")
            kept.append(f"r{number}")

    assert sorted(run.run_id for run in store.runs.list(limit=1_000)) == sorted(kept)
    assert all("in the midst of a call" in text for text in told)
    assert told or len(kept) > 150


class _Interrupted:
    """A connection that is interrupted between a statement and its rows."""

    def __init__(self, driver: sqlite3.Connection, interrupt: Callable[[], None]) -> None:
        self.driver = driver
        self.interrupt: Callable[[], None] | None = interrupt

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    def execute(self, sql: str, *params: Any) -> sqlite3.Cursor:
        cursor = self.driver.execute(sql, *params)
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            interrupt()
        return cursor


@pytest.mark.parametrize(
    "capabilities", [SQLITE_MEMORY, SQLITE_FILE], indirect=True, ids=lambda backend: backend.name
)
def test_no_transaction_begins_within_a_statement(store: Store) -> None:
    """It would take the unfinished statement along, and undo what its call answers."""

    def handler() -> None:
        with pytest.raises(StoreBusy, match="in the midst of a call"):
            _in_a_block(store, "handled")

    with store.engine.backend.session() as session:
        session._driver = _Interrupted(session._driver, handler)  # type: ignore[attr-defined]  # SQLite's sessions have one
    queue(store, "own")

    assert [run.run_id for run in store.runs.list()] == ["own"]
    _in_a_block(store, "then")


class _CutOff:
    """A connection at which Ctrl-C is pressed before or after a statement that turns things."""

    def __init__(self, driver: sqlite3.Connection, turn: str, *, after: bool) -> None:
        self.driver = driver
        self.turn = turn
        self.after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    def execute(self, sql: str, *params: Any) -> sqlite3.Cursor:
        if self.turn and sql.startswith(self.turn):
            self.turn = ""
            if self.after:
                self.driver.execute(sql, *params)
            raise KeyboardInterrupt
        return self.driver.execute(sql, *params)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("turn", ["BEGIN", "SAVEPOINT", "RELEASE", "COMMIT"])
@pytest.mark.parametrize(
    "capabilities", [SQLITE_MEMORY, SQLITE_FILE], indirect=True, ids=lambda backend: backend.name
)
def test_ctrl_c_leaves_no_transaction_open(store: Store, turn: str, *, after: bool) -> None:
    """Wherever it comes: the next call is stored, and the lock is nobody's."""
    with store.engine.backend.session() as session:
        session._driver = _CutOff(session._driver, turn, after=after)  # type: ignore[attr-defined]  # SQLite's sessions have one

    with pytest.raises(KeyboardInterrupt), store.transaction():  # noqa: PT012  # the block is what is tried
        queue(store, "outer")
        with store.transaction():
            queue(store, "inner")
    queue(store, "next")

    kept = {"outer", "inner"} if (turn, after) == ("COMMIT", True) else set()
    assert {run.run_id for run in store.runs.list()} == {"next", *kept}
    with store.engine.backend.session() as session:
        assert not session.in_transaction
        assert not session._driver.in_transaction  # type: ignore[attr-defined]  # as above
