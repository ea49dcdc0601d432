"""A session's launches: reserved before the turn ends, activated once, failed durably first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from persistence import Claim, ManualClock, Store, open_store
from persistence.hosts.launch_terms import (
    Begun,
    LaidAside,
    LaunchFailed,
    LaunchRefused,
    NotHere,
    Started,
)
from persistence.hosts.safe_error import SafeCode
from statemachine import RunStatus
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


# Prepare


def test_prepare_answers_queued(host: Workshop) -> None:
    """The reservation has source identity, digest and session, and starts nothing."""
    prepared = host.launches.prepare("build", input={"n": 1}, run_id="r1")

    run = prepared.run
    assert prepared.message == "Workflow build queued (run r1)."
    assert (run.status, run.origin_session_id) == (RunStatus.QUEUED, SESSION)
    assert run.source == {"root": "/workflows/build"}
    assert run.definition_digest.startswith("sha256:")
    assert host.first_steps == []
    assert host.events("r1") == ["queued"]


def test_a_preflight_error_leaves_no_row(host: Workshop) -> None:
    """An unknown workflow is refused with a safe error."""
    with pytest.raises(LaunchRefused) as refused:
        host.launches.prepare("nonsense")

    assert refused.value.error.code is SafeCode.WORKFLOW_NOT_FOUND
    assert host.store.runs.list() == []


def test_a_wrong_input_leaves_no_row(host: Workshop) -> None:
    """Bounds are checked before anything is written."""
    with pytest.raises(LaunchRefused) as refused:
        host.launches.prepare("build", input={"n": float("nan")})

    assert refused.value.error.code is SafeCode.INPUT_INVALID
    assert host.store.runs.list() == []


def test_one_launch_at_a_time(host: Workshop) -> None:
    """A reservation stands in the way, and is named."""
    host.launches.prepare("build", run_id="r1")

    with pytest.raises(LaunchRefused) as refused:
        host.launches.prepare("build", run_id="r2")

    assert str(refused.value) == "Workflow build is already waiting to start (run r1)."
    assert refused.value.in_the_way is not None


def test_a_presentation_stands_in_the_way(host: Workshop) -> None:
    """The result of the run before is presented first."""
    host.is_presenting = True

    with pytest.raises(LaunchRefused, match="still being presented"):
        host.launches.prepare("build")


@pytest.mark.parametrize("outcome", ["completed", "checkpointed", None])
def test_a_parent_has_to_be_done_at_a_checkpoint(host: Workshop, outcome: str | None) -> None:
    """And only then is it carried on."""
    if outcome is not None:
        host.launches.prepare("build", run_id="parent")
        claim = host.store.runs.claim("parent", runner_id="x", lease=LEASE)
        assert isinstance(claim, Claim)
        host.store.runs.finish(claim, outcome=outcome)

    if outcome == "checkpointed":
        assert host.launches.prepare("build", parent_run_id="parent").run.parent_run_id == "parent"
    else:
        with pytest.raises(LaunchRefused, match="did not end at a checkpoint"):
            host.launches.prepare("build", parent_run_id="parent")


# Activate


def test_activate_starts_the_first_step_once_it_is_running(host: Workshop) -> None:
    """Claimed, resolved again, built, marked, begun; in this order."""
    host.launches.prepare("build", run_id="r1")

    started = host.launches.activate("r1")

    assert isinstance(started, Started)
    assert started.claim.run.lease_holder == "host"
    assert status(host, "r1") is RunStatus.RUNNING
    assert host.first_steps == ["began r1"]


def test_repeated_activation_starts_nothing_twice(host: Workshop) -> None:
    """Neither by this process nor by another, nor by this one when its lease ran out."""
    host.launches.prepare("build", run_id="r1")
    other = Workshop(host.store, "other")

    host.launches.activate("r1")
    again, elsewhere = host.launches.activate("r1"), other.launches.activate("r1")

    assert (again, isinstance(elsewhere, NotHere)) == (NotHere(), True)
    assert (host.first_steps, other.first_steps) == (["began r1"], [])


def test_a_lost_claim_does_not_start_a_second_copy_here(host: Workshop, clock: ManualClock) -> None:
    """While the own copy still runs, the run is not started beside it."""
    host.launches.prepare("build", run_id="r1")
    host.launches.activate("r1")
    clock.advance(LEASE)

    before = host.launches.recover()
    host.launches.left("r1")
    host.progress["r1"] = Begun()
    after = host.launches.recover()

    assert before == NotHere()
    assert isinstance(after, Started)
    assert host.first_steps == ["began r1", "resumed r1"]


def test_a_claim_that_is_lost_before_the_first_step_starts_nothing(
    host: Workshop, clock: ManualClock
) -> None:
    """Marking the run as running has to succeed first."""
    host.launches.prepare("build", run_id="r1")
    built = host.build

    def slow(*args: Any, **named: Any) -> Any:
        clock.advance(LEASE)
        return built(*args, **named)

    host.build = slow  # type: ignore[method-assign]  # as slow as the lease is long
    outcome = host.launches.activate("r1")

    assert isinstance(outcome, NotHere)
    assert host.first_steps == []


def test_a_changed_source_is_never_started(host: Workshop) -> None:
    """Changed between reserve and activate: failed with `source_changed`."""
    host.launches.prepare("build", run_id="r1")
    host.definitions["build"] = {"steps": ["something else"]}

    outcome = host.launches.activate("r1")

    assert isinstance(outcome, LaunchFailed)
    assert (outcome.run.status, outcome.run.error_code) == (RunStatus.FAILED, "source_changed")
    assert host.first_steps == []


def test_a_changed_source_of_a_run_that_ran_lays_it_aside(
    host: Workshop, clock: ManualClock
) -> None:
    """Until its source is as it was; nothing that was done is thrown away."""
    host.launches.prepare("build", run_id="r1")
    host.launches.activate("r1")
    clock.advance(LEASE)
    other = Workshop(host.store, "other")
    other.progress["r1"] = Begun()
    other.definitions["build"] = {"steps": []}

    outcome = other.launches.recover()

    assert isinstance(outcome, LaidAside)
    assert outcome.run.error_code == "workflowSourceChanged"
