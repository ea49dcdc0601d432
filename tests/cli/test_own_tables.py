"""A machine is bound to a table that its user made: `ddl` prints what is to be added."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy.orm import Session

from persistence import ManualClock, NotificationClaim, Store, open_store
from persistence.additions import additions
from persistence.backends.sqlite_borrowed import BorrowedSession
from persistence.backends.sqlite_dialect import SQLITE
from statemachine import Reason, Refused
from statemachine.errors import IllegalTransition, SchemaMismatch, StoreCorrupt, UniquenessConflict
from statemachine.machines import ALL
from statemachine.testing import StoppedClock, machine_test
from tests.cli.conftest import Call
from tests.order import ORDER, OrderState
from tests.own_tables import (
    ROWS,
    asked,
    by_hand,
    engine_of,
    make_by_hand,
    make_by_metadata,
    on_server,
    run,
)

NAME = "tests.order:ORDER"
MAKERS = {"by hand": make_by_hand, "by SQLAlchemy": make_by_metadata}


@pytest.fixture(name="url", params=["sqlite", "postgresql"])
def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database that outlives a connection."""
    if request.param == "sqlite":
        return str(tmp_path / "shop.db")
    return str(request.getfixturevalue("postgres_url"))


def printed(call: Call, url: str, name: str = NAME) -> str:
    """Return what `ddl` prints for a database."""
    said = call("ddl", name, "--db", url)
    assert (said.code, said.err) == (0, "")
    return said.out


def bind(call: Call, url: str, make: Callable[[str], None] = make_by_hand) -> None:
    """Make the table with its rows, and run what is printed for it."""
    make(url)
    run(url, *ROWS)
    run(url, printed(call, url))


def opened(url: str) -> Store:
    """Open the store, which makes nothing."""
    return open_store(url, machines=(ORDER,), create=False)


# Bound


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_bound_table_moves_as_one_that_sqlatch_made(
    call: Call, url: str, make: Callable[[str], None]
) -> None:
    """Rows that were there, too; columns that the machine does not declare are left alone."""
    bind(call, url, make)

    with opened(url) as store:
        orders = store.machine(ORDER)
        late = orders.apply("ship", "old", {"parcel": "p-2"})
        paid = orders.apply("pay", "old", call="the-payment")
        again = orders.apply("pay", "old", call="the-payment")
        with pytest.raises(UniquenessConflict):
            orders.create("place", {"order_id": "new", "basket": "b-1"})
        orders.create("place", {"order_id": "new", "basket": "b-2"})

    assert isinstance(late, Refused)
    assert late.reason is Reason.STATE
    assert paid.state == again.state == OrderState.PAID
    rows = "SELECT order_id, state, revision, note, colour, reminders FROM orders ORDER BY order_id"
    assert asked(url, rows) == [
        ("gone", "cancelled", 1, None, "blue", 0),
        ("new", "pending", 1, None, "blue", 0),
        ("old", "paid", 2, "mine", "blue", 0),
        ("sent", "shipped", 1, None, "blue", 0),
    ]


def test_history_begins_with_the_next_transition(call: Call, url: str) -> None:
    """Nobody knows how a row that was there came to be: neither history nor feed invents it."""
    bind(call, url)

    with opened(url) as store:
        orders = store.machine(ORDER)
        before = orders.history("old"), store.events_after().events
        orders.apply("cancel", "old")
        orders.create("place", {"order_id": "new", "basket": "b-1"})
        (step,) = orders.history("old")
        while len(feed := store.events_after().events) < 2:
            store.wait_for_change(timedelta(milliseconds=20))  # others' long transactions delay it

    assert before == ([], ())
    assert (step.revision, step.source, step.dest) == (2, "pending", "cancelled")
    assert [(event.key, event.revision) for event in feed] == [("old", 2), ("new", 1)]
    assert asked(url, "SELECT last_transition, revision FROM orders WHERE order_id = 'sent'") == [
        ("(bound)", 1)
    ]


