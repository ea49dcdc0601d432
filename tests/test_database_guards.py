"""Raw SQL cannot leave the declaration: what no transition does is refused, and changes nothing.

Each statement is tried through the driver and through the program `sqlite3` or `psql`. What needs
the call's parameters (the token) is not the database's to know, and so is not tried here.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from persistence import Claim, Store
from statemachine.examples import examples
from statemachine.fields import ENGINE_FIELDS
from statemachine.interpret import effect
from statemachine.kinds import Boolean, Instant, Integer
from statemachine.machine import Transition
from statemachine.machines import RUN_LAUNCH
from tests.attacks import (
    LEASE,
    NOW,
    SQL,
    STATES,
    drop,
    end,
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


def test_an_undeclared_edge_is_refused(raw: Raw) -> None:
    """No SQL takes a run over an edge that is not declared, whatever it says of itself."""
    attacks = [
        update(run_id, verb, status=status)
        for verb in verbs(raw.capabilities)
        for run_id, status in itertools.product(("queued", "starting", "running", "done"), STATES)
        if run_id != status
    ]
    attacks += [
        step("queued", "finish", status="done", outcome="completed", **end()),
        step("queued", "mark_running", status="running", **take()),
        step("done", "requeue", status="queued", outcome=None, finished_at=None),
        step("cancelled", "claim", status="starting", outcome=None, finished_at=None, **take()),
        step("running", "claim", status="queued"),
        step("running", "no such transition", status="parked", **drop()),
        step("parked", "renew", status="parked"),
        step("starting", "reserve"),
        step("running", "park", status="done", outcome="completed", **end()),
    ]

    assert slipped(raw, attacks) == []


def test_every_pair_of_states_without_a_transition_is_refused(raw: Raw) -> None:
    """For each transition: no other source, and no other destination."""
    attacks = []
    for transition in RUN_LAUNCH.transitions:
        for source in STATES:
            for dest in STATES:
                if source in transition.source and dest == transition.reaches(source):
                    continue
                attacks.append(step(source, transition.name, status=dest))
    before = raw.content()

    with raw.connection() as connection:
        for sql in attacks:
            with pytest.raises(Exception, match=r"no declared transition|session_reservation"):
                connection.execute(sql)

    assert raw.content() == before


def test_a_column_changes_only_as_its_class_allows(raw: Raw) -> None:
    """Immutable, written once, cleared only, only by rebind: also within a declared step."""
    attacks = []
    for verb in verbs(raw.capabilities):
        for name in ("run_id", "project", "facts_digest", "affinity_runner_id", "parent_run_id"):
            attacks += [
                update("queued", verb, **{name: "changed"}),
                step("queued", "pause", verb, paused=True, **{name: "changed"}),
                step("parked", "claim", verb, status="starting", **take(), **{name: "changed"}),
            ]
        for name in ("affinity_until", "max_attempts", "created_at"):
            attacks += [
                update("queued", verb, **{name: 1}),
                step("queued", "pause", verb, paused=True, **{name: 1}),
            ]
        attacks += [
            step("running", "request_cancel", verb, cancel_requested_at=NOW + 1),
            step("running", "request_cancel", verb, cancel_requested_at=None),
            step("parked", "claim", verb, status="starting", started_at=NOW + 1, **take()),
            step("parked", "claim", verb, status="starting", started_at=None, **take()),
            step("aside", "adopt", verb, origin_session_id="other"),
            step("aside", "adopt", verb, origin_session_id=None, execution_mode="headless"),
            update("queued", verb, input="null"),
            update("queued", verb, input='"other"'),
            update("queued", verb, launch_options="[]"),
            step("starting", "finish", verb, status="done", outcome="completed", **end()
                 | {"input": '"other"'}),
            step("starting", "finish", verb, status="done", outcome="completed", **end()
                 | {"launch_options": "[]"}),
            *(
                step("parked", name, verb, **{column: "changed"})
                for name in ("wake", "pause", "claim")
                for column in ("workflow", "source_ref", "source", "definition_digest")
            ),
            step("queued", "pause", verb, paused=True, execution_mode="interactive"),
        ]  # fmt: skip

    assert slipped(raw, attacks) == []


def test_a_transition_writes_only_what_it_assigns(raw: Raw) -> None:
    """Each transition from each source, with each column that it does not assign: refused."""
    before = raw.content()
    tried: set[str] = set()
    let_in: list[tuple[str, str]] = []
    with raw.connection() as connection:
        for transition in RUN_LAUNCH.transitions:
            assigned = {a.column.name for a in transition.assign}
            others = [n for n in RUN_LAUNCH.fields if n not in ENGINE_FIELDS and n not in assigned]
            for source in transition.source:
                values = _written(raw.row("runs", "run_id", source), transition)
                write = update if transition.quiet else _step(transition.name)
                if _tried(connection, write(source, **values)) is not None:
                    continue  # an invariant bars this row; another source shows the rule
                tried.add(transition.name)
                for name in others:
                    if name == RUN_LAUNCH.state.name and not transition.quiet:
                        continue
                    sql = write(source, **values, **{name: _other(name)})
                    said = _tried(connection, sql) or "not refused"
                    if not re.search(
                        "not for this transition|no declared transition|only cleared|once|uniq",
                        said,
                    ):
                        let_in.append((sql, said))

    assert tried == {transition.name for transition in RUN_LAUNCH.transitions}
    assert let_in == []
    assert raw.content() == before


_REFUSED = re.compile("not for this transition|no declared transition|only cleared|once|unique")


def _step(transition: str) -> Callable[..., str]:
    return lambda key, **values: step(key, transition, **values)


def _written(row: dict[str, Any], transition: Transition) -> dict[str, object]:
    """Return what a transition writes of a row, its guards aside."""
    params = {p.name: examples(p.kind)[0] for p in transition.params}
    params["outcome"] = "failed"
    written = {a.column.name: effect(a)(row, params, NOW) for a in transition.assign}
    for name, value in written.items():
        if value is not None and RUN_LAUNCH.fields[name].kind == Boolean():
            written[name] = bool(value)
    if transition.dest is not None:
        written["status"] = transition.dest
    return dict(written)


def _tried(connection: Any, sql: str) -> str | None:
    """Run a statement in a transaction that is rolled back; return what was said against it."""
    connection.execute("BEGIN")
    try:
        connection.execute(sql)
    except (sqlite3.Error, psycopg.Error) as error:
        return str(error)
    finally:
        connection.execute("ROLLBACK")
    return None


def _other(name: str) -> SQL:
    """Return a value of the column's type that the row does not have."""
    match RUN_LAUNCH.fields[name].kind:
        case Boolean():
            return SQL(f"NOT {name}")
        case Instant() | Integer():
            return SQL(f"coalesce({name}, 0) + 1")
        case _:
            return SQL(f"coalesce({name}, '') || 'x'")


