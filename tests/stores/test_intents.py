"""Turn intents on each database: identity, facts, batches, and what a claim allows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from persistence import ManualClock, Store, open_store
from persistence.stores.turn_facts import facts_of
from statemachine import TurnIntent, TurnStatus
from statemachine.errors import IdentityConflict, InvalidArgument, UniquenessConflict
from tests.stores.owed import LEASE, SESSION, facts, owe, taken

HOUR = timedelta(hours=1)


@pytest.fixture
def memory(clock: ManualClock) -> Iterator[Store]:
    """An empty store in memory."""
    with open_store(":memory:", clock=clock) as store:
        yield store


def test_one_obligation_from_request_to_resolution(store: Store, clock: ManualClock) -> None:
    """On each database: ensure, claim, make eligible, release, claim, resolve."""
    born = owe(store)
    claim = taken(store)
    store.intents.make_eligible("i1", fallback_facts=facts(reason="it broke again"))
    store.intents.release(claim)
    clock.advance(timedelta(seconds=1))
    (again,) = store.intents.claim_eligible(SESSION, holder="bob", lease=LEASE)
    resolved = store.intents.resolve(again, resolution="fallback", message_id="m1")

    assert (born.status, born.requested_at) == (TurnStatus.PENDING, born.updated_at)
    assert isinstance(resolved, TurnIntent)
    assert (resolved.status, resolved.lease_holder) == (TurnStatus.RESOLVED, None)
    assert facts_of(resolved.fallback_facts).reason == "it broke again"
    assert [step.transition for step in store.intents.history("i1")] == [
        "ensure",
        "claim",
        "make_eligible",
        "release",
        "claim_eligible",
        "resolve",
    ]
    assert store.intents.get("i1") == resolved
    assert store.intents.find_pending("r1", SESSION) is None


@pytest.mark.parametrize("moment", ["pending", "claimed", "resolved"])
def test_int_01_the_same_again_and_another(store: Store, moment: str) -> None:
    """INT-01: the same answers the stored one as it is by now; another payload is a conflict."""
    owe(store)
    if moment != "pending":
        claim = taken(store)
        if moment == "resolved":
            store.intents.resolve(claim, resolution="presentation", message_id="m1")
    before = store.intents.get("i1")

    same = owe(store)
    with pytest.raises(IdentityConflict) as conflict:
        owe(store, workflow="other", fallback_facts=facts(workflowName="other"))

    assert same == before == store.intents.get("i1")
    assert conflict.value.differs == ("workflow",)


def test_a_repeat_never_changes_the_stored_row(store: Store) -> None:
    """Neither its facts nor whether it is eligible: that is what make_eligible is for."""
    born = owe(store)

    again = owe(store, eligible=True, fallback_facts=facts(reason="other"))

    assert again == born


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("source_event_id", "event-2"),
        ("target_session_id", "s2"),
        ("cause", "timedOut"),
        ("node_id", "plan"),
        ("attempt_id", "a1"),
    ],
)
def test_each_fact_of_identity_counts(memory: Store, name: str, value: str) -> None:
    """The same id with another one is a conflict that names it."""
    owe(memory)
    own = {"cause": "cause", "node_id": "nodeId", "attempt_id": "attemptId"}
    wire = facts(**{own[name]: value}) if name in own else facts()

    with pytest.raises(IdentityConflict) as conflict:
        owe(memory, fallback_facts=wire, **{name: value})

    assert conflict.value.differs == (name,)


def test_one_unresolved_intent_per_run_and_session(store: Store) -> None:
    """A second one is refused, and carries the first; once that is resolved, it is welcome."""
    first = owe(store)

    with pytest.raises(UniquenessConflict) as conflict:
        owe(store, "i2")
    owe(store, "i3", target_session_id="s2")
    store.intents.resolve(taken(store), resolution="presentation", message_id="m1")
    second = owe(store, "i2")

    assert conflict.value.blocker == first
    assert store.intents.find_pending("r1", SESSION) == second


@pytest.mark.parametrize("intent_id", ["i1", "i2"])
def test_unq_07_a_broken_bound_is_no_duplicate(store: Store, intent_id: str) -> None:
    """UNQ-07: a value out of its bounds is told as such, whether the id is taken or new."""
    owe(store)

    for name, value in (("workflow", None), ("cause", "unheard of"), ("run_id", "r" * 201)):
        with pytest.raises(InvalidArgument, match=name):
            owe(store, intent_id, **{name: value})

    assert [intent.intent_id for intent in store.intents.list()] == ["i1"]


def test_int_05_trouble_after_the_commit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """INT-05: what was stored answers the retry of the same id, and is there once."""
    operations = type(store.intents._operations)
    plain = operations.record

    def broken(*_: Any) -> Any:
        raise OSError("trouble after the commit")

    monkeypatch.setattr(operations, "record", broken)
    with pytest.raises(OSError, match="after the commit"):
        owe(store)
    monkeypatch.setattr(operations, "record", plain)

    assert owe(store).revision == 1
    assert len(store.intents.list()) == 1
    assert [step.transition for step in store.intents.history("i1")] == ["ensure"]


def test_lists_are_the_newest_first(store: Store, clock: ManualClock) -> None:
    """Of a session, of a run, by state, continued behind one; 1 to 100."""
    for name in ("a", "b"):
        owe(store, name, run_id=f"run-{name}", eligible=True)
        clock.advance(timedelta(seconds=1))
    owe(store, "c", run_id="run-b", target_session_id="s2")
    intents = store.intents

    def ids(**asked: Any) -> list[str]:
        return [intent.intent_id for intent in intents.list(**asked)]

    assert ids() == ["c", "b", "a"]
    assert ids(session_id=SESSION) == ["b", "a"]
    assert ids(run_id="run-b") == ["c", "b"]
    assert ids(run_id="run-b", session_id=SESSION) == ["b"]
    assert ids(statuses=["pending"]) == ["c"]
    assert ids(after="c", limit=1) == ["b"]
    for limit in (0, 101):
        with pytest.raises(InvalidArgument, match="limit"):
            intents.list(limit=limit)
