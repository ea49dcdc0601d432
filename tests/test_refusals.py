"""Every refusal of run launch is reached, changes nothing, and says why."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from attrs import define, frozen

from persistence import Claim, ManualClock, Store
from persistence.dialect import Dialect
from persistence.engine import Backend, Session
from statemachine import LostLease, Reason, Refused, UniquenessConflict
from statemachine.admission import admit_params
from statemachine.errors import IdentityConflict
from statemachine.kinds import Choice
from statemachine.machine import Transition
from statemachine.machines import RUN_LAUNCH, Run
from statemachine.simulate import decide
from tests.cases.launches import LEASE, forged, queue, start, take
from tests.conftest import Capabilities
from tests.raw import Raw

HOUR = timedelta(hours=1)
MOMENT = timedelta(seconds=1)


@pytest.fixture(name="raw")
def _raw(store: Store, database: str, capabilities: Capabilities) -> Raw:
    return Raw(store, database, capabilities)


@define
class Lent:
    """A backend whose connections all have to be lent; counts how often."""

    backend: Backend
    times: int = 0

    @property
    def dialect(self) -> Dialect:
        """As of the backend."""
        return self.backend.dialect

    @property
    def journal_mode(self) -> str | None:
        """As of the backend."""
        return self.backend.journal_mode

    def own(self) -> None:
        """Return none."""

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Lend the backend's."""
        self.times += 1
        with self.backend.session() as session:
            yield session

    def borrow(self, driver: object) -> Session | None:
        """Borrow as the backend does."""
        return self.backend.borrow(driver)

    def wait_for_change(self, seconds: float) -> bool:
        """Wait as the backend does."""
        return self.backend.wait_for_change(seconds)

    def close(self) -> None:
        """Leave it open."""


def test_a_refusal_is_explained_on_the_connection_of_the_call(store: Store) -> None:
    """Who has waited for a connection does not wait for another, to be told why nothing moved."""
    lent = Lent(store.engine.backend)
    runs = Store.over(store.engine.on(lent)).runs
    queue(store)
    take(store)
    refused = runs.claim("r", runner_id="another", lease=LEASE)

    assert isinstance(refused, Refused)
    assert lent.times == 1


@frozen
class Shown:
    """What a call presents: a token and a generation."""

    token: bytes
    generation: int


def held_for_control(store: Store, run_id: str, lease: timedelta) -> Claim:
    """Hold a run where it is."""
    claim = store.runs.claim_for_control(run_id, holder="controller", lease=lease)
    assert isinstance(claim, Claim)
    return claim


def parked(store: Store, run_id: str, *, waiting: bool = False) -> Claim:
    """Begin a run and lay it aside."""
    queue(store, run_id)
    claim = start(store, run_id)
    assert store.runs.park(claim, waiting=waiting)
    return claim


def cancelling(store: Store, claim: Claim) -> Claim:
    """Request the cancellation of a run that somebody holds."""
    assert store.runs.request_cancel(claim.run_id)
    return claim


