"""SQLite: the embedded default. One file, one connection per thread, the process's clock.

The driver is the standard library's. `apsw`, which has a newer SQLite of its own, made the same
four steps 1.1 to 1.2 times as fast, and only with plans that are kept (QPSG). But a caller's own
`sqlite3` connection to the file would then be another library's, and where one of two closes the
file, POSIX drops the locks of both (sqlite.org/howtocorrupt.html, 2.2.1).
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from attrs import define, field

from persistence.backends.sqlite_borrowed import BorrowedSession
from persistence.backends.sqlite_dialect import SQLITE, SqliteDialect
from persistence.backends.sqlite_errors import translated
from persistence.backends.sqlite_file import absolute, prepare
from persistence.backends.sqlite_name import NO_FILE, Name
from persistence.backends.sqlite_session import Session
from persistence.process import PROCESS
from statemachine.errors import SqlatchError, StoreClosed, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STATEMENTS_CACHED = 512
MEMORY = ":memory:"


def path_of(url: str) -> str:
    """Return the path that a SQLite URL names: a path, `sqlite:///path` or `:memory:`."""
    return url.removeprefix("sqlite:///") if url.startswith("sqlite:") else url


class _Local(threading.local):
    """What is a thread's own."""

    session: Session | None = None


@define(eq=False)
class SqliteBackend:
    """A SQLite database.

    Attributes:
        path: The file, or `:memory:`.

        durable: `synchronous=FULL` instead of `NORMAL`.

        create: Whether a missing file is created.

        read_only: Whether it is opened for reading alone.

        busy_seconds: How long to wait for another writer.

        now: The clock's reading, in milliseconds since the Unix epoch; None: the process's.

        dialect: How it wants its statements.
    """

    path: str
    durable: bool
    create: bool
    read_only: bool
    busy_seconds: float
    now: Callable[[], int] | None
    dialect: SqliteDialect = SQLITE
    _local: _Local = field(factory=_Local, init=False)
    _shared: Session | None = field(default=None, init=False)
    _lock: threading.RLock = field(factory=threading.RLock, init=False)
    _open: list[Session] = field(factory=list, init=False)
    _closed: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        if self.path != MEMORY:
            self.path = absolute(self.path)
            prepare(self.path, create=self.create and not self.read_only)

    def session(self) -> AbstractContextManager[Session]:
        """Lend the calling thread's connection; the one of `:memory:` is locked meanwhile.

        Raises:
            StoreClosed, StoreUnavailable: It is; the file is gone, or cannot be opened.
        """
        own = self.own()
        return self._only() if own is None else own

    def own(self) -> Session | None:
        """Return the calling thread's connection; None: that of `:memory:` is everybody's.

        A fork's child must not touch its parent's connections.

        Raises:
            StoreClosed, StoreUnavailable: It is; the file is gone, or cannot be opened.
        """
        session = self._local.session
        if session is None or session.pid != PROCESS.pid:
            return self._opened()
        stands = session.name.stands()
        if stands and not session.spoiled:
            return session
        self._alive()
        if not session.in_transaction:
            self._drop(session)
            return self._opened()
        if stands:
            return session
        msg = f"{self.path} is gone: another file has its name"
        raise StoreUnavailable(msg)

    def _opened(self) -> Session | None:
        self._alive()
        if self.path == MEMORY:
            return None
        self._local.session = session = self._connect(Name.of(self.path))
        return session

    def _alive(self) -> None:
        if self._closed:
            raise StoreClosed

    @contextmanager
    def _only(self) -> Iterator[Session]:
        if self._shared is not None and self._shared.pid != PROCESS.pid:
            msg = "a database in memory is its process's: a fork's child opens one of its own"
            raise StoreUnavailable(msg)
        with self._lock:
            if self._shared is None:
                self._shared = self._connect(Name(MEMORY, NO_FILE))
            yield self._shared

    def _drop(self, session: Session) -> None:
        with self._lock:
            if session in self._open:
                self._open.remove(session)
        session.close()

    def _connect(self, name: Name) -> Session:
        try:
            driver = self.driver()
        except sqlite3.Error as error:
            raise translated(error) from error
        session = Session(driver, self.busy_seconds, self.now, name)
        with self._lock:
            if self._closed:
                session.close()
            self._alive()
            self._open.append(session)
        try:
            session.configure(durable=self.durable)
            if not self.read_only and self.path != MEMORY:
                session.keep_log()
        except SqlatchError:
            self._drop(session)
            raise
        return session

    def settle(self) -> None:
        """Keep a write-ahead log from now on: the database has our layout."""
        if not self.read_only and self.path != MEMORY:
            with self.session() as session:
                session.keep_log()

    @property
    def journal_mode(self) -> str:
        """SQLite's journal mode that is in force: `wal` wherever that can be had."""
        with self.session() as session:
            return str(session.pragma("journal_mode"))

    def driver(self, *, wait: float = 0.0) -> sqlite3.Connection:
        """Open a connection of the driver's, which waits `wait` seconds for another writer."""
        target, uri = self.path, False
        if self.path != MEMORY:
            mode = "ro" if self.read_only else "rw"
            target, uri = f"file:{quote(self.path)}?mode={mode}", True
        return sqlite3.connect(
            target,
            uri=uri,
            timeout=wait,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS_CACHED,
        )

    def borrow(self, driver: object) -> BorrowedSession | None:
        """Return a session on a caller's connection; None when it is not one of `sqlite3`."""
        return BorrowedSession(driver, self.now) if isinstance(driver, sqlite3.Connection) else None

    def wait_for_change(self, seconds: float) -> bool:
        """Wait until another connection has committed; False when none did in time."""
        deadline = time.monotonic() + seconds
        with self.session() as session:
            before = session.data_version()
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(0.05, left))
            with self.session() as session:
                if session.data_version() != before:
                    return True
        return False

    def close(self) -> None:
        """Close every connection of this process."""
        self._closed = True
        with self._lock:
            ours = [session for session in self._open if session.pid == PROCESS.pid]
            for session in ours:
                session.name.close()  # or a busy thread would not let go of its connection
            for session in ours:
                session.close()
            self._open.clear()
