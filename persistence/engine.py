"""A store: one database, opened; runs operations on its connections."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from attrs import define, evolve

from persistence import layout
from persistence.binds import ACTOR_BIND, ACTOR_KIND_BIND, CALL_BIND, KEY_BIND
from persistence.call import Call
from persistence.compile import Program
from persistence.operation import Answer, Clash, Direct
from persistence.process import PROCESS
from statemachine.errors import CommitUnknown, InvalidArgument, SqlatchError
from statemachine.kinds import Duration, Text, admit
from statemachine.outcome import Actor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from persistence.clock import Clock
    from persistence.dialect import Dialect
    from persistence.operation import Operation
    from statemachine.kinds import Row
    from statemachine.machine import Machine

_T = TypeVar("_T")
_KEY = Text()


class Session(layout.Session, Protocol):
    """A connection that belongs to one thread."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""


class Backend(Protocol):
    """A database: lends connections, and says what differs."""

    @property
    def dialect(self) -> Dialect:
        """How it wants its statements."""

    @property
    def journal_mode(self) -> str | None:
        """The journal mode in force; None where that is the server's matter."""

    def session(self) -> AbstractContextManager[Session]:
        """Lend the calling thread's connection."""

    def own(self) -> Session | None:
        """Return the calling thread's connection; None: it has to be lent."""

    def borrow(self, driver: object) -> Session | None:
        """Return a session on a driver's connection of the caller's; None: not of this driver."""

    def wait_for_change(self, seconds: float) -> bool:
        """Wait until somebody else has committed; False when nobody did in time."""

    def close(self) -> None:
        """Close the connections."""


@define(eq=False)
class Engine:
    """Runs operations on a backend; what the typed faces are thin over.

    Attributes:
        backend: The database.

        clock: Whose time it is; None: the database server's.

        project: The project that the store is opened for; None: all of them.

        actor: Who calls, where a call does not say.

        machines: Whose tables the store was opened with.
    """

    backend: Backend
    clock: Clock | None
    project: str | None
    actor: Actor
    machines: tuple[Machine, ...]

    def __reduce__(self) -> str:
        msg = "a store holds connections and cannot be pickled; open it again where it is needed"
        raise TypeError(msg)

    def on(self, backend: Backend) -> Engine:
        """Return an engine with another connection to the same database."""
        return evolve(self, backend=backend)

    def program(self, machine: Machine) -> Program:
        """Return a machine's statements, each compiled at most once a process."""
        server_clock = self.clock is None and self.backend.dialect.server_clock
        return _program(machine, self.backend.dialect, server_clock)

    def call_of(
        self,
        params: Row,
        key: str = "",
        call: str | None = None,
        actor: Actor | None = None,
        otherwise: Actor | None = None,
    ) -> Call:
        """Return a call with these plain values.

        Args:
            params: Its values.

            key: Of the row; empty where it names none.

            call: Its id, as the caller gave it; None: it is given one of its own.

            actor: Who calls, as the caller gave it.

            otherwise: Who calls where `actor` is None, a valid one; None: the store's.

        Raises:
            InvalidArgument: An id or a name that is no key.
        """
        who = (otherwise or self.actor) if actor is None else actor_of(actor)
        given = call is not None
        named = key_of(call, "call") if given else next(PROCESS.calls)
        bound = {**params}
        bound[KEY_BIND] = key
        bound[CALL_BIND] = named
        bound[ACTOR_BIND] = who.name
        bound[ACTOR_KIND_BIND] = who.kind
        # As `Call` makes it, whose own constructor is a function of Python's.
        return tuple.__new__(Call, (who, named, given, bound, key))

    def run(self, operation: Operation[_T]) -> _T:
        """Run an operation, each statement on its own or in the thread's open transaction."""
        session = self.backend.own()
        if session is None:
            with self.backend.session() as lent:
                return _run(operation, lent)
        if not isinstance(operation, Direct):
            return _run(operation, session)
        statement, clash = operation.statement, None
        try:
            rows, _ = session.execute(statement.sql, operation.params, fragile=operation.fragile)
        except Clash as met:
            rows, clash = (), met
        told: _T = operation.tell(rows[0]) if rows else _run(operation.instead(clash), session)
        return told

    def run_whole(self, operation: Operation[_T], call: str | None = None) -> _T:
        """Run an operation as one transaction: all of it or nothing.

        Raises:
            CommitUnknown: The connection broke meanwhile; carries the call's id, where given.
        """
        try:
            with self.backend.session() as session, session.transaction():
                return _run(operation, session)
        except CommitUnknown as unknown:
            unknown.call = call
            raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block as one transaction of the calling thread; nested: as a savepoint."""
        with self.backend.session() as session, session.transaction():
            yield


_program = functools.lru_cache(maxsize=128)(Program)


def _run(operation: Operation[_T], session: Session) -> _T:
    try:
        query = next(operation)
        while True:
            try:
                rows, now = session.execute(
                    query.statement.sql, query.params, fragile=query.fragile
                )
            except SqlatchError as error:
                query = operation.throw(error)
            else:
                query = operation.send(Answer(rows, now))
    except StopIteration as stop:
        outcome: _T = stop.value
        return outcome


def seconds_of(value: timedelta, name: str) -> float:
    """Return a duration in seconds.

    Raises:
        InvalidArgument: Not 1 ms to 100 years.
    """
    return int(admit(Duration(), value, name) or 0) / 1000


def key_of(value: object, name: str) -> str:
    """Return a key.

    Raises:
        InvalidArgument: It is none.
    """
    return str(admit(_KEY, value, name))


def actor_of(actor: Actor | None) -> Actor:
    """Return a validated actor, by default this process.

    Raises:
        InvalidArgument: Kind or name is no key.
    """
    if actor is None:
        return Actor("process", f"pid-{PROCESS.pid}")
    if not isinstance(actor, Actor):
        raise InvalidArgument("actor", "an Actor")
    return _valid(actor)


@functools.lru_cache(maxsize=256)
def _valid(actor: Actor) -> Actor:
    return Actor(key_of(actor.kind, "actor.kind"), key_of(actor.name, "actor.name"))
