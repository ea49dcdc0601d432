"""Delivering turn intents: batches, and what a claim allows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve

from persistence import IntentClaim, ManualClock, Store, open_store
from statemachine import Reason, Refused
from statemachine.errors import InvalidArgument
from tests.stores.owed import LEASE, SESSION, facts, owe, taken


@pytest.fixture
def memory(clock: ManualClock) -> Iterator[Store]:
    """An empty store in memory."""
    with open_store(":memory:", clock=clock) as store:
        yield store


def eligible(store: Store, clock: ManualClock, *names: str) -> None:
    """Oblige to turns that are eligible, a second apart."""
    for name in names:
        owe(store, name, run_id=f"run-{name}", eligible=True)
        clock.advance(timedelta(seconds=1))


def test_a_batch_is_the_oldest_first(store: Store, clock: ManualClock) -> None:
    """Eligible, due, free, of this session; at most as many as asked for; ties by id."""
    eligible(store, clock, "c", "b")
    for name in ("z", "y"):
        owe(store, name, run_id=f"run-{name}", eligible=True)
    owe(store, "pending", run_id="run-p")
    owe(store, "other", run_id="run-o", eligible=True, target_session_id="s2")
    taken(store, "b")

    first = store.intents.claim_eligible(SESSION, holder="ann", lease=LEASE, limit=2)
    rest = store.intents.claim_eligible(SESSION, holder="ann", lease=LEASE)

    assert [claim.intent_id for claim in first] == ["c", "y"]
    assert [claim.intent_id for claim in rest] == ["z"]


def test_a_batch_answers_only_what_it_took(store: Store, clock: ManualClock) -> None:
    """Also under a token that other rows carry already."""
    eligible(store, clock, "a", "b")
    token = b"t" * 32
    taken(store, "a", token=token)

    claims = store.intents.claim_eligible(SESSION, holder="ann", lease=LEASE, token=token)

    assert [claim.intent_id for claim in claims] == ["b"]


def test_a_batch_that_is_repeated_takes_nothing_more(store: Store, clock: ManualClock) -> None:
    """The same call id and token answer the same claims; another token gets none of them."""
    eligible(store, clock, "a", "b", "c")
    call: dict[str, Any] = {"holder": "ann", "lease": LEASE, "limit": 2, "call": "batch-1"}
    token = b"t" * 32

    first = store.intents.claim_eligible(SESSION, token=token, **call)
    again = store.intents.claim_eligible(SESSION, token=token, **call)
    foreign = store.intents.claim_eligible(SESSION, token=b"u" * 32, **call)

    assert again == first
    assert foreign == []
    assert [i.intent_id for i in store.intents.list() if i.lease_holder is None] == ["c"]


@pytest.mark.parametrize("limit", [0, 101, True, "2"])
def test_a_batch_is_bounded(memory: Store, limit: Any) -> None:
    """1 to 100."""
    with pytest.raises(InvalidArgument, match="limit"):
        memory.intents.claim_eligible(SESSION, holder="ann", lease=LEASE, limit=limit)


def test_a_batch_passes_over_what_is_excluded(memory: Store, clock: ManualClock) -> None:
    """So that what fails again and again does not hold up the rest."""
    eligible(memory, clock, "a", "b")

    claims = memory.intents.claim_eligible(SESSION, holder="ann", lease=LEASE, exclude=["a"])

    assert [claim.intent_id for claim in claims] == ["b"]


def test_a_claim_is_verified_while_it_is_held_and_live(store: Store, clock: ManualClock) -> None:
    """Not once it has run out, is taken by another, given back, or its intent resolved."""
    owe(store)
    claim = taken(store)
    live = store.intents.verify(claim)
    clock.advance(LEASE)
    expired = store.intents.verify(claim)
    other = taken(store, holder="bob")
    lost = store.intents.verify(claim)
    store.intents.resolve(other, resolution="presentation", message_id="m1")

    assert (live, expired, lost, store.intents.verify(other)) == (True, False, False, False)


def test_a_lost_claim_names_who_has_it(store: Store, clock: ManualClock) -> None:
    """Both generations and the new holder."""
    owe(store)
    claim = taken(store)
    clock.advance(LEASE)
    taken(store, holder="bob")

    refused = store.intents.resolve(claim, resolution="presentation", message_id="m1")

    assert isinstance(refused, Refused)
    assert refused.lost is not None
    assert (refused.lost.presented, refused.lost.present, refused.lost.holder) == (1, 2, "bob")


def test_a_claim_of_another_session_is_refused(store: Store) -> None:
    """The intent is for its target session alone."""
    owe(store)
    claim = taken(store)
    forged = evolve(claim, intent=evolve(claim.intent, target_session_id="s2"))

    refused = store.intents.claim("i1", session_id="s2", holder="bob", lease=LEASE)
    unresolved = store.intents.resolve(forged, resolution="presentation", message_id="m1")

    assert isinstance(refused, Refused)
    assert isinstance(unresolved, Refused)
    assert (refused.guard, unresolved.guard) == ("target session", "target session")


def test_what_is_missing(store: Store) -> None:
    """Each call says so."""
    owe(store)
    claim = taken(store)
    gone = evolve(claim, intent=evolve(claim.intent, intent_id="nope"))

    answers = [
        store.intents.claim("nope", session_id=SESSION, holder="ann", lease=LEASE),
        store.intents.make_eligible("nope", fallback_facts=facts()),
        store.intents.resolve(gone, resolution="presentation", message_id="m1"),
        store.intents.release(gone),
    ]

    assert [getattr(answer, "reason", None) for answer in answers] == [Reason.MISSING] * 4
    assert not store.intents.verify(gone)
    assert store.intents.get("nope") is None


def test_a_token_is_not_shown(store: Store) -> None:
    """Neither in a claim's text nor in the record's."""
    owe(store)
    token = b"secret token of thirty-two bytes"
    claim = taken(store, token=token)

    assert "secret" not in repr(claim)
    assert str(claim.intent.lease_token_hash) not in repr(claim)
    assert isinstance(claim, IntentClaim)


@pytest.mark.parametrize(
    ("name", "value"),
    [("holder", ""), ("lease", timedelta()), ("holder_kind", "control"), ("token", b"short")],
)
def test_a_claims_bounds(memory: Store, name: str, value: Any) -> None:
    """Refused before anything is written."""
    owe(memory)
    given = {"session_id": SESSION, "holder": "ann", "lease": LEASE, name: value}

    with pytest.raises(InvalidArgument, match=name):
        memory.intents.claim("i1", **given)


def test_a_claim_is_what_a_claiming_call_answered(memory: Store) -> None:
    """Nothing else is taken for one."""
    with pytest.raises(InvalidArgument, match="claim"):
        memory.intents.release("i1")  # type: ignore[arg-type]  # what a caller may get wrong
