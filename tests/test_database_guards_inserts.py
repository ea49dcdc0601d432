"""No row comes to be but by a declared creation, and none takes another's place."""

from __future__ import annotations

import pytest

from persistence import Store
from statemachine.errors import StoreCorrupt
from statemachine.kinds import MAX_INSTANT
from statemachine.machines import RUN_LAUNCH
from tests.attacks import (
    HUGE,
    NOW,
    STATES,
    born,
    changed,
    drop,
    new,
    scene,
    slipped,
    step,
    take,
    update,
    verbs,
)
from tests.conftest import Capabilities
from tests.raw import Raw, insert


@pytest.fixture(name="raw")
def _raw(store: Store, database: str, capabilities: Capabilities) -> Raw:
    return scene(store, database, capabilities)


def test_a_lawful_insert_is_what_the_unlawful_ones_differ_from(raw: Raw) -> None:
    """What a creation could have written is let in, or the following would prove nothing."""
    assert raw.refusal(insert("runs", new(raw, "first"))) is None
    assert raw.refusal(insert("runs", born(raw, "second"))) is None
    assert [event.transition for event in raw.store.runs.history("first")] == ["reserve"]
    assert [event.transition for event in raw.store.runs.history("second")] == ["enqueue"]


def test_a_row_comes_to_be_by_a_declared_creation_alone(raw: Raw) -> None:
    """At revision 1, in the creation's state, with the values that it does not write untouched."""
    rows = [
        *(new(raw, revision=revision) for revision in (9, 0, 2, -1)),
        *(new(raw, last_transition=name) for name in ("claim", "enqueue", "no such", "")),
        *(new(raw, status=status) for status in STATES if status != "queued"),
        new(raw, attempts=1),
        new(raw, waiting=True),
        new(raw, paused=True),
        new(raw, lease_generation=1),
        new(raw, **take() | {"lease_generation": 1}),
        new(raw, started_at=NOW),
        new(raw, finished_at=NOW),
        new(raw, outcome="completed"),
        new(raw, result="1"),
        new(raw, error_code="code"),
        new(raw, error_message="message"),
        new(raw, status_detail="detail"),
        new(raw, cancel_requested_at=NOW),
        new(raw, status="done", outcome="completed", finished_at=NOW, input="null"),
        born(raw, status="queued"),
        born(raw, status="running"),
        born(raw, revision=9),
        born(raw, attempts=0),
        born(raw, attempts=5),
        born(raw, lease_generation=0),
        born(raw, lease_generation=77),
        born(raw, outcome="completed"),
    ]

    assert slipped(raw, [insert("runs", row) for row in rows]) == []


def test_an_insert_that_breaks_an_invariant_is_refused(raw: Raw) -> None:
    """A CHECK holds each invariant, and unknown is not true."""
    rows = [
        born(raw, **drop()),
        born(raw, lease_holder=None),
        born(raw, lease_expires_at=None),
        born(raw, lease_expires_at=NOW),
        born(raw, lease_holder_kind="ghost"),
        born(raw, attempts=-1),
        new(raw, execution_mode="interactive"),
        new(raw, execution_mode="sleeping"),
        new(raw, parent_run_id="new"),
        new(raw, available_at=-1),
        new(raw, available_at=MAX_INSTANT + 1),
        new(raw, affinity_until=HUGE),
        new(raw, created_at=-1),
        *(
            new(raw, **{name: None})
            for name, field in RUN_LAUNCH.fields.items()
            if not field.nullable
        ),
    ]

    assert slipped(raw, [insert("runs", row) for row in rows]) == []


def test_an_existing_key_is_not_replaced(raw: Raw) -> None:
    """REPLACE would delete the old row without a word; it is refused before it can."""
    if raw.capabilities.server_clock:
        pytest.skip("SQLite's own syntax; PostgreSQL's ON CONFLICT is tried apart")
    keys = ("queued", "running", "done", "elsewhere")
    rowid = {"rowid": 1}
    attacks = [
        f"PRAGMA recursive_triggers = {recursive};\n{sql}"
        for recursive in ("OFF", "ON")
        for verb in ("INSERT", "INSERT OR REPLACE", "REPLACE", "INSERT OR IGNORE", "INSERT OR FAIL")
        for key in keys
        for sql in (
            insert("runs", new(raw, key), verb),
            insert("runs", rowid | new(raw, key), verb),
            insert("runs", born(raw, key), verb),
            insert("runs", rowid | new(raw, "new"), verb),
        )
    ]

    assert slipped(raw, attacks) == []


