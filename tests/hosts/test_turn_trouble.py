"""Obligations when the store is out of reach, and what may be told of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from persistence import ManualClock, open_store
from persistence.hosts.successor_turns import SuccessorTurns
from persistence.hosts.turn_events import End, WorkflowTurn
from statemachine import Actor, TurnCause, TurnStatus
from statemachine.errors import StoreUnavailable
from tests.hosts.policy_host import MINUTE, SESSION, Host


@pytest.fixture
def host(clock: ManualClock) -> Any:
    """A host on an empty store in memory."""
    with open_store(":memory:", clock=clock) as store:
        yield Host(store)


def test_a_store_failure_does_not_delay_the_abort(host: Host) -> None:
    """It is retried at the end, with the same ids."""
    claim, turn = host.start()
    host.intents.failing = ["intent_find_pending"]

    intent_id = host.successors.before_abort(turn, TurnCause.AGENT_CANCELLED, node_id="plan")
    before = host.store.intents.list()
    host.endings.end(claim, turn, End.CANCELLED)

    assert before == []
    assert (host.only().intent_id, host.only().status) == (intent_id, TurnStatus.ELIGIBLE)
    assert host.warnings == []


def test_a_store_failure_at_the_end_too_is_reported(host: Host) -> None:
    """The run ends all the same, and the host is told that no successor turn is guaranteed."""
    claim, turn = host.start()
    host.intents.failing = ["intent_find_pending"] * 3

    host.successors.before_abort(turn, TurnCause.AGENT_CANCELLED)
    ended = host.endings.end(claim, turn, End.CANCELLED)

    assert ended
    assert host.store.intents.list() == []
    assert host.warnings == [
        (
            "Workflow autoimplement ended (run run), but no successor turn is guaranteed: injected"
            " intent_find_pending failure"
        )
    ]


def test_a_lost_claim_that_could_not_be_stored_is_stored_at_the_end(
    host: Host, clock: ManualClock
) -> None:
    """Pending, for the new holder to settle."""
    claim, turn = host.start()
    clock.advance(MINUTE)
    host.take_over()
    host.intents.failing = ["intent_find_pending"]

    host.successors.before_abort(turn, TurnCause.CLAIM_LOST)
    assert not host.endings.end(claim, turn, End.CANCELLED)
    host.successors.ended(turn, End.CANCELLED)

    assert host.only().status is TurnStatus.PENDING


def test_without_a_store_nothing_is_raised() -> None:
    """An abort goes on without one, and the end warns."""
    warnings: list[str] = []
    successors = SuccessorTurns(lambda: None, warnings.append)
    turn = WorkflowTurn(run_id="run", workflow="w", session_id=SESSION)

    successors.before_abort(turn, TurnCause.TIMED_OUT)
    successors.ended(turn, End.TIMED_OUT)

    assert warnings == [
        "Workflow w ended (run run), but no successor turn is guaranteed: there is no store"
    ]


def test_the_reason_is_redacted(host: Host) -> None:
    """No secret survives in row, message or log."""
    claim, turn = host.start()

    host.successors.before_abort(turn, TurnCause.TIMED_OUT, reason="api_key: hunter2\nfailed")
    host.endings.end(claim, turn, End.FAILED, reason="Bearer hunter2 was refused")

    rows = f"{attributes(host.only())} {attributes(host.store.runs.get('run'))}"
    assert "hunter2" not in rows
    assert "hunter2" not in host.fall_back()[0]


def test_what_a_user_called_off_stays_quiet_for_other_hosts_too(
    host: Host, clock: ManualClock
) -> None:
    """The run's history tells who called it off, also after a crash of the host."""
    _, turn = host.start()
    host.successors.before_abort(turn, TurnCause.CLAIM_LOST)
    host.store.runs.cancel("run", actor=Actor("user", SESSION))
    clock.advance(MINUTE)
    host.store.runs.reap_due()

    made = Host(host.store, "other").successors.reconcile(host.store.runs, SESSION)

    assert (made, host.only().status) == (0, TurnStatus.PENDING)


def attributes(record: object) -> str:
    """Return all that a record holds."""
    return str({name: getattr(record, name) for name in record.__class__.__annotations__})


def test_a_forgotten_abort_is_told(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be stored is kept within bounds; what is dropped is reported."""
    monkeypatch.setattr("persistence.hosts.successor_turns.MAX_KEPT", 1)
    unreachable: Callable[[], Any] = raising
    successors = SuccessorTurns(unreachable, host.warnings.append)

    for run_id in ("one", "two"):
        turn = WorkflowTurn(run_id=run_id, workflow="w", session_id=SESSION)
        successors.before_abort(turn, TurnCause.TIMED_OUT)

    assert host.warnings == ["Too many aborted runs: no successor turn is guaranteed for one"]


def raising() -> Any:
    """Be out of reach."""
    raise StoreUnavailable("gone")