def test_printing_changes_nothing_and_says_when_all_is_there(call: Call, url: str) -> None:
    """It can be asked at any time."""
    make_by_hand(url)
    first = printed(call, url)
    tables = "SELECT name FROM sqlite_master"
    if on_server(url):
        tables = "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
    before = asked(url, tables)
    second = printed(call, url)

    assert asked(url, tables) == before
    assert len(first) == len(second)
    run(url, second)
    assert printed(call, url) == "-- There is nothing to add.\n"


def test_columns_that_are_there_already_are_not_added(call: Call, url: str) -> None:
    """A user's own model may declare the engine's columns too."""
    make_by_hand(url)
    run(url, "ALTER TABLE orders ADD COLUMN revision BIGINT NOT NULL DEFAULT 1")
    said = printed(call, url)
    run(url, said)

    assert "ADD COLUMN revision" not in said
    assert "ADD COLUMN coupon" in said
    opened(url).close()


@pytest.mark.parametrize(
    ("shell", "server"), [("sqlite3", False), ("psql", True)], ids=["sqlite3", "psql"]
)
def test_a_shell_runs_what_is_printed(
    call: Call, request: pytest.FixtureRequest, tmp_path: Path, shell: str, *, server: bool
) -> None:
    """As it stands there, in one transaction."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    url = str(request.getfixturevalue("postgres_url") if server else tmp_path / "shop.db")
    make_by_hand(url)
    run(url, *ROWS)
    script = tmp_path / "bind.sql"
    script.write_text(printed(call, url))
    command = ["sqlite3", "-bail", url, "BEGIN", f".read {script}", "COMMIT"]
    if server:
        command = ["psql", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-f", str(script), url]
    subprocess.run(command, check=True)

    with opened(url) as store:
        assert store.machine(ORDER).apply("pay", "old")


def test_an_own_migration_runs_what_is_printed(call: Call, url: str) -> None:
    """Statement by statement, as Alembic's `op.execute` does."""
    make_by_metadata(url)
    run(url, *ROWS)
    statements = printed(call, url).split(";\n\n")
    engine = engine_of(url)
    with engine.begin() as connection:
        op = Operations(MigrationContext.configure(connection))
        for statement in filter(str.strip, statements):
            op.execute(statement)
    engine.dispose()

    with opened(url) as store:
        assert store.machine(ORDER).apply("pay", "old")


def test_a_leased_machine_is_bound(call: Call, url: str) -> None:
    """The columns of its lease are added, and fence as ever: the row had none."""
    run(url, *OUTBOX)
    run(url, printed(call, url, "notification"))
    clock = ManualClock()
    with open_store(url, clock=clock, create=False) as store:
        (slow,) = _claimed(store)
        clock.advance(timedelta(seconds=31))
        (taken,) = _claimed(store)
        late = store.notifications.mark_delivered(slow)

        assert (slow.generation, taken.generation) == (1, 2)
        assert isinstance(late, Refused)
        assert store.notifications.mark_delivered(taken)


OUTBOX = (
    """CREATE TABLE notifications (
        notification_id TEXT NOT NULL PRIMARY KEY, run_id TEXT NOT NULL, node_id TEXT NOT NULL,
        attempt_id TEXT NOT NULL, notification_index BIGINT NOT NULL,
        target_session_id TEXT NOT NULL, kind TEXT NOT NULL, content TEXT NOT NULL,
        status TEXT NOT NULL, created_at BIGINT NOT NULL, delivered_at BIGINT)""",
    """INSERT INTO notifications VALUES
        ('n', 'r', 'node', 'a', 1, 'session', 'final', 'Done.', 'pending', 5, NULL)""",
)


def _claimed(store: Store) -> Sequence[NotificationClaim]:
    return store.notifications.claim_batch(
        "session", holder="h", lease=timedelta(seconds=30), limit=1
    )


def test_actors_who_try_everything_find_a_bound_table_as_declared(tmp_path: Path) -> None:
    """The store on a table that a user made against the in-memory machine, step by step."""
    files = (tmp_path / f"{number}.db" for number in itertools.count())

    def opening(clock: StoppedClock) -> Store:
        url = str(next(files))
        make_by_hand(url)
        with sqlite3.connect(url) as file:
            session = BorrowedSession(file, lambda: 0)
            for some in additions(session, (*ALL, ORDER), SQLITE, 0).values():
                file.executescript(";\n".join(some))
        file.close()
        return open_store(url, clock=clock, machines=(ORDER,), create=False)

    quick = settings(
        max_examples=5,
        stateful_step_count=15,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine_test(ORDER, opening), settings=quick)


