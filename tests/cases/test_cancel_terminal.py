"""Cases of the kind cancel-terminal. CAN-01 stands in tests/test_contention.py.

CAN-02 (a), the worker that ends a run as cancelled, stands in tests/hosts/test_worker.py too.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from persistence import AlreadyFinal, Cancelled, CancelRequested, Claim, ManualClock, Store
from statemachine import RUN_LAUNCH, Reason, Refused, Run
from tests.cases.launches import LEASE, queue, start, steps, stored, take


def _asked_to_end(store: Store) -> Claim:
    queue(store, max_attempts=5)
    claim = start(store)
    assert isinstance(store.runs.cancel("r"), CancelRequested)
    renewed = store.runs.renew(claim, lease=LEASE)
    assert isinstance(renewed, Claim)
    assert renewed.run.cancel_requested_at is not None
    return renewed


def test_can_02_aborted_by_its_holder(store: Store) -> None:
    """CAN-02 (a): its holder ends a run that was to be cancelled by `abort`, whatever went on."""
    claim = _asked_to_end(store)

    ended = store.runs.abort(claim)

    assert isinstance(ended, Run)
    assert (ended.status, ended.outcome) == ("cancelled", "cancelled")
    assert isinstance(store.runs.claim("r", runner_id="w", lease=LEASE), Refused)


def test_can_02_failed_by_its_holder(store: Store) -> None:
    """CAN-02 (a): nor is a failure tried again; the request stays on record."""
    claim = _asked_to_end(store)

    ended = store.runs.fail(claim, error_code="e", error_message="m")

    assert isinstance(ended, Run)
    assert (ended.status, ended.cancel_requested_at is None) == ("failed", False)
    assert isinstance(store.runs.claim_next("w", LEASE), Refused)


def test_can_02_finished_all_the_same(store: Store) -> None:
    """CAN-02 (b): work that was done is done; the request stays on record."""
    claim = _asked_to_end(store)

    ended = store.runs.finish(claim, result=1)

    assert isinstance(ended, Run)
    assert (ended.status, ended.cancel_requested_at is None) == ("done", False)


def test_can_02_not_parked_again(store: Store) -> None:
    """CAN-02 (c): a run that was to be cancelled is not parked; its holder aborts it."""
    claim = _asked_to_end(store)

    refused = [
        store.runs.park(claim),
        store.runs.park_source_changed(claim, error_message="m"),
        store.runs.park_effect_ambiguous(claim, error_message="m"),
    ]

    assert [o.guard for o in refused if isinstance(o, Refused)] == ["no cancellation requested"] * 3
    assert stored(store).status == "running"
    assert store.runs.abort(claim)
    assert stored(store).status == "cancelled"


def test_can_02_swept(store: Store, clock: ManualClock) -> None:
    """CAN-02 (d): when its holder dies, the sweep cancels it; nobody takes it up."""
    _asked_to_end(store)
    clock.advance(LEASE)

    assert isinstance(store.runs.claim_next("w", LEASE), Refused)
    assert isinstance(store.runs.claim("r", runner_id="w", lease=LEASE), Refused)
    assert [(r.run_id, r.status) for r in store.runs.reap_due()] == [("r", "cancelled")]
    assert steps(store)[-2:] == ["request_cancel", "reap_cancelled"]


@pytest.mark.parametrize("state", ["done", "failed", "cancelled"])
def test_can_04_cancel_of_a_final_run(store: Store, clock: ManualClock, state: str) -> None:
    """CAN-04: a run that has ended stays as it is; the answer says how it ended."""
    queue(store)
    claim = start(store)
    match state:
        case "done":
            store.runs.finish(claim)
        case "failed":
            store.runs.fail(claim, error_code="e", error_message="m")
        case _:
            store.runs.abort(claim)
    final, history = stored(store), store.runs.history("r")
    clock.advance(LEASE)

    answers = [store.runs.cancel("r"), store.runs.cancel("r")]

    assert answers == [AlreadyFinal(final), AlreadyFinal(final)]
    assert str(answers[0]) == f"r is already {state}"
    assert stored(store) == final
    assert store.runs.history("r") == history


# CAN-05: one recipe per declared way out; a new way without a recipe fails the test below.


def _reach(store: Store, state: str, *, held: bool) -> Claim | None:
    """Bring an interactive run of one attempt to a state; held where it can be held or not."""
    queue(store, session="s", max_attempts=1)
    if state == "queued":
        return _controlled(store) if held else None
    claim = take(store)
    if state == "starting":
        return claim
    assert store.runs.mark_running(claim)
    if state == "running":
        return claim
    assert store.runs.park(claim)
    return _controlled(store) if held else None


def _controlled(store: Store) -> Claim:
    claim = store.runs.claim_for_control("r", holder="c", lease=LEASE)
    assert isinstance(claim, Claim)
    return claim


def _asked(store: Store) -> None:
    assert isinstance(store.runs.request_cancel("r"), Run)


def _by_holder(call: Callable[[Store, Claim], Run | Refused]) -> Callable[..., object]:
    def end(store: Store, clock: ManualClock, state: str) -> object:
        del clock
        claim = _reach(store, state, held=True)
        assert claim is not None
        return call(store, claim)

    return end


def _by_anybody(
    call: Callable[[Store], Run | Refused], *, asked: bool = False
) -> Callable[..., object]:
    def end(store: Store, clock: ManualClock, state: str) -> object:
        _reach(store, state, held=asked)
        if asked:
            _asked(store)
        clock.advance(LEASE)
        return call(store)

    return end


def _called_off(store: Store, clock: ManualClock, state: str) -> object:
    del clock
    _reach(store, state, held=False)
    answer = store.runs.cancel("r")
    return answer.run if isinstance(answer, Cancelled) else answer


ENDINGS: dict[str, Callable[[Store, ManualClock, str], object]] = {
    "finish": _by_holder(lambda store, claim: store.runs.finish(claim)),
    "fail": _by_holder(
        lambda store, claim: store.runs.fail(claim, error_code="e", error_message="m")
    ),
    "abort": _by_holder(lambda store, claim: store.runs.abort(claim)),
    "reject": _by_anybody(lambda store: store.runs.reject("r", error_code="e", error_message="m")),
    "cancel": _called_off,
    "cancel_stale": _by_anybody(lambda store: store.runs.cancel_stale("r")),
    "reap": _by_anybody(lambda store: store.runs.reap("r")),
    "reap_cancelled": _by_anybody(lambda store: store.runs.reap_cancelled("r"), asked=True),
}

WAYS = [
    (t.name, source)
    for t in RUN_LAUNCH.transitions
    if t.dest in RUN_LAUNCH.final
    for source in t.source
]


@pytest.mark.parametrize(("transition", "source"), WAYS, ids="-".join)
def test_can_05_each_way_out(
    store: Store, clock: ManualClock, transition: str, source: str
) -> None:
    """CAN-05: by whichever declared way a run ends, it ends once and lets go of everything."""
    ended = ENDINGS[transition](store, clock, source)

    assert isinstance(ended, Run), ended
    assert ended.status == RUN_LAUNCH.transition(transition).dest
    assert ended.finished_at == clock.now() == ended.updated_at
    assert (ended.lease_holder, ended.lease_token_hash, ended.lease_expires_at) == (None,) * 3
    assert (ended.input, ended.launch_options) == (None, {})
    assert store.runs.find_reservation("s") is None
    history = store.runs.history("r")
    assert [e.transition for e in history if e.dest in RUN_LAUNCH.final] == [transition]
    assert history[-1].source == source
    clock.advance(LEASE)
    assert store.runs.reap_due() == []
    assert isinstance(store.runs.cancel("r"), AlreadyFinal)
    assert stored(store) == ended


def _delete(store: Store, run_id: str) -> None:
    """Delete a run as an operator would who has retention's leave."""
    statements = (
        "INSERT INTO sqlatch_permit (machine) VALUES ('run_launch')",
        f"DELETE FROM runs WHERE run_id = '{run_id}'",
        f"DELETE FROM sqlatch_history WHERE machine = 'run_launch' AND key = '{run_id}'",
        "DELETE FROM sqlatch_permit",
    )
    with store.engine.backend.session() as session, session.transaction():
        session.script(statements)


def test_can_06_row_is_gone(store: Store) -> None:
    """CAN-06: who works on a run that was deleted is told so, and leaves no trace of it."""
    queue(store)
    claim = start(store)
    _delete(store, "r")

    outcomes = [
        store.runs.renew(claim, lease=LEASE),
        store.runs.finish(claim),
        store.runs.cancel("r"),
        store.runs.append_event("r", type="late"),
    ]

    assert [o.reason for o in outcomes if isinstance(o, Refused)] == [Reason.MISSING] * 4
    assert not store.runs.verify(claim)
    assert store.runs.history("r") == []
    assert store.events_after().events == ()
