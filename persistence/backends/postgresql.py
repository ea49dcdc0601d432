"""PostgreSQL: many machines, one database, the server's clock."""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg
from attrs import define, field, frozen
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from persistence.backends.postgresql_dialect import POSTGRESQL, PostgresqlDialect
from persistence.backends.postgresql_session import Driver, Session
from persistence.operation import UNDER_WAY
from persistence.process import PROCESS
from statemachine.errors import InvalidArgument, StoreBusy, StoreClosed, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_PLANNED = ("SET enable_seqscan = off", "SET jit = off")


@frozen
class Postgres:
    """How a PostgreSQL database is reached.

    Attributes:
        url: `postgresql://…`.

        busy_seconds: How long to wait for a lock, and for a connection of the pool.

        read_only: Whether its transactions may write.

        schema: The schema that holds the tables; None: the first of the search path.

        pool_size: Most connections of one process.

        prepare: Whether statements are prepared; off behind a proxy that pools transactions.

        session_state: Whether a connection keeps settings and may `LISTEN`; off behind one too.
    """

    url: str
    busy_seconds: float
    read_only: bool = False
    schema: str | None = None
    pool_size: int = 32
    prepare: bool = True
    session_state: bool = True

    @property
    def settings(self) -> Mapping[str, object]:
        """What a connection is opened with; its text is in UTF-8, whatever the environment says."""
        options = "" if self.schema is None else f'-c search_path="{self.schema}"'
        named = {"options": options} if options else {}
        prepared = 0 if self.prepare else None
        common = {"autocommit": True, "client_encoding": "utf8", "prepare_threshold": prepared}
        return common | named

    @property
    def setup(self) -> tuple[str, ...]:
        """What is said first on a new connection.

        A table that was just made has no statistics: plans that were made for a small one, and
        kept, would read all of it, until the server has counted its rows. Every statement that is
        run often has its index.
        """
        wait = f"SET lock_timeout = {int(self.busy_seconds * 1000)}"
        reading = "SET default_transaction_read_only = on"
        return (wait, *_PLANNED) * self.session_state + (reading,) * self.read_only


class Pooled(Driver):
    """A connection of the pool, with the session that is driven on it."""

    session: Session | None = None


class _Local(threading.local):
    """What is a thread's own."""

    session: Session | None = None
    lending: bool = False
    """Whether it is at the pool, whose lock it may have."""

    listener: Driver | None = None
    listener_pid: int = 0