# The caller's own transaction


@pytest.mark.parametrize("orm", [False, True], ids=["connection", "session"])
def test_a_bound_row_moves_in_the_callers_transaction(call: Call, url: str, *, orm: bool) -> None:
    """Next to a write into a column of the caller's own, and undone with it."""
    bind(call, url, make_by_metadata)
    engine = engine_of(url)
    paint = sa.text("UPDATE orders SET colour = 'red' WHERE order_id = 'old'")
    with opened(url) as store:
        for ending in ("rollback", "commit"):
            with Session(engine) if orm else engine.connect() as connection:
                mine = store.on(connection).machine(ORDER)
                connection.execute(paint)
                moved = mine.apply("pay", "old")
                refused = mine.apply("pay", "old")
                getattr(connection, ending)()
            assert moved, moved
            assert isinstance(refused, Refused)
            painted = asked(url, "SELECT colour, state FROM orders WHERE order_id = 'old'")
            assert painted == [("blue", "pending") if ending == "rollback" else ("red", "paid")]
    engine.dispose()


def test_what_a_constraint_of_the_users_refuses_leaves_the_transaction_alive(
    call: Call, url: str
) -> None:
    """A unique index of the user's own is none of the machine's rules, and told by its name."""
    make_by_hand(url)
    run(url, *ROWS, "CREATE UNIQUE INDEX one_parcel ON orders (parcel)")
    run(url, "CREATE UNIQUE INDEX one_hue ON orders (colour) WHERE note IS NULL AND parcel IS NULL")
    run(url, printed(call, url))
    engine = engine_of(url)
    with opened(url) as store, engine.connect() as connection:
        mine = store.on(connection).machine(ORDER)
        mine.apply("pay", "old")
        with pytest.raises(IllegalTransition, match=r"parcel.* is unique"):
            mine.apply("ship", "old", {"parcel": "p-1"})
        with pytest.raises(IllegalTransition, match=r"(one_hue|colour) is unique"):
            mine.create("place", {"order_id": "new", "basket": "b-2"})
        connection.commit()

        assert store.machine(ORDER).get("old").state == OrderState.PAID
    engine.dispose()


# Guarded

MOVE = (
    "UPDATE orders SET revision = revision + 1, last_transition = '{}', {} WHERE order_id = 'old'"
)
FORBIDDEN = {
    "an undeclared move": MOVE.format("pay", "state = 'shipped'"),
    "a broken invariant": MOVE.format("pay", "state = 'paid', paid_at = NULL"),
    "an impossible instant": MOVE.format("pay", "state = 'paid', paid_at = -1"),
    "a move without a revision": "UPDATE orders SET state = 'paid', paid_at = 5",
    "a column of another transition": MOVE.format("remind", "parcel = 'p'"),
    "a row from nowhere": "INSERT INTO orders (order_id, state, basket) VALUES ('x', 'paid', 'b')",
    "a row deleted": "DELETE FROM orders",
    "a null key": MOVE.format("remind", "order_id = NULL"),
}


@pytest.mark.parametrize("sql", FORBIDDEN.values(), ids=FORBIDDEN)
def test_the_database_guards_a_bound_table(call: Call, url: str, sql: str) -> None:
    """Against any SQL that reaches it, as if sqlatch had made it."""
    bind(call, url)
    everything = "SELECT * FROM orders ORDER BY order_id"
    before = asked(url, everything)

    with pytest.raises((sqlite3.IntegrityError, psycopg.Error), match=r"sqlatch:illegal|orders"):
        run(url, sql)

    assert asked(url, everything) == before
    assert asked(url, "SELECT * FROM sqlatch_history") == []


