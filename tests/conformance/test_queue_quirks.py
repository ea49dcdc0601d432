"""Weaknesses of the recorded run queue, by their ids, with our answers."""

from __future__ import annotations

import pytest

from persistence import Cancelled, Claim, ManualClock, Store
from statemachine import Actor, HolderKind, Reason, Run, RunStatus, UniquenessConflict
from tests.cases.launches import LEASE, queue, start, stored, take
from tests.conformance.quirks import DAY, parked, refused
from tests.conftest import START
from tests.raw import Raw


def test_a_blocked_run_does_not_stop_the_queue(store: Store) -> None:
    """claim_next-head-of-line: a run that its session's reservation blocks is passed over."""
    parked(store, "p1", session="s")
    queue(store, "reservation", session="s")
    parked(store, "p2")

    first, second = (store.runs.claim_next("h", LEASE) for _ in range(2))

    assert isinstance(first, Claim)
    assert first.run_id == "p2"
    assert refused(second).reason is Reason.NOTHING
    assert stored(store, "p1").status is RunStatus.PARKED


def test_a_cancelled_continuation_frees_its_parents_slot(store: Store) -> None:
    """cancelled-continuation-keeps-slot: the next may be reserved; where it came from stays."""
    queue(store, "c1", parent="p")
    with pytest.raises(UniquenessConflict, match="one continuation"):
        queue(store, "c2", parent="p")
    assert isinstance(store.runs.cancel("c1"), Cancelled)
    queue(store, "c2", parent="p")
    assert store.runs.reject("c2", error_code="broken", error_message="broken")
    queue(store, "c3", parent="p")

    assert [run.parent_run_id for run in store.runs.list()] == ["p", "p", "p"]


def test_every_documented_end_exists(store: Store) -> None:
    """documented-transitions-missing: running and parked runs can be cancelled and failed."""
    queue(store, "aborted")
    parked(store, "cancelled")
    parked(store, "rejected")
    queue(store, "finished")

    ended = [
        store.runs.abort(start(store, "aborted")),
        store.runs.cancel_stale("cancelled"),
        store.runs.reject("rejected", error_code="broken", error_message="broken"),
        store.runs.finish(take(store, "finished")),
    ]

    statuses = [run.status for run in ended if isinstance(run, Run)]
    assert statuses == ["cancelled", "cancelled", "failed", "done"]


def test_private_input_leaves_no_trace_and_ends_with_the_run(store: Store, raw: Raw) -> None:
    """input-kept-while-running: kept as long as a restart needs it, in one place, never shown."""
    secret = {"secret": "tell-nobody"}
    for run_id in ("done", "failed", "cancelled"):
        store.runs.reserve(
            run_id=run_id,
            workflow="demo",
            source_ref="demo.py",
            source={},
            definition_digest="sha256:0",
            input=secret,
            launch_options=secret,
        )
    claim = start(store, "done")
    assert store.runs.park(claim)

    assert stored(store, "done").input == secret
    assert "tell-nobody" not in repr((stored(store, "done"), claim, store.events_after()))
    assert store.runs.finish(start(store, "done"))
    assert store.runs.fail(take(store, "failed"), error_code="broken", error_message="broken")
    assert store.runs.cancel("cancelled")
    assert b"tell-nobody" not in raw.content()


def test_adoption_is_for_open_runs_of_nobody(store: Store) -> None:
    """origin-session-any-status: a finished run stays as it is; a busy session is named."""
    queue(store, "done")
    store.runs.finish(start(store, "done"))
    busy = queue(store, "busy", session="s")
    queue(store, "active")

    assert refused(store.runs.adopt("done", session_id="s")).reason is Reason.STATE
    conflict = refused(store.runs.adopt("active", session_id="s"))
    assert (conflict.reason, conflict.blocker) == (Reason.UNIQUE, busy)
    assert stored(store, "active").origin_session_id is None


def test_runs_of_one_instant_have_an_order(store: Store) -> None:
    """created_at-ties: lists and the queue go by run id where instants are equal."""
    for run_id in ("zz", "mm", "aa"):
        queue(store, run_id)

    taken = [store.runs.claim_next("h", LEASE) for _ in range(3)]

    assert [run.run_id for run in store.runs.list()] == ["aa", "mm", "zz"]
    assert [claim.run_id for claim in taken if isinstance(claim, Claim)] == ["aa", "mm", "zz"]


def test_only_a_deliberate_claim_crosses_sessions(store: Store) -> None:
    """claim-ignores-session-and-affinity: strangers are served nothing; a claim by id is named."""
    queue(store, session="s1", pinned_to="mine", pinned_until=START + DAY)

    strangers = [
        store.runs.claim_next("stranger", LEASE),
        store.runs.claim_next("stranger", LEASE, session_id="s2"),
        store.runs.claim_next("stranger", LEASE, session_id="s1"),
    ]

    assert [refused(answer).reason for answer in strangers] == [Reason.NOTHING] * 3
    assert take(store, by="stranger").run.lease_holder == "stranger"
    assert store.runs.history("r")[-1].actor == Actor("host", "stranger")


def test_a_dead_sessions_starting_run_is_recovered(store: Store, clock: ManualClock) -> None:
    """detached-never-recovers-bound-starting: whoever is told of it in the way can clear it."""
    queue(store, session="s1")
    dead = store.runs.claim("r", runner_id="w", lease=LEASE, holder_kind=HolderKind.SESSION)
    clock.advance(DAY)
    assert isinstance(dead, Claim)

    assert refused(store.runs.claim_next("h", LEASE)).reason is Reason.NOTHING
    with pytest.raises(UniquenessConflict) as conflict:
        queue(store, "next", session="s1")
    assert conflict.value.blocker == dead.run
    assert store.runs.requeue("r")
    assert isinstance(store.runs.claim_next("w", LEASE, session_id="s1"), Claim)
    clock.advance(DAY)
    assert store.runs.reject("r", error_code="lost", error_message="its session never came back")
    queue(store, "next", session="s1")
    take(store, "next", by="host that dies")
    clock.advance(DAY)
    over = store.runs.claim_next("h", LEASE)
    assert isinstance(over, Claim)
    assert over.run_id == "next"