def populated(store: Store, clock: ManualClock) -> dict[str, Claim]:
    """Make runs in every situation; answer the last claim of each, or one that it never gave."""
    runs, claims = store.runs, {}

    def keep(claim: Claim) -> None:
        claims[claim.run_id] = claim

    def begun(name: str, lease: timedelta, attempts: int | None = None) -> None:
        queue(store, f"starting-{name}", max_attempts=attempts)
        keep(take(store, f"starting-{name}", lease=lease))
        queue(store, f"running-{name}", max_attempts=attempts)
        keep(start(store, f"running-{name}", lease=lease))
        queue(store, f"cancelling-{name}", max_attempts=attempts)
        keep(cancelling(store, start(store, f"cancelling-{name}", lease=lease)))

    def waiting(name: str, lease: timedelta) -> None:
        queue(store, f"queued-{name}")
        keep(held_for_control(store, f"queued-{name}", lease))
        parked(store, f"parked-{name}")
        keep(held_for_control(store, f"parked-{name}", lease))
        parked(store, f"cancelling-parked-{name}", waiting=True)
        keep(cancelling(store, held_for_control(store, f"cancelling-parked-{name}", lease)))

    begun("expired", MOMENT)
    begun("worn-out", MOMENT, attempts=1)
    waiting("expired", MOMENT)
    clock.advance(2 * MOMENT)
    begun("live", HOUR)
    waiting("live", HOUR)
    for name in ("queued", "queued-paused"):
        keep(forged(queue(store, name)))
    keep(parked(store, "parked-free"))
    keep(parked(store, "parked-waiting", waiting=True))
    parked(store, "cancelling-parked", waiting=True)
    control = cancelling(store, held_for_control(store, "cancelling-parked", HOUR))
    assert runs.release_control(control)
    keep(control)
    assert runs.pause("queued-paused")
    keep(forged(queue(store, "with-session", session="session")))
    for name in ("done", "failed", "cancelled"):
        queue(store, name)
    keep(ended := start(store, "done"))
    assert runs.finish(ended)
    keep(ended := start(store, "failed"))
    assert runs.fail(ended, error_code="code", error_message="message")
    assert runs.cancel("cancelled")
    keep(forged(queued)) if (queued := runs.get("cancelled")) else None
    return claims


def shown(claim: Claim) -> Iterator[Shown]:
    """Yield what may be presented: the claim itself, another token, an older generation."""
    yield Shown(claim.token, claim.generation)
    yield Shown(secrets.token_bytes(32), claim.generation)
    yield Shown(claim.token, max(claim.generation - 1, 0))


def arguments(transition: Transition, presented: Shown, source_ref: str) -> dict[str, object]:
    """Return values for all parameters of a transition."""
    given = {
        "token": presented.token,
        "generation": presented.generation,
        "holder": "somebody",
        "holder_kind": "host",
        "lease": LEASE,
        "waiting": False,
        "error_code": "code",
        "error_message": "message",
        "session_id": "another session",
        "workflow": "demo",
        "source_ref": "demo.py",
        "source": {"of": "demo"},
        "definition_digest": "sha256:1",
        "expected_source_ref": source_ref,
    }
    values: dict[str, object] = {}
    for param in transition.params:
        if isinstance(param.kind, Choice) and param.name not in given:
            values[param.name] = param.kind.texts[-1]
        elif not param.optional:
            values[param.name] = given[param.name]
    return values


def test_every_guard_and_every_wrong_state_refuses_by_name(
    store: Store, raw: Raw, clock: ManualClock
) -> None:
    """Each transition, on runs in every situation: what is refused is named and changes nothing."""
    claims = populated(store, clock)
    rows = store.machine(RUN_LAUNCH)
    plain = {run_id: raw.row("runs", "run_id", run_id) for run_id in claims}
    now = int(clock.now().timestamp() * 1000)
    before = raw.content()
    reached: set[tuple[str, str]] = set()
    for transition in RUN_LAUNCH.transitions:
        for run_id, claim in claims.items():
            for presented in shown(claim):
                for source_ref in ("demo.py", "another.py"):
                    values = arguments(transition, presented, source_ref)
                    params = admit_params(transition.params, values)
                    expected = decide(RUN_LAUNCH, plain[run_id], transition.name, params, now)
                    if not isinstance(expected, Refused):
                        continue
                    refused = rows.apply(transition.name, run_id, values)

                    assert refused == expected
                    assert isinstance(refused, Refused)
                    assert (refused.key, refused.state) == (run_id, plain[run_id]["status"])
                    assert str(refused.state) in str(refused)
                    reached.add((transition.name, refused.guard or f"state {refused.state}"))

    assert reached == REFUSALS - UNREACHABLE
    assert raw.content() == before