@define(eq=False)
class PostgresqlBackend:
    """A PostgreSQL database, through a pool of connections.

    Attributes:
        place: How it is reached.

        now: The reading of an explicit clock, in milliseconds; None: the server's clock rules.

        dialect: How it wants its statements.
    """

    place: Postgres
    now: Callable[[], int] | None
    dialect: PostgresqlDialect = POSTGRESQL
    _local: _Local = field(factory=_Local, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _pool: ConnectionPool[Pooled] | None = field(default=None, init=False)
    _pid: int = field(default=0, init=False)
    _listeners: list[Driver] = field(factory=list, init=False)
    _closed: bool = field(default=False, init=False)

    @property
    def journal_mode(self) -> None:
        """The server's matter."""

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Lend a connection: within a transaction, and nested, the thread's present one.

        Raises:
            StoreBusy, StoreUnavailable: All are in use for too long, or a signal's handler is in
                the midst of a call; none can be had at all.
        """
        session = self._local.session
        if session is not None and session.pid == PROCESS.pid:
            if session.talking:
                raise StoreBusy(UNDER_WAY)
            yield session
            return
        with self._lending():
            pool = self._connected()
            driver = self._taken(pool)
            session = driver.session = driver.session or Session.on(driver, self.now)
        self._local.session = session
        try:
            yield session
        finally:
            with self._lending():
                self._local.session = None
                broken = driver.closed or driver.broken
                pool.putconn(driver)
                if broken:
                    pool.check()  # whatever broke it may have broken the idle ones too

    @contextmanager
    def _lending(self) -> Iterator[None]:
        """Be at the pool: a handler that asked it too would wait for its own thread."""
        if self._local.lending:
            raise StoreBusy(UNDER_WAY)
        self._local.lending = True
        try:
            yield
        finally:
            self._local.lending = False

    def _taken(self, pool: ConnectionPool[Pooled]) -> Pooled:
        try:
            return pool.getconn(timeout=self.place.busy_seconds)
        except PoolTimeout as error:
            raise self.unreachable() from error
        except PoolClosed as error:
            raise StoreClosed from error

    def own(self) -> None:
        """Return none: connections are the pool's."""

    def check_open(self) -> None:
        """Refuse what comes after the end.

        Raises:
            StoreClosed: It is.
        """
        if self._closed:
            raise StoreClosed

    def _connected(self) -> ConnectionPool[Pooled]:
        """Return the process's pool; a fork's child makes its own."""
        self.check_open()
        if self._pool is None or self._pid != PROCESS.pid:
            with self._lock:
                if self._pool is None or self._pid != PROCESS.pid:
                    self._pool = self._open()
                    self._pid = PROCESS.pid
        return self._pool

    def _open(self) -> ConnectionPool[Pooled]:
        return ConnectionPool(
            self.place.url,
            connection_class=Pooled,
            kwargs=dict(self.place.settings),
            configure=self._configure,
            min_size=0,
            max_size=self.place.pool_size,
            open=True,
        )

    def _configure(self, driver: Driver) -> None:
        for statement in self.place.setup:
            driver.execute(statement.encode())

    def unreachable(self) -> StoreBusy | StoreUnavailable:
        """Tell a busy pool from a server that cannot be reached, and say why it cannot."""
        try:
            with self._dial():
                pass
        except psycopg.Error as error:
            ours = StoreUnavailable(f"the database cannot be reached: {error}")
            ours.__cause__ = error
            return ours
        return StoreBusy("every connection of the pool is in use; try again")

    def _dial(self) -> Driver:
        return psycopg.connect(self.place.url, **self.place.settings)  # type: ignore[arg-type]  # settings are of several types

    def borrow(self, driver: object) -> Session | None:
        """Return a session on a caller's connection; None when it is not one of `psycopg`.

        Raises:
            InvalidArgument: It is in a pipeline, which answers only later.
        """
        if not isinstance(driver, psycopg.Connection):
            return None
        if driver.info.pipeline_status:
            raise InvalidArgument("connection", "one outside of a pipeline")
        idle = driver.info.transaction_status == TransactionStatus.IDLE
        alone = driver.autocommit and idle
        return Session.on(driver, self.now, depth=0 if alone else 1, careful=True)

    def wait_for_change(self, seconds: float) -> bool:
        """Wait for a notification; where none can be had, the poll is all there is."""
        self.check_open()
        deadline = time.monotonic() + seconds
        if self.place.session_state:
            with suppress(psycopg.Error):
                listener = self._listener()
                for _ in listener.notifies(timeout=seconds, stop_after=1):
                    return True
                return False
            self._local.listener = None
        time.sleep(max(0.0, deadline - time.monotonic()))
        return False

    def _listener(self) -> Driver:
        """Return the thread's listening connection; it queues what came since the last wait."""
        listener = self._local.listener
        if listener is None or listener.closed or self._local.listener_pid != PROCESS.pid:
            listener = self._local.listener = self._dial()
            self._local.listener_pid = PROCESS.pid
            with self._lock:
                self._listeners = [known for known in self._listeners if not known.closed]
                self._listeners.append(listener)
            schema = listener.execute("SELECT current_schema()").fetchone()
            name = "" if schema is None else str(schema[0])
            listener.execute(f'LISTEN "{channel(name)}"'.encode())
        return listener

    def settle(self) -> None:
        """The server keeps what it needs."""

    def close(self) -> None:
        """Close every connection of this process."""
        self._closed = True
        if self._pid == PROCESS.pid:
            for listener in self._listeners:
                listener.close()
            if self._pool is not None:
                self._pool.close()


def channel(schema: str) -> str:
    """Return the channel on which a schema's changes are announced."""
    return f"sqlatch_{hashlib.md5(schema.encode(), usedforsecurity=False).hexdigest()}"
