"""Each writing call of the faces, with what it needs: made by a process that is to be killed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from attrs import frozen

from persistence import Claim, IntentClaim, ManualClock, NotificationClaim, Store, open_store
from persistence.stores.run_holding import Finish
from tests.cases.launches import LEASE, queue, start, take
from tests.conftest import START
from tests.stores.owed import notify, owe, taken

TOKEN = bytes(range(32))
LATER = START + LEASE * 2
HOLD: dict[str, Any] = {"lease": LEASE, "token": TOKEN}
FAILURE: dict[str, Any] = {"error_code": "broken", "error_message": "it broke"}
LAUNCH: dict[str, Any] = {
    "workflow": "demo",
    "source_ref": "demo.py",
    "source": {"of": "demo"},
    "definition_digest": "sha256:0",
}
BINDING: dict[str, Any] = {
    "workflow": "demo",
    "source_ref": "other.py",
    "source": {"of": "other"},
    "definition_digest": "sha256:1",
    "expected_source_ref": "demo.py",
}


@frozen
class Place:
    """A store, and a name that every row of one trial has in its key.

    Attributes:
        store: Open on the trial's own project.

        name: Begins every key.
    """

    store: Store
    name: str

    def key(self, text: str) -> str:
        """Return a key of this trial."""
        return f"{self.name}.{text}"

    @property
    def run(self) -> str:
        """The first run's id."""
        return self.key("r1")

    @property
    def session(self) -> str:
        """The session's id."""
        return self.key("s1")


@frozen(kw_only=True)
class Scene:
    """A call that is tried.

    Attributes:
        before: Makes what there must be, and answers what the call is about.

        act: The call, under an id.

        later: Whether it comes when every lease has run out.

        keyed: Whether the call has an id, so that repeated it answers the same.
    """

    before: Callable[[Place], Any]
    act: Callable[[Place, Any, str], Any]
    later: bool = False
    keyed: bool = True


def _nothing(_: Place) -> None:
    """Need nothing."""


def _queued(place: Place) -> None:
    queue(place.store, place.run)


def _two(place: Place) -> None:
    queue(place.store, place.run)
    queue(place.store, place.key("r2"))


def _claimed(place: Place) -> Claim:
    queue(place.store, place.run)
    return take(place.store, place.run)


def _running(place: Place) -> Claim:
    queue(place.store, place.run, max_attempts=1)
    return start(place.store, place.run)


def _asked(place: Place) -> None:
    _running(place)
    assert place.store.runs.request_cancel(place.run)


def _controlled(place: Place) -> Claim:
    _queued(place)
    claim = place.store.runs.claim_for_control(place.run, holder="ann", lease=LEASE)
    assert isinstance(claim, Claim)
    return claim


def _parked(place: Place) -> None:
    assert place.store.runs.park(_running(place), waiting=True)


def _both(place: Place) -> list[Claim]:
    _two(place)
    return [start(place.store, place.run), start(place.store, place.key("r2"))]


def _paused(place: Place) -> None:
    _queued(place)
    assert place.store.runs.pause(place.run)


def _intent(place: Place, number: int, **changed: Any) -> Any:
    return owe(
        place.store,
        place.key(f"i{number}"),
        run_id=place.key(f"r{number}"),
        source_event_id=place.key(f"e{number}"),
        target_session_id=place.session,
        **changed,
    )


def _pending(place: Place) -> Any:
    return _intent(place, 1).fallback_facts


def _owed(place: Place) -> None:
    _intent(place, 1, eligible=True)
    _intent(place, 2, eligible=True)


def _delivering(place: Place) -> IntentClaim:
    _owed(place)
    return taken(place.store, place.key("i1"), session_id=place.session)


def _message(place: Place, number: int, **changed: Any) -> Any:
    return notify(
        place.store,
        number,
        notification_id=place.key(f"n{number}"),
        run_id=place.run,
        target_session_id=place.session,
        **changed,
    )


def _told(place: Place) -> None:
    _message(place, 1)
    _message(place, 2)


def _batch(place: Place) -> list[NotificationClaim]:
    _told(place)
    return place.store.notifications.claim_batch(place.session, holder="ann", **HOLD)