def test_a_value_of_another_type_is_refused_on_a_table_that_is_not_strict(
    call: Call, tmp_path: Path
) -> None:
    """SQLite would keep it: a trigger holds what STRICT would."""
    url = str(tmp_path / "shop.db")
    bind(call, url)

    for value in ("'soon'", "1.5", "x'00'"):
        with pytest.raises(sqlite3.IntegrityError, match="type of a column"):
            run(url, MOVE.format("pay", f"state = 'paid', paid_at = {value}"))


def test_columns_of_the_users_own_are_his(call: Call, url: str) -> None:
    """Neither a revision nor a transition is needed to write them."""
    bind(call, url)
    run(url, "UPDATE orders SET note = 'theirs', colour = 'red'")

    assert asked(url, "SELECT DISTINCT note, colour, revision FROM orders") == [
        ("theirs", "red", 1)
    ]


# Opened


@pytest.mark.parametrize("create", [False, True], ids=["", "create"])
def test_a_table_that_is_not_bound_is_named_with_the_command(url: str, *, create: bool) -> None:
    """No store adds to it in silence, nor makes anything beside it."""
    make_by_hand(url)
    with pytest.raises(SchemaMismatch) as mismatch:
        open_store(url, machines=(ORDER,), create=create)

    assert "table orders is there, but not bound to order: it lacks coupon, revision" in str(
        mismatch.value
    )
    assert "Nothing was changed. `sqlatch ddl MODULE:NAME" in mismatch.value.advice
    with pytest.raises((sqlite3.Error, psycopg.Error)):
        asked(url, "SELECT * FROM sqlatch_layout")


def test_what_was_not_run_whole_is_not_bound(call: Call, url: str) -> None:
    """A shell may go on behind a statement that failed: the record is not made then."""
    make_by_hand(url)
    statements = printed(call, url).split(";\n\n")
    lost = next(s for s in statements if "TRIGGER orders_" in s and "UPDATE" in s)
    run(url, ";\n".join(s for s in statements if s != lost))

    with pytest.raises(SchemaMismatch, match="orders is there, but not bound"):
        opened(url)


@pytest.mark.parametrize("wrong", ["state = 'teh'", "state = 'paid'", "paid_at = 'soon'"])
def test_a_row_that_came_after_the_look_is_not_bound(call: Call, url: str, wrong: str) -> None:
    """Between printing and running others go on writing: all of it fails, and nothing is left."""
    if on_server(url) and "soon" in wrong:
        wrong = "paid_at = -1"
    make_by_hand(url)
    run(url, *ROWS)
    said = printed(call, url)
    run(url, f"UPDATE orders SET {wrong} WHERE order_id = 'old'")

    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.CheckViolation)):
        run(url, f"BEGIN;\n{said}\nCOMMIT;")

    again = call("ddl", NAME, "--db", url)
    assert "rows 'old' break" in again.err
    assert "in the way" not in again.err


def test_what_triggers_were_taken_away_for_is_told(call: Call, tmp_path: Path) -> None:
    """Text in the place of an instant is the database's trouble, and no fault of the reader's."""
    url = str(tmp_path / "shop.db")
    bind(call, url)
    with sqlite3.connect(url) as file:
        kept = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'orders'"
        for name, _ in (triggers := file.execute(kept).fetchall()):
            file.execute(f"DROP TRIGGER {name}")
        file.execute("UPDATE orders SET paid_at = 'soon' WHERE order_id = 'old'")
        for _, sql in triggers:
            file.execute(sql)
    file.close()

    with opened(url) as store, pytest.raises(StoreCorrupt, match="its column paid_at holds"):
        store.machine(ORDER).get("old")
    assert "1 (old): not true: paid_at holds what it can" in call("doctor", "--db", url, NAME).out


LATER = {
    "a column": ["ALTER TABLE orders ADD COLUMN weight BIGINT"],
    "a column dropped": ["ALTER TABLE orders DROP COLUMN note"],
    "a unique index": ["CREATE UNIQUE INDEX mine ON orders (note)"],
    "a table that refers to it": [
        "CREATE TABLE lines (of VARCHAR(600) REFERENCES orders(order_id))"
    ],
}


