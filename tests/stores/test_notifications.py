"""Notifications on each database: what is the same one, and who delivers it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve

from persistence import ManualClock, Store, open_store
from persistence.hosts.notices import Notices
from statemachine import Notification, NotificationStatus, Reason, Refused
from statemachine.errors import IdentityConflict, InvalidArgument
from tests.stores.owed import LEASE, SESSION, batch, notify


@pytest.fixture
def memory(clock: ManualClock) -> Iterator[Store]:
    """An empty store in memory."""
    with open_store(":memory:", clock=clock) as store:
        yield store


def test_the_same_again_answers_the_stored_one(store: Store) -> None:
    """By the attempt's index, whatever id it is given; also once it is delivered."""
    first = notify(store)
    (claim,) = batch(store)
    delivered = store.notifications.mark_delivered(claim)

    assert notify(store) == notify(store, notification_id="other") == delivered
    assert isinstance(delivered, Notification)
    assert (delivered.notification_id, delivered.status) == (
        first.notification_id,
        NotificationStatus.DELIVERED,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content", "other"),
        ("target_session_id", "s2"),
        ("kind", "final"),
        ("node_id", "code"),
    ],
)
@pytest.mark.parametrize("given_id", [None, "n9"])
def test_another_message_at_the_same_index(
    memory: Store, name: str, value: str, given_id: str | None
) -> None:
    """Is a conflict that names what differs; nothing is lost without a sign."""
    before = notify(memory)

    with pytest.raises(IdentityConflict) as conflict:
        notify(memory, 1, **{"notification_id": given_id, name: value})

    assert conflict.value.differs == (name,)
    assert memory.notifications.pending(SESSION) == [before]


def test_an_id_is_used_once(memory: Store) -> None:
    """For another index it is a conflict."""
    notify(memory, 1, notification_id="n1", content="same")

    with pytest.raises(IdentityConflict) as conflict:
        notify(memory, 2, notification_id="n1", content="same")

    assert conflict.value.differs == ("notification_index",)


def test_a_batch_is_the_oldest_first(store: Store, clock: ManualClock) -> None:
    """Pending, free, of this session, at most as many as asked for; pending can be looked at."""
    for index in (3, 1, 2):
        notify(store, index)
        clock.advance(timedelta(seconds=1))
    notify(store, 1, attempt_id="a2", target_session_id="s2")

    looked = [note.notification_index for note in store.notifications.pending(SESSION)]
    first = batch(store, limit=2)
    rest = batch(store, "bob")

    assert looked == [3, 1, 2]
    assert [claim.notification.notification_index for claim in first] == [3, 1]
    assert [claim.notification.notification_index for claim in rest] == [2]
    assert batch(store, "carl") == []


def test_a_batch_answers_only_what_it_took(store: Store) -> None:
    """Also under a token that other rows carry already."""
    token = b"t" * 32
    notify(store, 1)
    batch(store, token=token)
    notify(store, 2)

    again = batch(store, token=token)

    assert [claim.notification.notification_index for claim in again] == [2]


def test_hbt_04_what_is_lost_is_not_sent(store: Store, clock: ManualClock) -> None:
    """HBT-04: five claimed, each send takes 20 of 60 seconds; the last two go to another relay."""
    for index in range(1, 6):
        notify(store, index)
    sent: list[tuple[str, int]] = []
    quick = Notices(store.notifications, lambda _: False, holder="quick", lease=2 * LEASE)
    slow = Notices(store.notifications, lambda _: False, holder="slow", lease=2 * LEASE)

    def send_slowly(note: Notification) -> None:
        sent.append(("slow", note.notification_index))
        clock.advance(timedelta(seconds=20))
        if note.notification_index == 3:
            clock.advance(timedelta(seconds=1))
            quick.deliver(SESSION, lambda n: sent.append(("quick", n.notification_index)))

    # The third is sent, but not yet marked, when the other relay comes.
    slow_sent = slow.deliver(SESSION, send_slowly)

    by_slow = [index for who, index in sent if who == "slow"]
    by_quick = [index for who, index in sent if who == "quick"]
    assert (slow_sent, by_slow) == (3, [1, 2, 3])
    assert by_quick == [3, 4, 5]
    assert store.notifications.pending(SESSION) == []


def test_hbt_04_the_conversation_is_asked_first(store: Store, clock: ManualClock) -> None:
    """HBT-04: with the conversation to look at, each notification is sent once."""
    for index in range(1, 6):
        notify(store, index)
    shown: list[str] = []
    relays = [
        Notices(store.notifications, shown.__contains__, holder=name, lease=2 * LEASE)
        for name in ("slow", "quick")
    ]

    def send_slowly(note: Notification) -> None:
        shown.append(note.notification_id)
        clock.advance(timedelta(seconds=20))
        if note.notification_index == 3:
            clock.advance(timedelta(seconds=1))
            relays[1].deliver(SESSION, lambda n: shown.append(n.notification_id))

    relays[0].deliver(SESSION, send_slowly)

    assert len(shown) == len(set(shown)) == 5
    assert store.notifications.pending(SESSION) == []


def test_efx_04_new_content_is_another_notification(store: Store) -> None:
    """EFX-04: what a relay has claimed cannot change; the new version is delivered by itself."""
    notify(store, 1, content="version 1")
    (claim,) = batch(store)

    with pytest.raises(IdentityConflict):
        notify(store, 1, content="version 2")
    notify(store, 2, content="version 2")
    delivered = store.notifications.mark_delivered(claim)
    (later,) = batch(store)

    assert isinstance(delivered, Notification)
    assert (delivered.content, later.notification.content) == ("version 1", "version 2")


def test_a_claim_is_verified_while_it_is_held_and_live(store: Store, clock: ManualClock) -> None:
    """Not once it has run out, is taken by another, or delivered."""
    notify(store)
    (claim,) = batch(store)
    live = store.notifications.verify(claim)
    clock.advance(LEASE)
    expired = store.notifications.verify(claim)
    (other,) = batch(store, "bob")
    lost = store.notifications.mark_delivered(claim)
    store.notifications.mark_delivered(other)

    assert (live, expired, store.notifications.verify(other)) == (True, False, False)
    assert isinstance(lost, Refused)
    assert lost.lost is not None
    assert lost.lost.holder == "bob"


def test_what_is_missing(store: Store) -> None:
    """Each call says so."""
    notify(store)
    (claim,) = batch(store)
    gone = evolve(claim, notification=evolve(claim.notification, notification_id="nope"))

    answer = store.notifications.mark_delivered(gone)

    assert isinstance(answer, Refused)
    assert answer.reason is Reason.MISSING
    assert store.notifications.get("nope") is None
    assert not store.notifications.verify(gone)


@pytest.mark.parametrize("limit", [0, 101])
def test_batches_and_lists_are_bounded(memory: Store, limit: int) -> None:
    """1 to 100."""
    for call in (batch, lambda store, limit: store.notifications.pending(SESSION, limit=limit)):
        with pytest.raises(InvalidArgument, match="limit"):
            call(memory, limit=limit)


def test_the_content_is_not_in_history(store: Store) -> None:
    """Nor in the record's text."""
    note = notify(store, content="for your eyes")
    steps: list[Any] = store.notifications.history(note.notification_id)

    assert "for your eyes" not in repr(note)
    assert "for your eyes" not in str(steps)
    assert [step.transition for step in steps] == ["enqueue"]
