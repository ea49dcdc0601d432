"""A session has one reservation at a time; and a claim's clear token is nowhere but in memory."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from persistence import Claim, ManualClock, Store
from persistence.backends.sqlite import path_of
from persistence.cli.printing import run_members
from statemachine import Reason, Refused, SqlatchError
from statemachine.errors import InvalidArgument
from tests.cases.launches import LEASE, forged, queue, start, take
from tests.conftest import Capabilities
from tests.raw import Raw

MINUTE = timedelta(minutes=1)
TOKEN = b"clear token, to be seen nowhere!"


def aside(store: Store, run_id: str, session: str) -> None:
    """Lay a session's run aside."""
    queue(store, run_id, session=session)
    assert store.runs.park(take(store, run_id))


def test_a_parked_run_behind_a_reservation_does_not_hold_up_a_host(
    store: Store, clock: ManualClock
) -> None:
    """The claim by id is refused for the reservation's sake, and `claim_next` serves the next."""
    aside(store, "parked", "session")
    clock.advance(MINUTE)
    reserved = queue(store, "reserved", session="session")
    queue(store, "next")
    before = store.runs.get("parked")

    refused = store.runs.claim("parked", runner_id="host", lease=LEASE)
    served = store.runs.claim_next("host", LEASE)
    then = store.runs.claim_next("host", LEASE)

    assert isinstance(refused, Refused)
    assert (refused.reason, refused.blocker) == (Reason.UNIQUE, reserved)
    assert isinstance(served, Claim)
    assert served.run_id == "next"
    assert then == Refused(transition="claim_next_host", reason=Reason.NOTHING)
    assert store.runs.get("parked") == before


def test_a_session_is_served_its_reservation_before_what_it_laid_aside(
    store: Store, clock: ManualClock
) -> None:
    """While the reservation lives, the session's older, parked run waits behind it."""
    aside(store, "parked", "session")
    clock.advance(MINUTE)
    queue(store, "reserved", session="session")

    served = store.runs.claim_next("me", LEASE, session_id="session")
    meanwhile = store.runs.claim_next("me", LEASE, session_id="session")

    assert isinstance(served, Claim)
    assert served.run_id == "reserved"
    assert meanwhile == Refused(transition="claim_next_session", reason=Reason.NOTHING)
    assert store.runs.finish(served)
    freed = store.runs.claim_next("me", LEASE, session_id="session")
    assert isinstance(freed, Claim)
    assert freed.run_id == "parked"


def test_many_sessions_behind_their_reservations_hold_up_nobody(
    store: Store, clock: ManualClock
) -> None:
    """More of them than a call makes attempts, all older than the run that is served."""
    for number in range(12):
        aside(store, f"parked-{number:02}", f"session-{number}")
    clock.advance(MINUTE)
    for number in range(12):
        queue(store, f"reserved-{number:02}", session=f"session-{number}")
    queue(store, "next")

    served = store.runs.claim_next("host", LEASE)

    assert isinstance(served, Claim)
    assert served.run_id == "next"
    assert store.runs.claim_many("host", LEASE, limit=100) == []


def test_each_reservation_of_a_session_is_found(store: Store, clock: ManualClock) -> None:
    """Queued, starting, running; not parked, not ended, not another session's, not headless."""
    runs = store.runs
    queue(store, "other", session="other session")
    runs.reserve(
        run_id="headless",
        workflow="demo",
        source_ref="demo.py",
        source=None,
        definition_digest="d",
        execution_mode="headless",
        origin_session_id="session",
    )
    assert runs.find_reservation("session") is None

    seen = []
    queue(store, "r", session="session")
    seen.append(runs.find_reservation("session"))
    claim = take(store)
    seen.append(runs.find_reservation("session"))
    assert runs.mark_running(claim)
    seen.append(runs.find_reservation("session"))
    clock.advance(LEASE)
    seen.append(runs.find_reservation("session"))
    assert runs.park(claim)

    assert [run.run_id if run else None for run in seen] == ["r"] * 4
    assert runs.find_reservation("session") is None


def spoken(token: bytes) -> Iterator[bytes]:
    """Yield the ways in which a token might be spelled."""
    yield token
    yield token.hex().encode()
    yield token.hex().upper().encode()
    yield base64.b64encode(token).rstrip(b"=")
    yield base64.urlsafe_b64encode(token).rstrip(b"=")
    yield repr(token)[2:-1].encode()