@pytest.mark.parametrize("statements", LATER.values(), ids=LATER)
def test_a_bound_table_stays_its_users(call: Call, url: str, statements: list[str]) -> None:
    """What he adds or drops beside the machine's columns is nobody's business."""
    bind(call, url)
    run(url, *statements)

    with opened(url) as store:
        assert store.machine(ORDER).apply("pay", "old")


def test_what_is_lost_is_named_and_printed_again(call: Call, url: str) -> None:
    """As when a migration makes a table anew, whose triggers go with the old one."""
    bind(call, url)
    trigger = "orders_guard_update ON orders" if on_server(url) else "orders_edge"
    run(url, f"DROP TRIGGER {trigger}", "DROP INDEX orders_ended")
    with pytest.raises(SchemaMismatch, match=r"index orders.orders_ended is missing") as mismatch:
        opened(url)
    said = printed(call, url)
    run(url, said)

    assert f"trigger orders.{trigger.partition(' ')[0]} is missing" in mismatch.value.differences
    assert said.count("CREATE") == 2
    opened(url).close()


def test_what_was_altered_is_not_taken_for_ours(call: Call, url: str) -> None:
    """Neither at opening, nor where something else is to be added."""
    bind(call, url)
    run(url, "DROP INDEX orders_ended", "CREATE INDEX orders_ended ON orders (note)")
    run(url, "DROP INDEX orders_one_open_order_per_basket")

    with pytest.raises(SchemaMismatch, match=r"index orders.orders_ended is different"):
        opened(url)
    said = call("ddl", NAME, "--db", url)
    assert (said.code, said.out) == (3, "")
    assert "index orders.orders_ended is different" in said.err


# Not to be bound

OLD = "UPDATE orders SET {} WHERE order_id = 'old'"
UNFIT = {
    "a column missing": (
        "ALTER TABLE orders DROP COLUMN basket",
        "column orders.basket is missing, and its record gives no default",
    ),
    "an engine's column of another type": (
        "ALTER TABLE orders ADD COLUMN updated_at TEXT",
        "column orders.updated_at is text; Instant() needs",
    ),
    "a required column of his own": (
        "ALTER TABLE orders RENAME COLUMN basket TO cart",
        "column orders.cart is NOT NULL without a default, and the machine has none such",
    ),
    "an undeclared state": (OLD.format("state = 'teh'"), "rows 'old' break 'orders state'"),
    "an invariant": (
        OLD.format("state = 'paid'"),
        "rows 'old' break 'orders: nothing unpaid is shipped'",
    ),
    "an invariant over a column to be added": (
        "UPDATE orders SET state = 'shipped'",
        "rows 'gone', 'old' break 'orders: shipped exactly with a parcel'",
    ),
    "two in one slot": (
        "INSERT INTO orders (order_id, state, basket, paid_at) VALUES ('two', 'paid', 'b-1', 5)",
        "rows 'old' and 'two' break 'one open order per basket'",
    ),
    "an index in the way": (
        "CREATE INDEX orders_ended ON orders (note)",
        "index orders.orders_ended is in the way",
    ),
}


@pytest.mark.parametrize(("sql", "told"), UNFIT.values(), ids=UNFIT)
def test_what_cannot_be_bound_is_told_before_anything_is_printed(
    call: Call, url: str, sql: str, told: str
) -> None:
    """Nothing is reinterpreted: the user brings table and declaration together."""
    make_by_hand(url)
    run(url, *ROWS, sql)

    said = call("ddl", NAME, "--db", url)

    assert (said.code, said.out) == (3, "")
    assert told.lower() in said.err.lower()


