"""The face of run launch: `store.runs`."""

from __future__ import annotations

from persistence.stores.face import Face, selecting, single, whole
from persistence.stores.run_claims import RunClaims
from persistence.stores.run_creations import RunCreations
from persistence.stores.run_holding import RunHolding
from persistence.stores.run_moves import RunMoves
from persistence.stores.run_reads import RunReads
from persistence.stores.run_retention import RunRetention


class RunOperations(RunCreations, RunClaims, RunHolding, RunMoves, RunReads, RunRetention):
    """Every operation of run launch, without I/O."""


class Runs(Face[RunOperations]):
    """A durable, leased queue of workflow runs.

    Each call answers the record or `Claim`, or a falsy `Refused` that says why not. All arguments
    are validated before anything is written (`InvalidArgument`). Every writing call takes `call`,
    an id that makes it idempotent, and `actor`, who makes it.
    """

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
