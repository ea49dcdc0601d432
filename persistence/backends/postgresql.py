"""PostgreSQL: many machines, one database, the server's clock."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
from attrs import define, field
from psycopg.pq import TransactionStatus

from persistence.backends.postgresql_dialect import POSTGRESQL, PostgresqlDialect
from persistence.backends.postgresql_errors import is_transient, translated
from persistence.compile import NOW_BIND
from statemachine.errors import CommitUnknown, SqlatchError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_RETRIES = 5
_SAVEPOINT = "sqlatch_call"


@define(eq=False)
class PostgresqlBackend:
    """A PostgreSQL database.

    Attributes:
        url: `postgresql://…`.

        busy_seconds: How long to wait for a lock.

        now: The reading of an explicit clock, in milliseconds; None: the server's clock rules.
    """

    url: str
    busy_seconds: float
    now: Callable[[], int] | None
    dialect: PostgresqlDialect = POSTGRESQL
    _local: threading.local = field(factory=threading.local, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _open: list[Session] = field(factory=list, init=False)
    _closed: bool = field(default=False, init=False)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Lend the calling thread's connection; a broken one is replaced."""
        if self._closed:
            msg = "the store is closed"
            raise StoreUnavailable(msg)
        session: Session | None = getattr(self._local, "session", None)
        if session is None or session.pid != os.getpid() or (session.broken and not session.depth):
            session = self._local.session = self._connect()
        yield session

    def _connect(self) -> Session:
        wait = int(self.busy_seconds * 1000)
        try:
            driver = psycopg.connect(self.url, autocommit=True, prepare_threshold=1)
            driver.execute(f"SET lock_timeout = {wait}")
            driver.execute("SET default_transaction_isolation = 'read committed'")
        except psycopg.Error as error:
            raise translated(error) from error
        session = Session(driver, self.now)
        with self._lock:
            self._open = [s for s in self._open if not s.broken]
            self._open.append(session)
        return session

    def wait_for_change(self, seconds: float) -> bool:
        """Wait; nothing announces a change here yet, so the poll is all there is."""
        time.sleep(seconds)
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
    """One connection."""

    _driver: psycopg.Connection[tuple[Any, ...]]
    _now: Callable[[], int] | None
    pid: int = field(factory=os.getpid, init=False)
    depth: int = field(default=0, init=False)

    @property
    def broken(self) -> bool:
        """Whether the connection is gone."""
        return self._driver.closed or self._driver.broken

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self.depth > 0

    def execute(
        self, sql: str, params: Mapping[str, object], *, fragile: bool = False
    ) -> tuple[Sequence[Sequence[Any]], int | None]:
        """Run a statement; alone it is its own transaction, and is retried when it lost a deadlock.

        Returns:
            All rows, and the explicit clock's reading; None where the server's clock rules.

        Raises:
            Clash, SqlatchError: What the database answered. `CommitUnknown` when the connection
                broke while a statement that writes was under way.
        """
        now = None if self._now is None else self._now()
        bound = {**params, NOW_BIND: now}
        if self.in_transaction:
            return (self._protected(sql, bound) if fragile else self._run(sql, bound)), now
        for attempt in range(_RETRIES):
            try:
                return self._run(sql, bound), now
            except psycopg.Error as error:
                if not is_transient(error) or attempt == _RETRIES - 1:
                    raise self._ours(error, sql) from error
                time.sleep(0.001 * 2**attempt)
        raise AssertionError

    def _run(self, sql: str, bound: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        try:
            cursor = self._driver.execute(sql, bound)
        except psycopg.Error as error:
            if self.in_transaction:
                raise self._ours(error, sql) from error
            raise
        return cursor.fetchall() if cursor.description else ()

    def _protected(self, sql: str, bound: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        """A refusal would spoil the whole transaction: run in a savepoint."""
        self._run(f"SAVEPOINT {_SAVEPOINT}", {})
        try:
            rows = self._run(sql, bound)
        except SqlatchError:
            if not self.broken:
                self._run(f"ROLLBACK TO {_SAVEPOINT}", {})
                self._run(f"RELEASE {_SAVEPOINT}", {})
            raise
        self._run(f"RELEASE {_SAVEPOINT}", {})
        return rows

    def _ours(self, error: psycopg.Error, sql: str) -> SqlatchError:
        if self.broken and not self.in_transaction and not sql.startswith("SELECT"):
            return CommitUnknown(f"the connection broke during a write: {error}")
        return translated(error)

    def script(self, statements: Sequence[str]) -> None:
        """Run statements without parameters."""
        for statement in statements:
            try:
                self._driver.execute(statement)
            except psycopg.Error as error:
                raise translated(error) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block as one transaction; nested: as a savepoint."""
        name = f"sqlatch_{self.depth}"
        outer = self.depth == 0
        self._control("BEGIN" if outer else f"SAVEPOINT {name}")
        self.depth += 1
        try:
            yield
        except BaseException:
            self.depth -= 1
            self._undo(name, outer=outer)
            raise
        self.depth -= 1
        self._commit(name, outer=outer)

    def _control(self, sql: str) -> None:
        try:
            self._driver.execute(sql)
        except psycopg.Error as error:
            raise translated(error) from error

    def _commit(self, name: str, *, outer: bool) -> None:
        if not outer:
            self._control(f"RELEASE {name}")
            return
        if self._driver.info.transaction_status == TransactionStatus.INERROR:
            self._undo(name, outer=True)
            msg = "the transaction failed before; nothing of it was stored"
            raise StoreUnavailable(msg)
        try:
            self._driver.execute("COMMIT")
        except psycopg.Error as error:
            if self.broken:
                msg = f"the connection broke while committing: {error}"
                raise CommitUnknown(msg) from error
            raise translated(error) from error

    def _undo(self, name: str, *, outer: bool) -> None:
        if self.broken:
            return
        with suppress(psycopg.Error):  # the error that led here matters more
            if outer:
                self._driver.execute("ROLLBACK")
            else:
                self._driver.execute(f"ROLLBACK TO {name}")
                self._driver.execute(f"RELEASE {name}")

    def close(self) -> None:
        """Close the connection."""
        self._driver.close()