def test_an_update_that_does_not_raise_the_revision_is_refused(raw: Raw) -> None:
    """By one, never by none, never by two, never back."""
    attacks = []
    for verb in verbs(raw.capabilities):
        attacks += [
            update("queued", verb, paused=True),
            update("queued", verb, paused=True, last_transition="pause"),
            update("queued", verb, paused=True, last_transition="pause", revision=SQL("revision")),
            *(
                update("running", verb, last_transition="pause", paused=True, revision=SQL(raised))
                for raised in ("revision + 2", "revision - 1", "1", "0", "revision + 1000000")
            ),
            update("queued", verb, revision=SQL("revision + 1")),
            update("queued", verb, updated_at=SQL("updated_at + 1")),
            update("queued", verb, last_actor="somebody else"),
            update("queued", verb, last_call="another call"),
            update("parked", verb, waiting=False),
            update("running", verb, lease_holder="thief"),
            update("running", verb, lease_token_hash="f" * 64),
            update("running", verb, lease_generation=SQL("lease_generation + 1")),
            update("starting", verb, attempts=0),
            update("failed", verb, error_message="a nicer one"),
            step("queued", "pause", verb, paused=True, updated_at=SQL("updated_at - 1")),
        ]

    assert slipped(raw, attacks) == []


def test_a_quiet_change_may_move_the_lease_alone(raw: Raw) -> None:
    """Renewal raises no revision; under its cover nothing else is written, and no lease is made."""
    attacks = [
        update("running", lease_expires_at=SQL("lease_expires_at + 1"), paused=True),
        update("running", lease_expires_at=SQL("lease_expires_at + 1"), updated_at=NOW + 1),
        update("running", lease_expires_at=SQL("lease_expires_at + 1"), attempts=0),
        update("running", lease_expires_at=None),
        update("parked", lease_expires_at=NOW + 1),
        update("done", lease_heartbeat_at=NOW),
        update("running", lease_expires_at=-1),
        update("running", lease_expires_at=SQL("lease_acquired_at")),
    ]

    assert slipped(raw, attacks) == []


def test_a_step_that_breaks_an_invariant_is_refused(raw: Raw) -> None:
    """A declared edge, but half of what belongs to it."""
    attacks = [
        step("running", "park", status="parked", waiting=True, lease_holder=None),
        step("running", "finish", status="done", outcome="completed", finished_at=NOW),
        step("running", "finish", status="done", outcome="cancelled", **end()),
        step("running", "finish", status="done", **end()),
        step("starting", "fail", status="failed", outcome="completed", **end()
             | {"error_code": "code", "error_message": "message"}),
        step("starting", "fail", status="failed", outcome="failed", **end()),
        step("running", "finish", status="done", outcome="completed", **end()
             | {"finished_at": None}),
        step("queued", "cancel", status="cancelled", outcome="cancelled", finished_at=NOW),
        step("parked", "claim", status="starting"),
        step("parked", "claim", status="starting", **take()),
        step("starting", "requeue", status="queued", lease_token_hash=None),
        step("elsewhere", "claim", status="starting", waiting=True, **take()),
    ]  # fmt: skip

    assert slipped(raw, attacks) == []


def test_after_every_attack_the_store_works_on(raw: Raw) -> None:
    """What was refused left nothing behind that stands in the way."""
    for sql in (
        insert("runs", {"run_id": "queued"} | new(raw, "queued")),
        update("queued", status="done"),
        "DELETE FROM runs",
        "DELETE FROM sqlatch_history",
    ):
        assert raw.refusal(sql) is not None

    claim = raw.store.runs.claim_next("runner", LEASE)

    assert isinstance(claim, Claim)
    assert raw.store.runs.mark_running(claim)
    assert raw.store.runs.finish(claim)