ALTERED = {
    "may be NULL": ("basket TEXT NOT NULL", "basket TEXT", "column orders.basket may be NULL"),
    "NOT NULL": ("parcel TEXT", "parcel TEXT NOT NULL", "column orders.parcel is NOT NULL"),
    "an instant of the database's": (
        "paid_at BIGINT",
        "paid_at TIMESTAMP",
        "Instant() needs",
    ),
}
ON_SQLITE = {
    "a blob": ("paid_at BIGINT", "paid_at", "column orders.paid_at is without a type"),
    "letters that are equal": (
        "basket TEXT NOT NULL",
        "basket TEXT NOT NULL COLLATE NOCASE",
        "column orders.basket has COLLATE NOCASE",
    ),
    "no row numbers": (
        "id INTEGER PRIMARY KEY,\n    order_id VARCHAR(600) NOT NULL UNIQUE",
        "order_id VARCHAR(600) NOT NULL PRIMARY KEY",
        "table orders is WITHOUT ROWID",
    ),
    "rows deleted unseen": (
        "note TEXT",
        "note TEXT UNIQUE ON CONFLICT REPLACE",
        "table orders has ON CONFLICT REPLACE",
    ),
    "numbers hidden": ("note TEXT", "rowid TEXT", "column orders.rowid hides the rows' own"),
}
ON_POSTGRESQL = {
    "too short": (
        "VARCHAR(600)",
        "VARCHAR(50)",
        "column orders.order_id is character varying(50); Text(max_chars=512",
    ),
    "too small": (
        "reminders bigint",
        "reminders integer",
        "column orders.reminders is integer; Integer(minimum=0, maximum=9007199254740992) needs",
    ),
    "an enum": ("state TEXT", "state mood", "column orders.state is mood; Choice("),
    "letters that are equal": (
        "basket TEXT",
        "basket TEXT COLLATE loose",
        "column orders.basket has a nondeterministic collation",
    ),
    "generated": (
        "parcel TEXT",
        "parcel TEXT GENERATED ALWAYS AS ('p') STORED",
        "column orders.parcel is generated",
    ),
}
NEEDED = (
    "CREATE TYPE mood AS ENUM ('pending')",
    "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
)