REFUSALS = {
    (transition.name, why)
    for transition in RUN_LAUNCH.transitions
    for why in (
        *(guard.name for guard in transition.when),
        *(f"state {state}" for state in RUN_LAUNCH.states if state not in transition.source),
    )
}

UNREACHABLE = {("requeue", "no cancellation requested")}
"""A starting run is cancelled at once, never asked to be; requeue says it all the same."""


def test_every_transition_of_a_run_that_is_not_there_is_refused(store: Store, raw: Raw) -> None:
    """`missing` names the key, and no state."""
    queue(store, "there")
    before = raw.content()
    rows = store.machine(RUN_LAUNCH)

    refused = [
        rows.apply(t.name, "gone", arguments(t, Shown(b"t" * 32, 1), "demo.py"))
        for t in RUN_LAUNCH.transitions
    ]

    assert refused == [
        Refused(transition=t.name, reason=Reason.MISSING, key="gone")
        for t in RUN_LAUNCH.transitions
    ]
    assert "'gone'" in str(refused[0])
    assert raw.content() == before


HELD: dict[str, Callable[[Store, Claim], object]] = {
    "mark_running": lambda store, claim: store.runs.mark_running(claim),
    "renew": lambda store, claim: store.runs.renew(claim, lease=LEASE),
    "park": lambda store, claim: store.runs.park(claim),
    "park_source_changed": lambda store, claim: store.runs.park_source_changed(
        claim, error_message="message"
    ),
    "park_effect_ambiguous": lambda store, claim: store.runs.park_effect_ambiguous(
        claim, error_message="message"
    ),
    "rebind_held": lambda store, claim: store.runs.rebind_held(
        claim,
        workflow="demo",
        source_ref="demo.py",
        source={"of": "demo"},
        definition_digest="sha256:1",
        expected_source_ref="demo.py",
        runner_id="old",
        lease=LEASE,
    ),
    "finish": lambda store, claim: store.runs.finish(claim),
    "fail": lambda store, claim: store.runs.fail(claim, error_code="c", error_message="m"),
    "abort": lambda store, claim: store.runs.abort(claim),
    "release_control": lambda store, claim: store.runs.release_control(claim),
}


def test_every_call_of_a_holder_is_listed() -> None:
    """A transition that only the holder can make is in the list that the next tests try."""
    assert set(HELD) == {t.name for t in RUN_LAUNCH.transitions if RUN_LAUNCH.by_holder(t)}


def hold(store: Store, name: str, by: str, token: bytes | None = None) -> Claim:
    """Take the run that is named like the call, as the call needs it."""
    if name == "release_control":
        claim = store.runs.claim_for_control(name, holder=by, lease=LEASE, token=token)
    else:
        claim = store.runs.claim(name, runner_id=by, lease=LEASE, token=token)
    assert isinstance(claim, Claim)
    return claim


def overtaken(store: Store, clock: ManualClock, token: bytes | None = None) -> dict[str, Claim]:
    """Let each call's holder lose its run to another; answer what the old holders have."""
    for name in HELD:
        queue(store, name)
    old = {name: hold(store, name, "old", token) for name in HELD}
    clock.advance(LEASE)
    for name in HELD:
        hold(store, name, "new", token)
    return old


def test_a_lost_lease_names_both_generations_and_the_new_holder(
    store: Store, raw: Raw, clock: ManualClock
) -> None:
    """Whoever lost the lease learns who has it, in which generation, and where the run stands."""
    old = overtaken(store, clock)
    before = raw.content()

    for name, call in HELD.items():
        refused = call(store, old[name])
        state = "queued" if name == "release_control" else "starting"

        assert refused == Refused(
            transition=name,
            reason=Reason.GUARD,
            key=name,
            state=state,
            guard="held",
            lost=LostLease(presented=1, present=2, holder="new"),
        )
        for word in (state, "new", "generation 2", "presented: 1"):
            assert word in str(refused)
    assert raw.content() == before


