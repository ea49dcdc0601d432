"""One connection to SQLite: statements with the clock bound at the moment they run."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self, TypeVar

from attrs import define, field

from persistence.backends.sqlite_binds import positional
from persistence.backends.sqlite_errors import is_busy, is_dooming, is_lasting, translated
from persistence.binds import NOW_BIND
from persistence.clock import NANOSECONDS
from persistence.operation import UNDER_WAY
from persistence.schema import LAYOUT
from statemachine.errors import SqlatchError, StoreBusy, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from persistence.backends.sqlite_name import Name
    from persistence.operation import Reply

_T = TypeVar("_T")
_RETRY_SECONDS = 0.001


@define(eq=False)
class Session:
    """One connection.

    Attributes:
        name: Of its file.

        pid: The process that opened it.

        depth: How many transactions are open: one, and savepoints in it.

        spoiled: Whether it met what a new connection alone gets over.
    """

    _driver: sqlite3.Connection
    _busy_seconds: float
    _now: Callable[[], int] | None
    name: Name
    pid: int = field(factory=os.getpid, init=False)
    depth: int = field(default=0, init=False)
    spoiled: bool = field(default=False, init=False)
    _doomed: SqlatchError | None = field(default=None, init=False)
    _turns: bool = field(default=False, init=False)
    _using: threading.RLock = field(factory=threading.RLock, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """It was lent, and stays open."""

    def configure(self, *, durable: bool) -> None:
        """Set what each connection needs."""
        self.script(
            (
                f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}",
                "PRAGMA foreign_keys = ON",
            )
        )

    def keep_log(self) -> None:
        """Write ahead to a log, in a database that is empty or ours; another is left as it is."""
        if self.pragma("journal_mode") == "wal":
            return
        ours = "SELECT 1 FROM sqlite_master WHERE name = :name"
        if self.pragma("page_count") and not self.execute(ours, {"name": LAYOUT.name})[0]:
            return
        mode = self.pragma("journal_mode = WAL")
        if mode != "wal":
            warnings.warn(
                f"SQLite cannot keep a write-ahead log here, so readers and writers wait for one"
                f" another; the journal mode is {mode!r}",
                RuntimeWarning,
                stacklevel=2,
            )

    def execute(self, sql: str, params: Mapping[str, object], *, fragile: bool = False) -> Reply:
        """Run a statement; a failed one undoes itself alone, inside a transaction too.

        Returns:
            All rows (an UPDATE … RETURNING whose rows are not fetched keeps the write lock), and
            the clock's reading that was bound.

        Raises:
            Clash, SqlatchError: What the database answered.
        """
        del fragile  # RAISE(ABORT) and constraints undo the statement, not the transaction
        if self._doomed is not None:
            self._alive()
        text, pick = positional(sql)
        bound = {**params}
        until: float | None = None
        while True:
            now = time.time_ns() // NANOSECONDS if self._now is None else self._now()
            try:
                bound[NOW_BIND] = now
                with self._using:
                    rows = self._driver.execute(text, pick(bound)).fetchall()
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise self._ours(error) from error
                until = self._patient(error, until)
            else:
                return rows, now

    def script(self, statements: Sequence[str]) -> None:
        """Run statements without parameters."""
        for statement in statements:
            self._guarded(lambda text=statement: self._driver.execute(text).fetchall())  # type: ignore[misc]  # mypy cannot infer a lambda with a default

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self.depth > 0

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Take the write lock first: what is read is what is written upon; nested: a savepoint.

        Raises:
            StoreBusy: Somebody else writes; or a signal's handler is in the midst of a call, whose
                statement would be committed, or undone, with what the handler does.
        """
        depth, outer = self.depth, self.depth == 0
        name = f"sqlatch_{depth}"
        begin = "BEGIN IMMEDIATE" if outer else f"SAVEPOINT {name}"
        end = "COMMIT" if outer else f"RELEASE {name}"
        if self._turns or self._using._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001 - as threading.Condition asks
            raise StoreBusy(UNDER_WAY)
        try:  # Ctrl-C may come at any step
            self._turn(begin, depth + 1)
            yield
            self._alive()
            self._turn(end, depth)
        except BaseException:
            try:
                self._undo(name, outer=outer)
            finally:
                self.depth = depth
            raise

    def _turn(self, statement: str, depth: int) -> None:
        """Begin or end a transaction; a signal's handler does neither meanwhile."""
        self._turns = True
        try:
            self._guarded(lambda: self._driver.execute(statement))
            self.depth = depth
        finally:
            self._turns = False

    def _undo(self, name: str, *, outer: bool) -> None:
        if outer:
            self._doomed = None
        steps = ("ROLLBACK",) if outer else (f"ROLLBACK TO {name}", f"RELEASE {name}")
        try:
            with self._using:
                if self._driver.in_transaction:
                    for step in steps:
                        self._driver.execute(step)
        except sqlite3.Error as error:
            self.spoiled = True  # what was begun goes with the connection, if that is not gone yet
            if not outer:
                self._doomed = translated(error)  # nor may the outer one keep what was not undone

    def _alive(self) -> None:
        """After a full disk SQLite may roll back by itself: what follows must not run alone."""
        if self._doomed is not None:
            msg = f"the transaction was given up: {self._doomed}"
            raise StoreUnavailable(msg) from self._doomed

    def data_version(self) -> int:
        """Return a number that changes when another connection has committed."""
        return int(self._guarded(lambda: self._driver.execute("PRAGMA data_version").fetchone())[0])

    def pragma(self, name: str) -> object:
        """Return a setting that is in force."""
        return self._guarded(lambda: self._driver.execute(f"PRAGMA {name}").fetchone())[0]

    def close(self) -> None:
        """Close the connection, once no statement runs on it: the driver would crash."""
        with self._using:
            self._driver.close()
            self.name.close()

    def _guarded(self, run: Callable[[], _T]) -> _T:
        until: float | None = None
        while True:
            try:
                with self._using:
                    return run()
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise self._ours(error) from error
                until = self._patient(error, until)

    def _ours(self, error: sqlite3.Error) -> SqlatchError:
        ours = translated(error)
        self.spoiled = self.spoiled or is_lasting(error)
        if self.in_transaction and (is_dooming(error) or self._ended()):
            self._doomed = ours
        return ours

    def _ended(self) -> bool:
        """Tell whether SQLite has ended the transaction: by itself, or with the connection."""
        try:
            with self._using:
                return not self._driver.in_transaction
        except sqlite3.ProgrammingError:
            return True

    def _patient(self, error: sqlite3.Error, until: float | None) -> float:
        """Wait for a millisecond: SQLite's own back-off starves writers for half a second.

        Returns:
            Until when to be patient, to be given again.

        Raises:
            StoreBusy: It is over.
        """
        now = time.monotonic()
        until = now + self._busy_seconds if until is None else until
        if now >= until:
            msg = f"another writer held the database for {self._busy_seconds:g} s; try again"
            raise StoreBusy(msg) from error
        time.sleep(_RETRY_SECONDS)
        return until
