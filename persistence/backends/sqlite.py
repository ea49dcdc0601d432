"""SQLite: the embedded default. One file, one connection per thread, the process's clock."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from attrs import define, field

from persistence.backends.sqlite_borrowed import BorrowedSession
from persistence.backends.sqlite_dialect import SQLITE, SqliteDialect
from persistence.backends.sqlite_errors import is_busy, translated
from persistence.binds import (
    NOW_BIND,
)
from statemachine.errors import SqlatchError, StoreBusy, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_T = TypeVar("_T")
_RETRY_SECONDS = 0.001
_STATEMENTS_CACHED = 512
MEMORY = ":memory:"


def path_of(url: str) -> str:
    """Return the path that a SQLite URL names: a path, `sqlite:///path` or `:memory:`."""
    return url.removeprefix("sqlite:///") if url.startswith("sqlite:") else url


@define(eq=False)
class SqliteBackend:
    """A SQLite database.

    Attributes:
        path: The file, or `:memory:`.

        durable: `synchronous=FULL` instead of `NORMAL`.

        create: Whether a missing file is created.

        read_only: Whether it is opened for reading alone.

        busy_seconds: How long to wait for another writer.

        now: The clock's reading, in milliseconds.
    """

    path: str
    durable: bool
    create: bool
    read_only: bool
    busy_seconds: float
    now: Callable[[], int]
    dialect: SqliteDialect = SQLITE
    _local: threading.local = field(factory=threading.local, init=False)
    _shared: Session | None = field(default=None, init=False)
    _lock: threading.RLock = field(factory=threading.RLock, init=False)
    _open: list[Session] = field(factory=list, init=False)
    _closed: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        if self.path != MEMORY:
            self._make_file()

    def session(self) -> AbstractContextManager[Session]:
        """Lend the calling thread's connection; the one of `:memory:` is locked meanwhile."""
        if self._closed:
            msg = "the store is closed"
            raise StoreUnavailable(msg)
        return self._only() if self.path == MEMORY else nullcontext(self._own())

    @contextmanager
    def _only(self) -> Iterator[Session]:
        with self._lock:
            if self._shared is None:
                self._shared = self._connect()
            yield self._shared

    def _own(self) -> Session:
        """Return the thread's session; a fork's child must not touch its parent's."""
        session: Session | None = getattr(self._local, "session", None)
        if session is None or session.pid != os.getpid():
            session = self._local.session = self._connect()
        return session

    def _connect(self) -> Session:
        try:
            session = Session(self.driver(), self.busy_seconds, self.now)
            session.configure(durable=self.durable, read_only=self.read_only)
        except sqlite3.Error as error:
            raise translated(error) from error
        with self._lock:
            self._open.append(session)
        return session

    def driver(self, *, wait: float = 0.0) -> sqlite3.Connection:
        """Open a connection of the driver's, which waits `wait` seconds for another writer."""
        target, uri = self.path, False
        if self.path != MEMORY:
            mode = "ro" if self.read_only else "rw"
            target, uri = f"file:{quote(str(Path(self.path).absolute()))}?mode={mode}", True
        return sqlite3.connect(
            target,
            uri=uri,
            timeout=wait,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS_CACHED,
        )

    def _make_file(self) -> None:
        """Create the file for its owner alone, before SQLite would by the umask."""
        path = Path(self.path)
        if path.exists():
            return
        if self.read_only or not self.create:
            msg = f"{self.path} does not exist; open it with create=True to make it"
            raise StoreUnavailable(msg)
        try:
            missing = [p for p in path.absolute().parents if not p.exists()]
            for parent in reversed(missing):
                parent.mkdir(mode=0o700, exist_ok=True)
                parent.chmod(0o700)
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            os.fchmod(descriptor, 0o600)
            os.close(descriptor)
        except OSError as error:
            msg = f"{self.path} cannot be created: {error.strerror}"
            raise StoreUnavailable(msg) from error

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
            for session in self._open:
                if session.pid == os.getpid():
                    session.close()
            self._open.clear()


@define(eq=False)
class Session:
    """One connection: statements with the clock bound at the moment they run."""

    _driver: sqlite3.Connection
    _busy_seconds: float
    _now: Callable[[], int]
    pid: int = field(factory=os.getpid, init=False)
    depth: int = field(default=0, init=False)
    _doomed: SqlatchError | None = field(default=None, init=False)

    def configure(self, *, durable: bool, read_only: bool) -> None:
        """Set what each connection needs."""
        if not read_only:
            self._patient(lambda: self._driver.execute("PRAGMA journal_mode = WAL").fetchall())
        self._driver.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        self._driver.execute("PRAGMA foreign_keys = ON")

    def execute(
        self, sql: str, params: Mapping[str, object], *, fragile: bool = False
    ) -> tuple[Sequence[Sequence[Any]], int | None]:
        """Run a statement; a failed one undoes itself alone, inside a transaction too.

        Returns:
            All rows (an UPDATE … RETURNING whose rows are not fetched keeps the write lock), and
            the clock's reading that was bound.

        Raises:
            Clash, SqlatchError: What the database answered.
        """
        del fragile  # RAISE(ABORT) and constraints undo the statement, not the transaction
        self._alive()
        return self._guarded(lambda: self._run(sql, params))

    def _run(
        self, sql: str, params: Mapping[str, object]
    ) -> tuple[Sequence[Sequence[Any]], int | None]:
        now = self._now()
        return self._driver.execute(sql, {**params, NOW_BIND: now}).fetchall(), now

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
        """Take the write lock first: what is read is what is written upon; nested: a savepoint."""
        name = f"sqlatch_{self.depth}"
        outer = self.depth == 0
        self._guarded(
            lambda: self._driver.execute("BEGIN IMMEDIATE" if outer else f"SAVEPOINT {name}")
        )
        self.depth += 1
        try:
            yield
            self._alive()
        except BaseException:
            self.depth -= 1
            self._undo(name, outer=outer)
            raise
        self.depth -= 1
        try:
            self._guarded(lambda: self._driver.execute("COMMIT" if outer else f"RELEASE {name}"))
        except SqlatchError:
            self._undo(name, outer=outer)
            raise

    def _undo(self, name: str, *, outer: bool) -> None:
        if outer:
            self._doomed = None
        if not self._driver.in_transaction:
            return
        if outer:
            self._driver.execute("ROLLBACK")
        else:
            self._driver.execute(f"ROLLBACK TO {name}")
            self._driver.execute(f"RELEASE {name}")

    def _alive(self) -> None:
        """After a full disk SQLite rolls back by itself: what follows must not run on its own."""
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
        """Close the connection."""
        self._driver.close()

    def _guarded(self, run: Callable[[], _T]) -> _T:
        try:
            return self._patient(run)
        except sqlite3.Error as error:
            ours = translated(error)
            if self.in_transaction and not self._driver.in_transaction:
                self._doomed = ours
            raise ours from error

    def _patient(self, run: Callable[[], _T]) -> _T:
        """Retry every millisecond: SQLite's own back-off starves writers for half a second."""
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                return run()
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                if time.monotonic() >= deadline:
                    msg = (
                        f"another writer held the database for {self._busy_seconds:g} s; try again"
                    )
                    raise StoreBusy(msg) from error
            time.sleep(_RETRY_SECONDS)