def test_a_lost_lease_is_told_also_when_the_run_went_on(
    store: Store, raw: Raw, clock: ManualClock
) -> None:
    """The new holder has ended the run: the old one hears of that, not of a wrong state alone."""
    for name in HELD:
        queue(store, name)
    old = {name: take(store, name, by="old") for name in HELD}
    clock.advance(LEASE)
    for name in HELD:
        assert store.runs.finish(take(store, name, by="new"))
    before = raw.content()

    for name, call in HELD.items():
        refused = call(store, old[name])

        assert isinstance(refused, Refused)
        assert (refused.reason, refused.state) == (Reason.STATE, "done")
        assert refused.lost == LostLease(presented=1, present=2, holder=None)
    assert raw.content() == before


def test_another_token_in_the_right_generation_is_no_hold(store: Store, raw: Raw) -> None:
    """The generation is known to many; the token is not."""
    for name in HELD:
        queue(store, name)
    held = {name: hold(store, name, "holder") for name in HELD}
    before = raw.content()

    for name, call in HELD.items():
        refused = call(store, forged(held[name].run))

        assert isinstance(refused, Refused)
        assert (refused.reason, refused.guard) == (Reason.GUARD, "held")
        assert refused.lost == LostLease(1, 1, "holder")
    assert raw.content() == before


def test_the_right_token_in_an_older_generation_is_no_hold(
    store: Store, raw: Raw, clock: ManualClock
) -> None:
    """A token that is used again does not revive the calls of its earlier claim."""
    old = overtaken(store, clock, secrets.token_bytes(32))
    before = raw.content()

    for name, call in HELD.items():
        refused = call(store, old[name])

        assert isinstance(refused, Refused)
        assert (refused.guard, refused.lost) == ("held", LostLease(1, 2, "new"))
    assert raw.content() == before


def in_the_way(store: Store) -> Run:
    """Give a session a parked run, and then a reservation that stands in its way."""
    queue(store, "parked", session="session")
    assert store.runs.park(take(store, "parked"))
    queue(store, "alone")
    return queue(store, "reserved", session="session")


ENTERING: dict[str, Callable[[Store], object]] = {
    "claim": lambda store: store.runs.claim("parked", runner_id="w", lease=LEASE),
    "rebind": lambda store: store.runs.rebind(
        "parked",
        workflow="demo",
        source_ref="demo.py",
        source={"of": "demo"},
        definition_digest="sha256:1",
        expected_source_ref="demo.py",
        runner_id="w",
        lease=LEASE,
    ),
    "rebind_held": lambda store: HELD["rebind_held"](
        store, held_for_control(store, "parked", LEASE)
    ),
    "adopt": lambda store: store.runs.adopt("alone", session_id="session"),
}


def test_a_move_into_a_held_slot_names_the_run_in_the_way(store: Store, raw: Raw) -> None:
    """The parked run stays parked, and the session's reservation is shown."""
    reserved = in_the_way(store)
    for name, call in ENTERING.items():
        key = "alone" if name == "adopt" else "parked"
        untouched = raw.row("runs", "run_id", key)

        refused = call(store)

        assert isinstance(refused, Refused)
        assert (refused.reason, refused.guard) == (Reason.UNIQUE, "session reservation")
        assert (refused.key, refused.state) == (key, untouched["status"])
        assert (refused.blocker, refused.blocked_by) == (reserved, "reserved")
        assert str(refused) == (
            f"{name} refused: {key!r} is {untouched['status']},"
            " but 'session reservation' is taken by 'reserved'"
        )
        if name != "rebind_held":  # there the hold was taken first
            assert raw.row("runs", "run_id", key) == untouched


CREATING: dict[str, Callable[[Store, dict[str, str]], object]] = {
    "reserve": lambda store, given: store.runs.reserve(
        workflow="demo",
        source_ref="demo.py",
        source={"of": "demo"},
        definition_digest="sha256:0",
        **given,  # type: ignore[arg-type]  # texts for arguments that take texts
    ),
    "enqueue": lambda store, given: store.runs.enqueue(
        workflow="demo",
        source_ref="demo.py",
        runner_id="w",
        lease=LEASE,
        **given,  # type: ignore[arg-type]  # texts for arguments that take texts
    ),
}


