"""An own machine on the store, and inside the caller's own transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.rows import dict_row
from sqlalchemy.orm import Session

from persistence import ManualClock, Store, open_store
from persistence.stores.runs import Runs
from statemachine import Actor, Reason, Refused
from statemachine.errors import (
    IdentityConflict,
    InvalidArgument,
    StoreUnavailable,
    UniquenessConflict,
    UnknownTransition,
)
from statemachine.machines import RUN_LAUNCH
from tests.cases.launches import LEASE
from tests.order import ORDER, OrderState

Run = Callable[[str], Any]


def _text(connection: sa.Connection | Session) -> Run:
    return lambda sql: connection.execute(sa.text(sql))


def _sqlite3(url: str) -> Iterator[tuple[Any, Run]]:
    connection = sqlite3.connect(url)
    connection.row_factory = sqlite3.Row
    yield connection, connection.execute
    connection.close()


def _psycopg(url: str) -> Iterator[tuple[Any, Run]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        yield connection, lambda sql: connection.execute(sql.encode())


def _engine(url: str) -> sa.Engine:
    if url.startswith("postgresql"):
        return sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    return sa.create_engine(f"sqlite:///{url}")


def _core(url: str) -> Iterator[tuple[Any, Run]]:
    engine = _engine(url)
    with engine.connect() as connection:
        yield connection, _text(connection)
    engine.dispose()


def _orm(url: str) -> Iterator[tuple[Any, Run]]:
    engine = _engine(url)
    with Session(engine) as session:
        yield session, _text(session)
    engine.dispose()


KINDS = {
    "sqlite3": _sqlite3,
    "psycopg": _psycopg,
    "sqlalchemy-core-sqlite": _core,
    "sqlalchemy-orm-sqlite": _orm,
    "sqlalchemy-core-postgresql": _core,
    "sqlalchemy-orm-postgresql": _orm,
}


@pytest.fixture(name="place", params=KINDS)
def _place(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Store, Any, Run, Callable[[], int]]]:
    """A store, a caller's connection, how to run SQL on it, and how many rows it wrote for good."""
    kind = str(request.param)
    on_server = kind == "psycopg" or kind.endswith("postgresql")
    url = request.getfixturevalue("postgres_url") if on_server else str(tmp_path / "shop.db")
    with open_store(url, clock=ManualClock(), machines=(ORDER,)) as store:
        for connection, run in KINDS[kind](url):
            run("CREATE TABLE parcels (number integer)")
            connection.commit()

            def written(url: str = url, *, on_server: bool = on_server) -> int:
                if on_server:
                    with psycopg.connect(url) as other:
                        row = other.execute("SELECT count(*) FROM parcels").fetchone()
                else:
                    other_file = sqlite3.connect(url)
                    row = other_file.execute("SELECT count(*) FROM parcels").fetchone()
                    other_file.close()
                assert row is not None
                return int(row[0])

            yield store, connection, run, written


Place = tuple[Store, Any, Run, Callable[[], int]]


def test_transitions_commit_with_the_callers_writes(place: Place) -> None:
    """What sqlatch moved in the caller's transaction is there once the caller commits."""
    store, connection, run, written = place
    orders = store.on(connection).machine(ORDER)

    run("INSERT INTO parcels VALUES (1)")
    orders.create("place", {"order_id": "o-1", "basket": "b-1"})
    orders.apply("pay", "o-1")

    assert store.machine(ORDER).get("o-1") is None
    connection.commit()
    assert store.machine(ORDER).get("o-1").state == OrderState.PAID
    assert written() == 1


def test_transitions_are_undone_with_the_callers_writes(place: Place) -> None:
    """Nothing that sqlatch moved in the caller's transaction outlives its rollback."""
    store, connection, run, written = place
    orders = store.on(connection).machine(ORDER)

    run("INSERT INTO parcels VALUES (1)")
    orders.create("place", {"order_id": "o-1", "basket": "b-1"})
    connection.rollback()

    assert store.machine(ORDER).get("o-1") is None
    assert store.machine(ORDER).history("o-1") == []
    assert written() == 0


