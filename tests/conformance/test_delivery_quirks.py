"""Weaknesses of the recorded turn intents and notifications, by their ids, with our answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from persistence import IntentClaim, ManualClock, Store
from statemachine import (
    IdentityConflict,
    InvalidArgument,
    Reason,
    Refused,
    TurnIntent,
    TurnResolution,
    TurnStatus,
    UniquenessConflict,
)
from tests.conftest import START

DAY, LEASE = timedelta(days=1), timedelta(seconds=30)
TOO_LONG = timedelta(milliseconds=2**53 - 1)


def facts(**changed: Any) -> dict[str, Any]:
    """Return facts of run `r`, as they stand on the wire."""
    return {
        "schema": "pi-workflows.deferred-turn-facts.v1",
        "workflowName": "demo",
        "runId": "r",
        "observedState": "failed",
        "cause": "failed",
        "nodeId": None,
        "attemptId": None,
        "reason": None,
        "handoff": False,
        **changed,
    }


def ensure(store: Store, intent_id: str = "i", **changed: Any) -> TurnIntent:
    """Oblige session `s` to a turn after run `r`."""
    run_id = changed.get("run_id", "r")
    given: dict[str, Any] = {
        "source_event_id": "event",
        "run_id": run_id,
        "workflow": "demo",
        "target_session_id": "s",
        "cause": "failed",
        "fallback_facts": facts(runId=run_id),
        **changed,
    }
    return store.intents.ensure(intent_id=intent_id, **given)


def claim(store: Store, intent_id: str = "i", **changed: Any) -> IntentClaim:
    """Take the delivery of an intent."""
    given: dict[str, Any] = {"session_id": "s", "holder": "h", "lease": LEASE, **changed}
    taken = store.intents.claim(intent_id, **given)
    assert isinstance(taken, IntentClaim)
    return taken


def notify(store: Store, **changed: Any) -> str:
    """Put a notification into the outbox of session `s`; return its id."""
    given: dict[str, Any] = {
        "run_id": "r",
        "node_id": "n",
        "attempt_id": "a",
        "notification_index": 1,
        "target_session_id": "s",
        "kind": "progress",
        "content": "one",
        "notification_id": "n1",
        **changed,
    }
    return store.notifications.enqueue(**given).notification_id


def test_a_delivery_lease_beyond_all_dates_is_refused(store: Store) -> None:
    """huge-lease-poisons-row: the intent is as it was, and can be read."""
    intent = ensure(store, eligible=True)
    notify(store)
    with pytest.raises(InvalidArgument, match="lease must be"):
        claim(store, lease=TOO_LONG)
    with pytest.raises(InvalidArgument, match="lease must be"):
        store.intents.claim_eligible("s", holder="h", lease=TOO_LONG)
    with pytest.raises(InvalidArgument, match="lease must be"):
        store.notifications.claim_batch("s", holder="h", lease=TOO_LONG)

    assert store.intents.find_pending("r", "s") == intent
    assert store.intents.list() == [intent]
    assert len(store.notifications.pending("s")) == 1


def test_what_is_eligible_now_is_served_now(store: Store) -> None:
    """timestamps-stored-verbatim: an intent is due at the very instant that made it so."""
    ensure(store, eligible=True)

    (taken,) = store.intents.claim_eligible("s", holder="h", lease=LEASE)

    assert (taken.intent_id, taken.intent.eligible_at) == ("i", START)


def test_a_late_delivery_counts_until_another_took_it(store: Store, clock: ManualClock) -> None:
    """expired-intent-holder: what was sent late is not sent twice; what was taken is not ended."""
    ensure(store, "a", run_id="ra", eligible=True)
    ensure(store, "b", run_id="rb", eligible=True)
    notify(store)
    late, lost = claim(store, "a"), claim(store, "b")
    (note,) = store.notifications.claim_batch("s", holder="h", lease=LEASE)
    clock.advance(DAY)
    other = claim(store, "b", holder="other")
    (taken,) = store.notifications.claim_batch("s", holder="other", lease=LEASE)
    how: dict[str, Any] = {"resolution": TurnResolution.FALLBACK, "message_id": "m"}

    assert not store.intents.verify(late)
    assert store.intents.resolve(late, **how)
    for refusal in (
        store.intents.resolve(lost, **how),
        store.intents.release(lost),
        store.notifications.mark_delivered(note),
    ):
        assert isinstance(refusal, Refused)
        assert refusal.lost is not None
        assert (refusal.lost.presented, refusal.lost.present) == (1, 2)
    assert store.intents.resolve(other, **how)
    assert store.notifications.mark_delivered(taken)


def test_a_batch_answers_what_it_took(store: Store, clock: ManualClock) -> None:
    """token-reuse-batch: never what the same token holds, or held, from elsewhere."""
    token = bytes(32)
    ensure(store, "pending", run_id="r1", target_session_id="other")
    claim(store, "pending", session_id="other", token=token)
    for number in (2, 3):
        ensure(store, f"i{number}", run_id=f"r{number}", eligible=True)
        notify(store, notification_index=number, notification_id=f"n{number}")

    def intents() -> list[str]:
        taken = store.intents.claim_eligible("s", holder="h", lease=LEASE, token=token, limit=1)
        return [claim.intent_id for claim in taken]

    def notes() -> list[str]:
        taken = store.notifications.claim_batch("s", holder="h", lease=LEASE, token=token, limit=1)
        return [claim.notification_id for claim in taken]

    assert [intents() for _ in range(3)] == [["i2"], ["i3"], []]
    assert [notes() for _ in range(3)] == [["n2"], ["n3"], []]
    clock.advance(LEASE)
    assert (intents(), notes()) == (["i2"], ["n2"])


def test_a_delivery_token_used_again_revives_nobody(store: Store, clock: ManualClock) -> None:
    """token-aba: the generation of the delivery must fit too."""
    ensure(store)
    first = claim(store, token=bytes(32))
    clock.advance(LEASE)
    second = claim(store, token=bytes(32))

    assert not store.intents.verify(first)
    assert not store.intents.release(first)
    assert store.intents.verify(second)


@pytest.mark.parametrize("field", ["source_event_id", "target_session_id", "workflow", "node_id"])
def test_a_lone_surrogate_is_no_part_of_an_identity(store: Store, field: str) -> None:
    """lone-surrogate-ids: the first ensure is refused before anything is stored."""
    with pytest.raises(InvalidArgument, match=f"{field} must be"):
        ensure(store, **{field: "x\ud800"})

    assert store.intents.get("i") is None


def test_a_repeat_says_that_the_intent_is_still_pending(store: Store) -> None:
    """ensure-eligible-ignored: a repeat answers the stored row, and one call makes it eligible."""
    stored = ensure(store)
    changed = facts(reason="now it is known")

    repeated = ensure(store, eligible=True, fallback_facts=changed)

    assert repeated == stored
    assert (repeated.status, repeated.eligible_at) == (TurnStatus.PENDING, None)
    assert store.intents.claim_eligible("s", holder="h", lease=LEASE) == []
    assert store.intents.make_eligible("i", fallback_facts=changed)
    (taken,) = store.intents.claim_eligible("s", holder="h", lease=LEASE)
    assert taken.intent.fallback_facts == changed


@pytest.mark.parametrize(
    "other",
    [
        {"runId": "other"},
        {"cause": "claimLost"},
        {"nodeId": "n"},
        {"attemptId": "a"},
        {"workflowName": "other"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_facts_are_those_of_the_intent(store: Store, other: dict[str, Any]) -> None:
    """facts-not-tied-to-row: a message can never name another run, cause or place."""
    (name,) = other
    with pytest.raises(InvalidArgument, match=rf"fallback_facts\.{name} must be the intent's own"):
        ensure(store, fallback_facts=facts(**other))
    stored = ensure(store)
    with pytest.raises(InvalidArgument, match=rf"fallback_facts\.{name} must be the intent's own"):
        store.intents.make_eligible("i", fallback_facts=facts(**other))

    assert store.intents.list() == [stored]


def test_who_delivers_is_not_disturbed(store: Store) -> None:
    """make_eligible-unfenced: new facts leave a delivery its lease, and history says who came."""
    ensure(store)
    held = claim(store)

    moved = store.intents.make_eligible("i", fallback_facts=facts(reason="later"))

    assert isinstance(moved, TurnIntent)
    assert store.intents.verify(held)
    assert held.intent.fallback_facts == facts()
    assert [event.transition for event in store.intents.history("i")] == [
        "ensure", "claim", "make_eligible",
    ]  # fmt: skip
    assert store.intents.resolve(held, resolution="fallback", message_id="m")
    final = store.intents.make_eligible("i", fallback_facts=facts())
    assert isinstance(final, Refused)
    assert final.reason is Reason.STATE


def test_a_second_intent_names_the_first(store: Store) -> None:
    """second-intent-raw-error: our own error carries the unresolved one."""
    first = ensure(store, "i")

    with pytest.raises(UniquenessConflict, match="one unresolved intent") as conflict:
        ensure(store, "j")

    assert conflict.value.blocker == first
    assert store.intents.get("j") is None


@pytest.mark.parametrize(
    "changed",
    [{"content": "two"}, {"kind": "final"}, {"target_session_id": "other"}, {"node_id": "other"}],
    ids=lambda changed: next(iter(changed)),
)
def test_a_changed_notification_is_not_lost(store: Store, changed: dict[str, Any]) -> None:
    """notification-duplicate-silent: the same again is the same; another is a conflict."""
    for again in ({}, {"content": " one\n"}, {"notification_id": "n2"}):
        notify(store, **again)
    with pytest.raises(IdentityConflict) as by_slot:
        notify(store, notification_id="n2", **changed)
    with pytest.raises(IdentityConflict) as by_id:
        notify(store, notification_index=2)
    with pytest.raises(InvalidArgument, match="kind must be one of progress, final"):
        notify(store, notification_index=2, notification_id="n2", kind="other")

    assert list(changed) == list(by_slot.value.differs)
    assert by_id.value.key == "n1"
    assert [note.content for note in store.notifications.pending("s")] == ["one"]