def test_a_creation_in_a_held_slot_names_the_run_in_the_way(store: Store, raw: Raw) -> None:
    """A second reservation of a session, a second continuation of a run: neither is written."""
    queue(store, "parent")
    for given, rule in (
        ({"origin_session_id": "session"}, "session reservation"),
        ({"parent_run_id": "parent"}, "one continuation"),
    ):
        blocker = CREATING["reserve"](store, given)
        before = raw.content()
        for create in CREATING.values():
            with pytest.raises(UniquenessConflict) as conflict:
                create(store, given | {"run_id": "second"})

            assert (conflict.value.rule, conflict.value.blocker) == (rule, blocker)
            assert raw.content() == before


def test_an_enqueued_run_exists_for_another_token(store: Store, raw: Raw) -> None:
    """The same facts under another token are `exists`, never a lease."""
    given = {"run_id": "r"}
    first = CREATING["enqueue"](store, given)
    before = raw.content()

    second = CREATING["enqueue"](store, given)

    assert isinstance(first, Claim)
    assert second == Refused(transition="enqueue", reason=Reason.EXISTS, key="r", state="starting")
    assert "'r' exists already; it is starting" in str(second)
    assert raw.content() == before


def test_other_facts_under_a_used_id_are_a_conflict(store: Store, raw: Raw) -> None:
    """An id names one run for ever."""
    for name, create in CREATING.items():
        create(store, {"run_id": name})
    before = raw.content()

    for name in CREATING:
        for other in CREATING.values():
            with pytest.raises(IdentityConflict, match=repr(name)):
                other(store, {"run_id": name, "affinity_runner_id": "x"})

    assert raw.content() == before


def test_nothing_to_take_is_a_refusal_of_its_own(store: Store, raw: Raw) -> None:
    """Neither a host nor a session finds a run where there is none for it."""
    queue(store, "elsewhere", session="another session")
    before = raw.content()

    assert store.runs.claim_next("w", LEASE) == _nothing("claim_next_host")
    assert store.runs.claim_next("w", LEASE, session_id="session") == _nothing("claim_next_session")
    assert store.runs.claim_many("w", LEASE, limit=10) == []
    assert store.runs.reap_due() == []
    assert raw.content() == before


def _nothing(selection: str) -> Refused:
    return Refused(transition=selection, reason=Reason.NOTHING)


def test_a_refusal_inside_a_transaction_leaves_the_rest_of_it(store: Store) -> None:
    """The caller's other writes are neither lost nor spoiled, on any database."""
    in_the_way(store)
    refused: list[object] = []

    with store.transaction():
        queue(store, "before")
        refused += [call(store) for name, call in ENTERING.items() if name != "rebind_held"]
        with pytest.raises(UniquenessConflict):
            queue(store, "third", session="session")
        refused.append(store.runs.claim("gone", runner_id="w", lease=LEASE))
        queue(store, "after")

    assert not any(refused)
    assert [run.run_id for run in store.runs.list()] == [
        "after", "alone", "before", "parked", "reserved"
    ]  # fmt: skip


def test_a_refusal_carries_no_private_value(store: Store) -> None:
    """Neither input, options nor token hash: what a refusal shows may be logged."""
    store.runs.reserve(
        run_id="r",
        workflow="demo",
        source_ref="demo.py",
        source=None,
        definition_digest="d",
        input="the input",
        launch_options="the options",
        origin_session_id="session",
    )
    queue(store, "parked")
    refused = store.runs.adopt("parked", session_id="session")

    text = f"{refused!r} {refused}"

    assert "session reservation" in text
    assert "the input" not in text
    assert "the options" not in text