VIEW = "CREATE VIEW orders AS SELECT * FROM sold"
MORE_THAN_A_TABLE = {
    "a materialized view": (VIEW.replace("VIEW", "MATERIALIZED VIEW"),),
    "a partitioned table": (
        "CREATE TABLE orders (LIKE sold INCLUDING DEFAULTS) PARTITION BY HASH (order_id)",
        "CREATE TABLE half PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    ),
    "inherited by other tables": (
        "ALTER TABLE sold RENAME TO orders",
        "CREATE TABLE more () INHERITS (orders)",
    ),
}


def _unlike(call: Call, url: str, told: str, *made: str) -> None:
    run(url, by_hand(url).replace("orders", "sold"), *made)
    with pytest.raises(SchemaMismatch, match=f"orders is {told}: only a table alone"):
        open_store(url, machines=(ORDER,))
    _against(call, url, "SELECT 1", f"orders is {told}: only a table alone can be bound")


def test_a_view_is_not_taken_for_nothing(call: Call, url: str) -> None:
    """Its name is used: a layout that makes the table would fail halfway."""
    _unlike(call, url, "a view", VIEW)


@pytest.mark.parametrize(("told", "made"), MORE_THAN_A_TABLE.items(), ids=MORE_THAN_A_TABLE)
def test_rows_that_no_trigger_would_guard_are_told(
    call: Call, postgres_url: str, told: str, made: tuple[str, ...]
) -> None:
    """Triggers of a table are none of those that share its rows."""
    _unlike(call, postgres_url, told, *made)


def test_a_table_that_is_inherited_later_is_told(call: Call, postgres_url: str) -> None:
    """As are tables that sqlatch made: rows of the heir would move unguarded, and unseen."""
    bind(call, postgres_url)
    opened(postgres_url).close()
    for table in ("orders", "runs"):
        run(postgres_url, f"CREATE TABLE heir () INHERITS ({table})")
        with pytest.raises(SchemaMismatch, match=table):
            opened(postgres_url)
        run(postgres_url, "DROP TABLE heir")
    opened(postgres_url).close()


def test_letters_case_is_nothing_in_sqlites_names(call: Call, tmp_path: Path) -> None:
    """The table is bound, and not made beside itself; its columns are not added again."""
    url = str(tmp_path / "shop.db")
    table = by_hand(url).replace("TABLE orders", "TABLE Orders").replace("order_id", "Order_ID")
    run(url, table.replace("paid_at", '"Paid_At"'), *ROWS)
    said = printed(call, url)
    run(url, said)

    assert "ADD COLUMN paid_at" not in said
    with opened(url) as store:
        assert store.machine(ORDER).apply("pay", "old")


def _against(call: Call, url: str, ddl: str, told: str) -> None:
    run(url, ddl)
    said = call("ddl", NAME, "--db", url)

    assert (said.code, said.out) == (3, "")
    assert told.lower() in said.err.lower()


@pytest.mark.parametrize(("was", "made", "told"), ALTERED.values(), ids=ALTERED)
def test_columns_that_do_not_fit_are_told(
    call: Call, url: str, was: str, made: str, told: str
) -> None:
    """What the machine could not keep there, or what it could not leave empty."""
    _against(call, url, by_hand(url).replace(was, made), told)


def test_a_unique_index_is_known_as_it_is_spelled(call: Call, url: str) -> None:
    """With spaces and quotes, as its maker wrote it."""
    run(url, by_hand(url).replace("NOT NULL UNIQUE", "NOT NULL"))
    run(url, 'CREATE UNIQUE INDEX mine\nON orders ( "order_id" ) ', *ROWS)
    run(url, printed(call, url))

    with opened(url) as store:
        assert store.machine(ORDER).apply("pay", "old")


@pytest.mark.parametrize(
    "index",
    ["(order_id, basket)", "(order_id) WHERE state = 'paid'", "(lower(order_id))"],
)
def test_a_key_that_names_more_than_one_row_is_told(call: Call, url: str, index: str) -> None:
    """A unique index over more than the key, over some rows, or over something else."""
    run(url, by_hand(url).replace("NOT NULL UNIQUE", "NOT NULL"))
    _against(
        call,
        url,
        f"CREATE UNIQUE INDEX mine ON orders {index}",
        "table orders has no unique index over order_id alone",
    )


@pytest.mark.parametrize(("was", "made", "told"), ON_SQLITE.values(), ids=ON_SQLITE)
def test_what_only_sqlite_has_is_told(
    call: Call, tmp_path: Path, was: str, made: str, told: str
) -> None:
    """Columns of any type, keys without case, rows without number."""
    url = str(tmp_path / "shop.db")
    without = " WITHOUT ROWID" if "WITHOUT" in told else ""
    _against(call, url, by_hand(url).replace(was, made).rstrip() + without, told)


@pytest.mark.parametrize(("was", "made", "told"), ON_POSTGRESQL.values(), ids=ON_POSTGRESQL)
def test_what_only_postgresql_has_is_told(
    call: Call, postgres_url: str, was: str, made: str, told: str
) -> None:
    """Types with a bound, enums and collations."""
    run(postgres_url, *NEEDED)
    _against(call, postgres_url, by_hand(postgres_url).replace(was, made), told)


def test_a_row_without_key_or_type_is_told(call: Call, tmp_path: Path) -> None:
    """SQLite keeps NULL in a primary key, and text in an integer's column."""
    url = str(tmp_path / "shop.db")
    run(url, by_hand(url).replace("id INTEGER PRIMARY KEY,", "").replace(
        "VARCHAR(600) NOT NULL UNIQUE", "TEXT PRIMARY KEY"
    ))  # fmt: skip
    run(url, *ROWS, "INSERT INTO orders (state, basket) VALUES ('cancelled', 'b-3')")
    run(url, "UPDATE orders SET paid_at = 'soon' WHERE order_id = 'old'")

    said = call("ddl", NAME, "--db", url)

    assert (said.code, said.out) == (3, "")
    assert "rows None break 'the type of order_id'" in said.err
    assert "rows 'old' break 'the type of paid_at'" in said.err


# Without a database


def test_without_a_database_the_whole_layout_is_printed_and_opens(call: Call, url: str) -> None:
    """It says so where a server cannot be reached; what is printed is what a store needs."""
    names = ("run_launch", "turn_intent", "notification", NAME)
    said = call("ddl", *names, "--db", url)
    assert said.code == 0
    run(url, said.out)
    opened(url).close()

    away = call("ddl", NAME, "--db", "postgresql://nowhere.invalid/x")

    assert "CREATE TABLE orders (" in away.out
    assert "this is the whole layout, for the database cannot be reached" in away.err
