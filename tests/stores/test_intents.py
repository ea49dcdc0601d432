"""Turn intents on each database: identity, facts, batches, and what a claim allows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve

from persistence import IntentClaim, ManualClock, Store, TurnFacts, open_store
from persistence.stores.turn_facts import facts_of, wire_of
from statemachine import Reason, Refused, TurnCause, TurnIntent, TurnStatus
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


# Facts


WRONG: dict[str, dict[str, Any]] = {
    "unknown": {"extra": 1},
    "schema": {"schema": "v2"},
    "workflowName": {"workflowName": ""},
    "runId": {"runId": 7},
    "observedState": {"observedState": "a\nb"},
    "cause": {"cause": "unheard of"},
    "nodeId": {"nodeId": 3},
    "attemptId": {"attemptId": "x" * 513},
    "reason": {"reason": "x" * 8_193},
    "handoff": {"handoff": 1},
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_facts_are_named(memory: Store, name: str) -> None:
    """A wrong type, a broken bound, an unknown field."""
    with pytest.raises(InvalidArgument) as error:
        owe(memory, fallback_facts=facts(**WRONG[name]))

    assert name in str(error.value)
    assert memory.intents.list() == []


@pytest.mark.parametrize("name", list(facts()))
def test_missing_facts_are_named(memory: Store, name: str) -> None:
    """Each field is needed, also where it may be null."""
    document = facts()
    del document[name]

    with pytest.raises(InvalidArgument) as error:
        owe(memory, fallback_facts=document)

    assert error.value.field == f"fallback_facts.{name}"


@pytest.mark.parametrize(
    "other",
    [
        {"runId": "r2"},
        {"cause": "timedOut"},
        {"nodeId": "plan"},
        {"attemptId": "a1"},
        {"workflowName": "other"},
    ],
    ids=str,
)
def test_facts_are_the_rows_own(memory: Store, other: dict[str, Any]) -> None:
    """When it is created, and when it becomes eligible."""
    (name,) = other
    with pytest.raises(InvalidArgument, match=name):
        owe(memory, fallback_facts=facts(**other))
    before = owe(memory)

    with pytest.raises(InvalidArgument, match=name):
        memory.intents.make_eligible("i1", fallback_facts=facts(**other))

    assert memory.intents.get("i1") == before


def test_facts_as_a_class_and_on_the_wire() -> None:
    """The class has Python's names, the wire its own, and neither loses anything."""
    told = TurnFacts(
        workflow_name="build",
        run_id="r1",
        observed_state="failed",
        cause=TurnCause.FAILED,
        node_id=None,
        attempt_id=None,
        reason=None,
        handoff=False,
    )

    assert wire_of(told) == facts(reason=None)
    assert facts_of(wire_of(told)) == told
    assert facts_of(facts(reason="")).reason == ""


@pytest.mark.parametrize("wrong", [None, [], "text", 3])
def test_facts_are_an_object(wrong: Any) -> None:
    """Anything else is refused."""
    with pytest.raises(InvalidArgument, match="an object of turn facts"):
        facts_of(wrong)


# Batches


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


# Claims


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


# Lists


def test_lists_are_the_newest_first(store: Store, clock: ManualClock) -> None:
    """Of a session, of a run, by state, continued behind one; 1 to 100."""
    eligible(store, clock, "a", "b")
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