def test_no_row_is_put_at_a_rowid_of_somebodys_choice(raw: Raw) -> None:
    """A chosen row number could stand in the way of every later row."""
    if raw.capabilities.server_clock:
        pytest.skip("row numbers are SQLite's own")
    attacks = [
        insert("runs", {alias: number} | new(raw, f"at{number}"), verb)
        for verb in ("INSERT", "INSERT OR REPLACE")
        for alias in ("rowid", "_rowid_", "oid")
        for number in (1, 4, 0, -1, -2, 1_000_000, HUGE, -HUGE)
    ]
    attacks += [
        update("queued", verb, **{alias: number})
        for verb in verbs(raw.capabilities)
        for alias in ("rowid", "_rowid_", "oid")
        for number in (1, -1, 0, 1_000_000, HUGE)
    ]

    assert slipped(raw, attacks) == []


def test_a_held_slot_is_not_taken(raw: Raw) -> None:
    """Neither a new row nor a move enters a session's or a parent's slot that another row holds."""
    inserts = ["INSERT"]
    if not raw.capabilities.server_clock:
        inserts += ["INSERT OR REPLACE", "INSERT OR IGNORE", "INSERT OR FAIL", "REPLACE"]
    session = {"origin_session_id": "session", "execution_mode": "interactive"}
    attacks = [
        sql
        for verb in inserts
        for sql in (
            insert("runs", new(raw, **session), verb),
            insert("runs", born(raw, **session), verb),
            insert("runs", new(raw, parent_run_id="done"), verb),
            insert("runs", born(raw, parent_run_id="done"), verb),
        )
    ]
    attacks += [
        sql
        for verb in verbs(raw.capabilities)
        for sql in (
            step("aside", "claim", verb, status="starting", **take()),
            step("aside", "rebind", verb, status="starting", **take()),
            step("queued", "adopt", verb, **session),
            step("starting", "adopt", verb, **session),
        )
    ]  # fmt: skip

    assert slipped(raw, attacks) == []


def test_on_conflict_moves_nothing_that_a_transition_would_not(raw: Raw) -> None:
    """DO UPDATE is an update like any other; DO NOTHING does nothing."""
    taken = insert("runs", new(raw, "queued"))
    broken = insert("runs", new(raw, "queued", revision=9))
    refused = [
        f"{taken} ON CONFLICT (run_id) DO UPDATE SET status = 'done'",
        f"{taken} ON CONFLICT (run_id) DO UPDATE SET project = excluded.project || 'x'",
        f"{taken} ON CONFLICT (run_id) DO UPDATE SET revision = 9",
        f"{taken} ON CONFLICT (run_id) DO UPDATE SET paused = TRUE",
        f"{broken} ON CONFLICT (run_id) DO UPDATE SET paused = TRUE",
        f"{broken} ON CONFLICT DO NOTHING",
        f"{insert('runs', born(raw, 'queued', revision=2))} ON CONFLICT DO NOTHING",
    ]
    session = {"origin_session_id": "session", "execution_mode": "interactive"}
    harmless = [
        f"{taken} ON CONFLICT DO NOTHING",
        f"{insert('runs', born(raw, 'done'))} ON CONFLICT DO NOTHING",
        f"{insert('runs', new(raw, **session))} ON CONFLICT DO NOTHING",
        f"{insert('runs', new(raw, parent_run_id='done'))} ON CONFLICT DO NOTHING",
    ]

    assert slipped(raw, refused) == []
    assert changed(raw, harmless) == []


def test_a_value_that_is_none_of_its_column_is_told_when_it_is_read(raw: Raw) -> None:
    """No CHECK parses JSON: what is none is no driver's riddle but names row and column."""
    assert raw.refusal(insert("runs", new(raw, "odd", input="not json"))) is None

    with pytest.raises(StoreCorrupt, match="run_launch 'odd': what its column input holds"):
        raw.store.runs.get("odd")