SCENES: dict[str, Scene] = {
    "reserve": Scene(
        before=_nothing, act=lambda p, _, c: p.store.runs.reserve(run_id=p.run, call=c, **LAUNCH)
    ),
    "enqueue": Scene(
        before=_nothing,
        act=lambda p, _, c: p.store.runs.enqueue(
            run_id=p.run, runner_id="a", call=c, **HOLD, **LAUNCH
        ),
    ),
    "claim": Scene(
        before=_queued,
        act=lambda p, _, c: p.store.runs.claim(p.run, runner_id="a", call=c, **HOLD),
    ),
    "claim_for_control": Scene(
        before=_queued,
        act=lambda p, _, c: p.store.runs.claim_for_control(p.run, holder="a", call=c, **HOLD),
    ),
    "claim_next": Scene(
        before=_two, act=lambda p, _, c: p.store.runs.claim_next("a", call=c, **HOLD)
    ),
    "claim_many": Scene(
        before=_two, act=lambda p, _, c: p.store.runs.claim_many("a", limit=2, call=c, **HOLD)
    ),
    "claim_many at once": Scene(
        before=_two,
        act=lambda p, _, __: p.store.runs.claim_many("a", limit=2, **HOLD),
        keyed=False,
    ),
    "rebind": Scene(
        before=_parked,
        act=lambda p, _, c: p.store.runs.rebind(p.run, runner_id="a", call=c, **HOLD, **BINDING),
    ),
    "rebind_held": Scene(
        before=_claimed,
        act=lambda p, i, c: p.store.runs.rebind_held(
            i, runner_id="a", lease=LEASE, call=c, **BINDING
        ),
    ),
    "mark_running": Scene(
        before=_claimed, act=lambda p, i, c: p.store.runs.mark_running(i, call=c)
    ),
    "renew": Scene(
        before=_claimed, act=lambda p, i, _: p.store.runs.renew(i, lease=LEASE), keyed=False
    ),
    "release_control": Scene(
        before=_controlled, act=lambda p, i, c: p.store.runs.release_control(i, call=c)
    ),
    "park": Scene(before=_running, act=lambda p, i, c: p.store.runs.park(i, waiting=True, call=c)),
    "park_source_changed": Scene(
        before=_running,
        act=lambda p, i, c: p.store.runs.park_source_changed(i, error_message="other", call=c),
    ),
    "park_effect_ambiguous": Scene(
        before=_running,
        act=lambda p, i, c: p.store.runs.park_effect_ambiguous(i, error_message="what", call=c),
    ),
    "finish": Scene(
        before=_running, act=lambda p, i, c: p.store.runs.finish(i, result=[1], call=c)
    ),
    "finish_many": Scene(
        before=_both,
        act=lambda p, i, c: p.store.runs.finish_many(
            [Finish(claim, result=1, call=f"{c}/{n}") for n, claim in enumerate(i)]
        ),
    ),
    "fail": Scene(before=_running, act=lambda p, i, c: p.store.runs.fail(i, call=c, **FAILURE)),
    "abort": Scene(before=_running, act=lambda p, i, c: p.store.runs.abort(i, call=c)),
    "wake": Scene(before=_parked, act=lambda p, _, c: p.store.runs.wake(p.run, call=c)),
    "requeue": Scene(
        before=_claimed, act=lambda p, _, c: p.store.runs.requeue(p.run, call=c), later=True
    ),
    "reject": Scene(
        before=_queued, act=lambda p, _, c: p.store.runs.reject(p.run, call=c, **FAILURE)
    ),
    "pause": Scene(before=_queued, act=lambda p, _, c: p.store.runs.pause(p.run, call=c)),
    "resume": Scene(before=_paused, act=lambda p, _, c: p.store.runs.resume(p.run, call=c)),
    "adopt": Scene(
        before=_queued,
        act=lambda p, _, c: p.store.runs.adopt(p.run, session_id=p.session, call=c),
    ),
    "request_cancel": Scene(
        before=_running, act=lambda p, _, c: p.store.runs.request_cancel(p.run, call=c)
    ),
    "cancel queued": Scene(before=_queued, act=lambda p, _, c: p.store.runs.cancel(p.run, call=c)),
    "cancel running": Scene(
        before=_running, act=lambda p, _, c: p.store.runs.cancel(p.run, call=c)
    ),
    "cancel parked": Scene(before=_parked, act=lambda p, _, c: p.store.runs.cancel(p.run, call=c)),
    "cancel_stale": Scene(
        before=_parked, act=lambda p, _, c: p.store.runs.cancel_stale(p.run, call=c)
    ),
    "reap": Scene(
        before=_running, act=lambda p, _, c: p.store.runs.reap(p.run, call=c), later=True
    ),
    "reap_cancelled": Scene(
        before=_asked, act=lambda p, _, c: p.store.runs.reap_cancelled(p.run, call=c), later=True
    ),
    "reap_due": Scene(
        before=_running, act=lambda p, _, __: p.store.runs.reap_due(), later=True, keyed=False
    ),
    "append_event": Scene(
        before=_queued,
        act=lambda p, _, c: p.store.runs.append_event(p.run, type="told", payload=[1], call=c),
    ),
    "ensure": Scene(before=_nothing, act=lambda p, _, c: _intent(p, 1, call=c)),
    "claim an intent": Scene(
        before=_owed,
        act=lambda p, _, c: p.store.intents.claim(
            p.key("i1"), session_id=p.session, holder="a", call=c, **HOLD
        ),
    ),
    "claim_eligible": Scene(
        before=_owed,
        act=lambda p, _, c: p.store.intents.claim_eligible(p.session, holder="a", call=c, **HOLD),
    ),
    "make_eligible": Scene(
        before=_pending,
        act=lambda p, i, c: p.store.intents.make_eligible(p.key("i1"), fallback_facts=i, call=c),
    ),
    "resolve": Scene(
        before=_delivering,
        act=lambda p, i, c: p.store.intents.resolve(
            i, resolution="presentation", message_id="m1", call=c
        ),
    ),
    "release": Scene(before=_delivering, act=lambda p, i, c: p.store.intents.release(i, call=c)),
    "enqueue a message": Scene(before=_nothing, act=lambda p, _, c: _message(p, 1, call=c)),
    "claim_batch": Scene(
        before=_told,
        act=lambda p, _, c: p.store.notifications.claim_batch(
            p.session, holder="a", call=c, **HOLD
        ),
    ),
    "mark_delivered": Scene(
        before=_batch, act=lambda p, i, c: p.store.notifications.mark_delivered(i[0], call=c)
    ),
}


def opened(url: str, project: str, at: datetime | None) -> Store:
    """Open a store at an instant; None: on the database's own clock."""
    return open_store(url, project=project, clock=None if at is None else ManualClock(at))


def perform(store: Store, *, name: str, scene: str, item: Any) -> Any:
    """Make a scene's call in a trial."""
    return SCENES[scene].act(Place(store, name), item, f"call {name}")
