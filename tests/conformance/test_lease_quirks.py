"""Weaknesses of the recorded leases, by their ids, with our answers."""

from __future__ import annotations

from typing import Any

import pytest

from persistence import CancelRequested, Claim, ManualClock, Store
from statemachine import InvalidArgument, RunStatus
from tests.cases.launches import LEASE, MILLISECOND, queue, start, stored, take
from tests.conformance.quirks import DAY, refused
from tests.conftest import START
from tests.raw import Raw


def test_an_expired_holder_closes_only_what_nobody_took(store: Store, clock: ManualClock) -> None:
    """expired-holder-writes: nothing begins on an expired lease; a late end counts until taken."""
    for run_id in ("a", "b", "c", "d", "e", "f"):
        queue(store, run_id)
    claims = {run_id: take(store, run_id) for run_id in ("a", "b", "c", "d", "e")}
    lost = start(store, "f")
    clock.advance(DAY)
    taken = store.runs.claim("f", runner_id="other", lease=LEASE)
    error: dict[str, Any] = {"error_code": "lost", "error_message": "gone"}

    assert refused(store.runs.mark_running(claims["a"])).guard == "live"
    assert not store.runs.renew(claims["a"], lease=LEASE)
    assert not store.runs.verify(claims["a"])
    assert store.runs.park(claims["b"])
    assert store.runs.finish(claims["c"])
    assert store.runs.fail(claims["d"], **error)
    assert store.runs.abort(claims["e"])

    assert isinstance(taken, Claim)
    late = [
        store.runs.park(lost),
        store.runs.finish(lost),
        store.runs.fail(lost, **error),
        store.runs.abort(lost),
    ]
    told = {
        (refusal.lost.presented, refusal.lost.present, refusal.lost.holder)
        for refusal in map(refused, late)
        if refusal.lost
    }
    assert told == {(1, 2, "other")}
    assert stored(store, "f") == taken.run


def test_an_expired_lease_does_not_begin_to_run(store: Store, clock: ManualClock) -> None:
    """mark_running-revives-nothing: it is refused, and whoever claims the run by id has it."""
    queue(store)
    late = take(store)
    clock.advance(DAY)

    assert refused(store.runs.mark_running(late)).state == "starting"
    assert store.runs.mark_running(take(store, by="other"))
    clock.advance(DAY)
    assert take(store, by="third").run.status is RunStatus.STARTING


def test_nobody_ends_a_run_that_another_holds(store: Store) -> None:
    """unfenced-terminal: no token is no holder's token; only the cancellation can be asked for."""
    queue(store)
    held = start(store)
    error: dict[str, Any] = {"error_code": "lost", "error_message": "gone"}

    assert refused(store.runs.reject("r", **error)).guard == "free"
    assert isinstance(store.runs.cancel("r"), CancelRequested)
    with pytest.raises(InvalidArgument, match="claim must be a Claim"):
        store.runs.fail(None, **error)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(InvalidArgument, match="token must be 32 bytes"):
        store.runs.fail(Claim(held.run, None), **error)  # type: ignore[arg-type]  # wrong on purpose
    assert stored(store).status is RunStatus.RUNNING


def test_no_reader_learns_a_token(store: Store, raw: Raw) -> None:
    """claim-token-in-clear: nothing stored is a token, and what is stored opens nothing."""
    queue(store, session="s")
    token = bytes(range(32))
    claim = store.runs.claim("r", runner_id="w", lease=LEASE, token=token)
    assert isinstance(claim, Claim)
    (read,) = store.runs.list()
    assert read.lease_token_hash is not None
    thief = Claim(read, bytes.fromhex(read.lease_token_hash))

    assert refused(store.runs.finish(thief)).guard == "held"
    assert not store.runs.verify(thief)
    assert token.hex() not in repr((claim, read, store.events_after()))
    assert token not in raw.content()
    assert token.hex().encode() not in raw.content()


def test_a_token_used_again_revives_nobody(store: Store, clock: ManualClock) -> None:
    """token-aba: the generation must fit too."""
    queue(store)
    token = bytes(32)
    claims = []
    for runner, given in (("first", token), ("second", None), ("third", token)):
        claim = store.runs.claim("r", runner_id=runner, lease=LEASE, token=given)
        assert isinstance(claim, Claim)
        claims.append(claim)
        clock.advance(LEASE)
    clock.advance(-MILLISECOND)
    first, _, third = claims
    lost = refused(store.runs.finish(first)).lost

    assert not store.runs.verify(first)
    assert lost is not None
    assert (lost.presented, lost.present, lost.holder) == (1, 3, "third")
    assert store.runs.verify(third)


def test_renewal_never_shortens(store: Store) -> None:
    """renew-can-shorten: a renewal that would end earlier leaves the end where it is."""
    queue(store)
    claim = take(store, lease=DAY)

    renewed = store.runs.renew(claim, lease=MILLISECOND)

    assert isinstance(renewed, Claim)
    assert renewed.expires_at == claim.expires_at == START + DAY
