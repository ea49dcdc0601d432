"""Launches that fail, and launches that are found again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from persistence import ManualClock, Store, open_store
from persistence.hosts.launch_terms import (
    Begun,
    Closed,
    HasEnded,
    LaidAside,
    LaunchFailed,
    Started,
    Waits,
)
from persistence.stores.turn_facts import facts_of
from statemachine import Run, RunStatus, TurnCause, TurnStatus
from statemachine.errors import StoreUnavailable
from tests.hosts.test_safe_error import spelled
from tests.hosts.workshop import LEASE, SESSION, Workshop


@pytest.fixture
def memory(clock: ManualClock) -> Iterator[Store]:
    """An empty store in memory."""
    with open_store(":memory:", clock=clock) as store:
        yield store


@pytest.fixture
def host(memory: Store) -> Workshop:
    """A session's host on it."""
    return Workshop(memory)


def status(host: Workshop, run_id: str) -> RunStatus:
    """Return how a run stands."""
    run = host.store.runs.get(run_id)
    assert run is not None

    return run.status


def test_a_failure_is_durable_before_anything_is_sent(host: Workshop) -> None:
    """And the reservation is free before the message, so that a corrected launch works."""
    host.launches.prepare("build", run_id="r1")
    host.trouble["build"] = ValueError("scope must be a non-empty string")
    seen: list[Any] = []

    def look() -> None:
        run = host.store.runs.get("r1")
        assert isinstance(run, Run)
        seen.extend([run.status, host.store.runs.find_reservation(SESSION), len(host.branch)])
        del host.trouble["build"]
        host.launches.prepare("build", run_id="r2")

    host.on_deliver = look
    outcome = host.launches.activate("r1")
    corrected = host.launches.activate("r2")

    assert isinstance(outcome, LaunchFailed)
    assert seen == [RunStatus.FAILED, None, 0]
    assert host.branch[0].text == (
        "Workflow build failed to start (run r1). Source: node $launch. Reason: scope must be a"
        " non-empty string. Inspect the durable workflow state before you explain the outcome or"
        " start a corrected workflow."
    )
    assert isinstance(corrected, Started)
    assert host.events("r1") == ["queued", "launch_failed"]


def test_a_failed_launch_owes_an_eligible_turn(host: Workshop) -> None:
    """Its cause is `launchFailed`, its node `$launch`."""
    host.launches.prepare("build", run_id="r1")
    host.trouble |= {"build": RuntimeError("no"), "deliver": OSError("the session is closed")}

    with pytest.raises(OSError, match="closed"):
        host.launches.activate("r1")
    (intent,) = host.store.intents.list()

    assert (intent.status, intent.cause) == (TurnStatus.ELIGIBLE, TurnCause.LAUNCH_FAILED)
    assert (intent.node_id, facts_of(intent.fallback_facts).observed_state) == (
        "$launch",
        "failedToStart",
    )


def test_a_first_step_that_raises_fails_the_run(host: Workshop) -> None:
    """It was reported as started, so this is a failure of the run, and owes a turn at once."""
    host.launches.prepare("build", run_id="r1")
    host.trouble["first step"] = RuntimeError("boom")

    outcome = host.launches.activate("r1")
    (intent,) = host.store.intents.list()

    assert isinstance(outcome, LaunchFailed)
    assert (intent.cause, intent.node_id) == (TurnCause.FAILED, "$terminal")
    assert len(host.branch) == 1


def test_trouble_with_the_intent_does_not_keep_the_launch_from_failing(
    host: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure is stored, and the host is told that no successor turn is guaranteed."""
    host.launches.prepare("build", run_id="r1")
    host.trouble["build"] = RuntimeError("no")

    def unreachable(*_: Any) -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(host.successors, "launch_failed", unreachable)
    outcome = host.launches.activate("r1")

    assert isinstance(outcome, LaunchFailed)
    assert status(host, "r1") is RunStatus.FAILED
    assert [w for w in host.warnings if "no successor turn is guaranteed: gone" in w] != []


# Recovery


def test_recovery_activates_what_is_queued(host: Workshop) -> None:
    """At session start and at each settle."""
    nothing = host.launches.recover()
    host.launches.prepare("build", run_id="r1")

    assert nothing is None
    assert isinstance(host.launches.recover(), Started)


def test_recovery_leaves_a_living_launch_alone(host: Workshop) -> None:
    """Its holder is at work."""
    host.launches.prepare("build", run_id="r1")
    host.launches.activate("r1")

    assert Workshop(host.store, "other").launches.recover() is None


@pytest.mark.parametrize(
    ("existing", "answer", "wanted"),
    [
        (Waits(), LaidAside, RunStatus.PARKED),
        (HasEnded("completed", result={"n": 1}), Closed, RunStatus.DONE),
        (HasEnded("failed", "boom"), Closed, RunStatus.FAILED),
        (HasEnded("timed_out", "too slow"), Closed, RunStatus.FAILED),
        (HasEnded("cancelled"), Closed, RunStatus.CANCELLED),
        (Begun(), Started, RunStatus.RUNNING),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_recovery_goes_by_what_exists(
    host: Workshop, clock: ManualClock, existing: Any, answer: type, wanted: RunStatus
) -> None:
    """Nothing: begun; running: resumed; waiting: parked; ended: the same end."""
    host.launches.prepare("build", run_id="r1")
    host.launches.activate("r1")
    clock.advance(LEASE)
    other = Workshop(host.store, "other")
    other.progress["r1"] = existing

    outcome = other.launches.recover()

    assert isinstance(outcome, answer)
    assert status(other, "r1") is wanted


def test_recovery_of_a_launch_of_which_nothing_exists(host: Workshop, clock: ManualClock) -> None:
    """Claimed and never begun: begun by whoever comes."""
    host.launches.prepare("build", run_id="r1")
    host.store.runs.claim("r1", runner_id="gone", lease=LEASE, holder_kind="session")
    clock.advance(LEASE)

    assert isinstance(host.launches.recover(), Started)


# Redaction

VECTORS = json.loads(
    (Path(__file__).parents[1] / "vectors" / "safe_launch_error.json").read_text()
)["vectors"]


SECRET = "correct-horse"
TELLING = [
    f"Authorization: Bearer {SECRET}",
    f"bearer   {SECRET} and more",
    f"token={SECRET}",
    f"TOKEN : {SECRET}, api_key={SECRET}",
    f"api-key: {SECRET}",
    f"the secret={SECRET} was refused",
    f"password: {SECRET}\nnext line",
]


def test_no_secret_survives(memory: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Not in row, event, message or log; and each text is one line, bounded, never empty."""
    host = Workshop(memory)
    given = [spelled(v["input"]) for v in VECTORS if isinstance(v.get("input"), str | dict)]
    errors: list[str] = []
    messages: list[str] = []
    for number, text in enumerate([*TELLING, *given]):
        host.trouble["build"] = RuntimeError(text)
        host.launches.prepare("build", run_id=f"r{number}")
        failed = host.launches.activate(f"r{number}")
        assert isinstance(failed, LaunchFailed)
        errors.append(str(failed.run.error_message))
        messages.append(host.branch[-1].text)

    page = memory.events_after(limit=1_000)
    told = "\n".join([*errors, *messages, caplog.text, *(str(event) for event in page.events)])
    assert len(messages) == len(host.branch)
    assert SECRET not in told
    assert [text for text in [*errors, *messages] if "\n" in text or not text] == []
    assert max(len(text) for text in errors) <= 500