def test_a_refusal_leaves_the_callers_writes_alive(place: Place) -> None:
    """Neither a refusal nor a broken uniqueness rule spoils the caller's transaction."""
    store, connection, run, written = place
    orders = store.on(connection).machine(ORDER)

    run("INSERT INTO parcels VALUES (1)")
    orders.create("place", {"order_id": "o-1", "basket": "b-1"})
    missing = orders.apply("pay", "nowhere")
    with pytest.raises(IdentityConflict):
        orders.create("place", {"order_id": "o-1", "basket": "b-2"})
    with pytest.raises(UniquenessConflict) as conflict:
        orders.create("place", {"order_id": "o-2", "basket": "b-1"})
    run("INSERT INTO parcels VALUES (2)")
    connection.commit()

    assert isinstance(missing, Refused)
    assert Reason.MISSING is missing.reason
    assert conflict.value.blocker.order_id == "o-1"  # type: ignore[attr-defined]  # the record in the way
    assert store.machine(ORDER).get("o-1").state == OrderState.PENDING
    assert written() == 2


def test_a_block_on_the_callers_connection_is_all_or_nothing(place: Place) -> None:
    """`transaction()` on a caller's connection is a savepoint: it undoes its block alone."""
    store, connection, run, written = place
    here = store.on(connection)

    run("INSERT INTO parcels VALUES (1)")

    def failing() -> None:
        with here.transaction():
            here.machine(ORDER).create("place", {"order_id": "o-1", "basket": "b-1"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    with here.transaction():
        here.machine(ORDER).create("place", {"order_id": "o-2", "basket": "b-2"})
    connection.commit()

    assert store.machine(ORDER).get("o-1") is None
    assert store.machine(ORDER).get("o-2").order_id == "o-2"
    assert written() == 1


def test_one_face_serves_one_transaction_after_another(place: Place) -> None:
    """What was moved after a commit or a rollback is in the caller's next transaction."""
    store, connection, run, written = place
    orders = store.on(connection).machine(ORDER)

    for number, ending in enumerate(("commit", "commit", "rollback", "commit")):
        orders.create("place", {"order_id": f"o-{number}", "basket": f"b-{number}"})
        orders.apply("pay", f"o-{number}")
        run(f"INSERT INTO parcels VALUES ({number})")
        getattr(connection, ending)()

    stored = [store.machine(ORDER).get(f"o-{number}") for number in range(4)]
    assert [order and order.state for order in stored] == ["paid", "paid", None, "paid"]
    assert written() == 3


def _moved_in_a_transaction_of_autocommit(store: Store, here: Store, run: Run) -> None:
    """Begin by hand on a connection that was lent before, and undo it."""
    run("BEGIN")
    run("INSERT INTO parcels VALUES (1)")
    with here.transaction():
        here.machine(ORDER).create("place", {"order_id": "o-1", "basket": "b-1"})
    with pytest.raises(UniquenessConflict):
        here.machine(ORDER).create("place", {"order_id": "o-2", "basket": "b-1"})
    assert here.machine(ORDER).apply("pay", "o-1")
    run("INSERT INTO parcels VALUES (2)")
    run("ROLLBACK")
    assert store.machine(ORDER).get("o-1") is None

    assert here.machine(ORDER).create("place", {"order_id": "o-3", "basket": "b-3"})
    assert store.machine(ORDER).get("o-3") is not None


def test_a_transaction_may_begin_after_its_connection_was_lent(
    postgres_url: str, tmp_path: Path
) -> None:
    """A connection in autocommit is the caller's transaction as soon as it has one, and no longer.

    Nothing that the caller began is committed, and nothing in it is spoiled.
    """
    path = str(tmp_path / "shop.db")
    file = sqlite3.connect(path, isolation_level=None)
    server = psycopg.connect(postgres_url, autocommit=True)
    places: list[tuple[str, Any]] = [(path, file), (postgres_url, server)]
    for url, connection in places:
        with open_store(url, machines=(ORDER,)) as store, closing(connection):
            here = store.on(connection)
            connection.execute("CREATE TABLE parcels (number integer)")
            _moved_in_a_transaction_of_autocommit(store, here, connection.execute)
            count = connection.execute("SELECT count(*) FROM parcels").fetchone()
            assert count is not None
            assert count[0] == 0


def test_a_connection_that_answers_later_is_refused(postgres_url: str) -> None:
    """In a pipeline no statement has rows yet: what moved would be taken for refused."""
    with (
        open_store(postgres_url, machines=(ORDER,)) as store,
        psycopg.connect(postgres_url) as connection,
    ):
        orders = store.on(connection).machine(ORDER)
        orders.create("place", {"order_id": "o-1", "basket": "b-1"})
        with connection.pipeline(), pytest.raises(InvalidArgument, match="pipeline"):
            orders.apply("pay", "o-1")

        assert orders.apply("pay", "o-1")


def test_how_the_callers_file_gives_text_is_the_callers_matter(tmp_path: Path) -> None:
    """It is read as ours, and left as it was; a closed connection is told as store trouble."""
    path = str(tmp_path / "shop.db")
    with open_store(path, machines=(ORDER,)) as store:
        connection = sqlite3.connect(path)
        connection.text_factory = bytes
        orders = store.on(connection).machine(ORDER)
        made = orders.create("place", {"order_id": "o-1", "basket": "b-1"})
        rows = connection.execute("SELECT basket FROM orders").fetchall()
        connection.close()

        assert (made.basket, rows) == ("b-1", [(b"b-1",)])
        with pytest.raises(StoreUnavailable):
            orders.apply("pay", "o-1")


def test_the_shipped_faces_work_there_too(place: Place) -> None:
    """`store.on(connection).runs` is the same queue."""
    store, connection, _, _ = place
    run = store.on(connection).runs.reserve(
        workflow="w", source_ref="r", source={}, definition_digest="d"
    )
    connection.commit()

    assert run == store.runs.get(run.run_id)


_FACTS: dict[str, Any] = {
    "workflow": "w",
    "source_ref": "r",
    "source": {},
    "definition_digest": "d",
}
WRONG: dict[str, Callable[[Runs], object]] = {
    "reserve, call": lambda runs: runs.reserve(**_FACTS, call=""),
    "reserve, actor": lambda runs: runs.reserve(**_FACTS, call="c", actor=cast("Actor", "ada")),
    "enqueue, call": lambda runs: runs.enqueue(**_FACTS, runner_id="w", lease=LEASE, call=""),
    "claim_next, call": lambda runs: runs.claim_next("w", LEASE, call=""),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_argument_begins_nothing(tmp_path: Path, wrong: Callable[[Runs], object]) -> None:
    """It is told before anything is asked of the database, where the caller would hold a lock."""
    path = str(tmp_path / "runs.db")
    with open_store(path) as store, closing(sqlite3.connect(path)) as connection:
        with pytest.raises(InvalidArgument, match=r"call|actor"):
            wrong(store.on(connection).runs)

        assert not connection.in_transaction


def test_a_foreign_connection_is_refused(store: Store) -> None:
    """Only a connection of the store's own driver can carry its transitions."""
    with pytest.raises(InvalidArgument, match="connection"):
        store.on(object())


def test_an_unknown_machine_is_refused(store: Store) -> None:
    """A machine whose table the store was not opened with is refused by name."""
    assert store.machine(RUN_LAUNCH) is not None
    with pytest.raises(InvalidArgument, match="run_launch"):
        store.machine(ORDER)


@pytest.mark.parametrize("name", ["plcae", [], None, 5], ids=repr)
def test_a_name_that_is_not_declared_is_refused(store: Store, name: Any) -> None:
    """Whatever it is, and whichever call is asked for it: the declared ones are named."""
    runs = store.machine(RUN_LAUNCH)

    with pytest.raises(UnknownTransition, match=r"known: .*reserve"):
        runs.create(name, {})
    with pytest.raises(UnknownTransition, match=r"known: .*finish"):
        runs.apply(name, "r1")
    with pytest.raises(UnknownTransition, match=r"known: .*finish"):
        runs.apply_many(name, [])
    with pytest.raises(UnknownTransition, match=r"known: .*claim_next_host"):
        runs.next(name, {})