def everything(store: Store, clock: ManualClock) -> list[object]:
    """Let a token go through every call that takes one; answer what the calls answered."""
    runs = store.runs
    said: list[object] = []
    again = Claim

    def keep(answer: object) -> Claim:
        said.append(answer)
        assert isinstance(answer, again)
        return answer

    queue(store, "r", session="session")
    claim = keep(runs.claim("r", runner_id="w", lease=LEASE, token=TOKEN, call="a claim"))
    keep(runs.claim("r", runner_id="w", lease=LEASE, token=TOKEN, call="a claim"))
    said += [runs.mark_running(claim), runs.renew(claim, lease=MINUTE), runs.verify(claim)]
    said.append(runs.park_source_changed(claim, error_message="other"))
    said.append(runs.park(claim))
    binding = {
        "workflow": "demo",
        "source_ref": "demo.py",
        "definition_digest": "sha256:1",
        "expected_source_ref": "demo.py",
        "runner_id": "w",
    }
    held = runs.rebind("r", source=None, lease=LEASE, token=TOKEN, **binding)  # type: ignore[arg-type]  # texts for arguments that take texts
    held = keep(held)
    keep(runs.rebind_held(held, source=1, lease=LEASE, **binding))  # type: ignore[arg-type]  # the same
    said.append(runs.park_effect_ambiguous(held, error_message="unknown"))
    control = keep(runs.claim_for_control("r", holder="c", lease=LEASE, token=TOKEN))
    said.append(runs.release_control(control))
    said.append(runs.abort(control))
    queue(store, "next")
    claim = keep(runs.claim_next("w", LEASE, token=TOKEN))
    clock.advance(LEASE)
    start(store, "next")
    said += [runs.finish(claim), runs.fail(claim, error_code="c", error_message="m")]
    birth = {"run_id": "born", "workflow": "w", "source_ref": "r", "runner_id": "w"}
    keep(runs.enqueue(lease=LEASE, token=TOKEN, **birth))  # type: ignore[arg-type]  # the same
    said.append(runs.enqueue(lease=LEASE, **birth))  # type: ignore[arg-type]  # the same
    for wrong in (TOKEN[1:], TOKEN + b"x", TOKEN.decode()):
        with pytest.raises(SqlatchError) as error:
            runs.claim("next", runner_id="w", lease=LEASE, token=wrong)  # type: ignore[arg-type]  # wrong on purpose
        said += [error.value, error.value.__cause__]
    return said


def test_clear_tokens_are_nowhere_but_in_memory(
    store: Store,
    database: str,
    capabilities: Capabilities,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not in the file, its write-ahead log, the events, the logs, or what anything shows."""
    caplog.set_level(logging.DEBUG)

    said = everything(store, clock)

    shown = [f"{answer!r} {answer}".encode() for answer in said]
    shown += [repr(store).encode(), repr(store.runs.list()).encode(), caplog.text.encode()]
    shown += [repr(store.events_after()).encode(), Raw(store, database, capabilities).content()]
    shown += [json.dumps(run_members(a.run)).encode() for a in said if isinstance(a, Claim)]
    if capabilities.reopens and not capabilities.server_clock:
        file = Path(path_of(database))
        files = sorted(file.parent.glob(f"{file.name}*"))
        assert [found.suffix for found in files] == [".db", ".db-shm", ".db-wal"]
        shown += [found.read_bytes() for found in files]
    found = [(word, text[:200]) for word in spoken(TOKEN) for text in shown if word in text]

    assert found == []
    assert said[0].token == TOKEN if isinstance(said[0], Claim) else False


def test_private_values_are_in_no_event_and_no_repr(store: Store) -> None:
    """Input and options are for the runner; history and what is printed never show them."""
    run = store.runs.reserve(
        run_id="r",
        workflow="demo",
        source_ref="demo.py",
        source=None,
        definition_digest="d",
        input={"password": "the input"},
        launch_options={"env": "the options"},
    )
    claim = start(store)
    assert store.runs.finish(claim)
    refused = store.runs.finish(forged(run))

    text = repr([run, claim, refused, store.runs.history("r"), store.events_after().events])

    assert "the input" not in text
    assert "the options" not in text
    assert run.input == {"password": "the input"}


def test_a_run_is_not_taken_before_it_is_available_even_when_left_behind(
    store: Store, clock: ManualClock
) -> None:
    """`claim_next` waits for `available_at`, also of a run whose early claim ran out."""
    later = clock.now() + timedelta(minutes=5)
    store.runs.reserve(
        run_id="early",
        workflow="w",
        source_ref="r",
        source={},
        definition_digest="d",
        available_at=later,
    )
    assert store.runs.claim("early", runner_id="dead", lease=timedelta(seconds=1))
    clock.advance(timedelta(minutes=4))

    before = store.runs.claim_next("a", timedelta(seconds=30))
    clock.advance(timedelta(minutes=1))
    after = store.runs.claim_next("a", timedelta(seconds=30))

    assert isinstance(before, Refused)
    assert before.reason is Reason.NOTHING
    assert isinstance(after, Claim)


@pytest.mark.parametrize("run", [None, "r", object()], ids=["none", "text", "object"])
def test_a_claim_that_was_made_by_hand_of_no_run_is_refused(store: Store, run: Any) -> None:
    """By our own error, whichever call it is presented to."""
    claim = Claim(run, TOKEN)
    for call in (store.runs.mark_running, store.runs.finish, store.runs.abort):
        with pytest.raises(InvalidArgument, match="claim"):
            call(claim)
