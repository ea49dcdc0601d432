"""The asyncio faces: what the synchronous ones have, awaited."""

from __future__ import annotations

from persistence.aio.face import AsyncFace, selecting, single, whole
from persistence.stores.intents import IntentOperations
from persistence.stores.notifications import NotificationOperations
from persistence.stores.rows import RowOperations
from persistence.stores.runs import RunOperations


class AsyncRuns(AsyncFace[RunOperations]):
    """`Runs`, awaited."""

    reserve = selecting(RunOperations.reserve)
    enqueue = selecting(RunOperations.enqueue)
    claim = single(RunOperations.claim)
    claim_for_control = single(RunOperations.claim_for_control)
    claim_next = selecting(RunOperations.claim_next)
    claim_many = whole(RunOperations.claim_many)
    rebind = single(RunOperations.rebind)
    rebind_held = single(RunOperations.rebind_held)
    mark_running = single(RunOperations.mark_running)
    renew = single(RunOperations.renew)
    release_control = single(RunOperations.release_control)
    park = single(RunOperations.park)
    park_source_changed = single(RunOperations.park_source_changed)
    park_effect_ambiguous = single(RunOperations.park_effect_ambiguous)
    finish = single(RunOperations.finish)
    finish_many = whole(RunOperations.finish_many)
    fail = single(RunOperations.fail)
    abort = single(RunOperations.abort)
    wake = single(RunOperations.wake)
    requeue = single(RunOperations.requeue)
    reject = single(RunOperations.reject)
    pause = single(RunOperations.pause)
    resume = single(RunOperations.resume)
    adopt = single(RunOperations.adopt)
    request_cancel = single(RunOperations.request_cancel)
    cancel = single(RunOperations.cancel)
    cancel_stale = single(RunOperations.cancel_stale)
    reap = single(RunOperations.reap)
    reap_cancelled = single(RunOperations.reap_cancelled)
    reap_due = single(RunOperations.reap_due)
    get = single(RunOperations.get)
    verify = single(RunOperations.verify)
    list = single(RunOperations.list)
    counts = single(RunOperations.counts)
    find_reservation = single(RunOperations.find_reservation)
    history = single(RunOperations.history)
    append_event = single(RunOperations.append_event)
    prune = whole(RunOperations.prune)


class AsyncIntents(AsyncFace[IntentOperations]):
    """`Intents`, awaited."""

    ensure = single(IntentOperations.ensure)
    claim = single(IntentOperations.claim)
    claim_eligible = whole(IntentOperations.claim_eligible)
    make_eligible = single(IntentOperations.make_eligible)
    resolve = single(IntentOperations.resolve)
    release = single(IntentOperations.release)
    verify = single(IntentOperations.verify)
    get = single(IntentOperations.get)
    find_pending = single(IntentOperations.find_pending)
    list = single(IntentOperations.list)
    history = single(IntentOperations.history)


class AsyncNotifications(AsyncFace[NotificationOperations]):
    """`Notifications`, awaited."""

    enqueue = single(NotificationOperations.enqueue)
    claim_batch = whole(NotificationOperations.claim_batch)
    mark_delivered = single(NotificationOperations.mark_delivered)
    verify = single(NotificationOperations.verify)
    get = single(NotificationOperations.get)
    pending = single(NotificationOperations.pending)
    history = single(NotificationOperations.history)


class AsyncRows(AsyncFace[RowOperations]):
    """`Rows`, awaited."""

    create = single(RowOperations.create)
    apply = single(RowOperations.apply)
    apply_many = whole(RowOperations.apply_many)
    next = selecting(RowOperations.next)
    get = single(RowOperations.get)
    history = single(RowOperations.history)
    list = single(RowOperations.list)
    counts = single(RowOperations.counts)
    prune = whole(RowOperations.prune)
