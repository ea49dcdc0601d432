"""Leases and their keeper: held only while they surely are, renewed in time, lost once."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from persistence import Claim, ManualClock, Store, open_store
from persistence.hosts.keeper import LeaseKeeper
from persistence.hosts.lease import Lease, LeaseTerms
from persistence.hosts.steady import steady_seconds
from statemachine.errors import InvalidArgument, LeaseLost, StoreBusy, StoreUnavailable
from tests.hosts.virtual import FaultyRuns, Time, reserve

TERMS = LeaseTerms(lease=timedelta(seconds=10), renew_every=timedelta(seconds=3), jitter=0.1)


@pytest.fixture
def virtual(clock: ManualClock) -> Time:
    """Virtual time, shared by store and leases."""
    return Time(clock)


def claimed(store: Store, run_id: str = "r1", runner_id: str = "a") -> Claim:
    """Take a new run and mark it running."""
    reserve(store.runs, run_id)
    claim = store.runs.claim(run_id, runner_id=runner_id, lease=TERMS.lease)
    assert claim
    assert store.runs.mark_running(claim)
    return claim


def keeper_of(store: Store, virtual: Time, faulty: FaultyRuns | None = None) -> LeaseKeeper:
    """Return a keeper on virtual time that the test drives by `renew_due`."""
    return LeaseKeeper(
        faulty or store.runs, TERMS, now=virtual.now, chance=random.Random(1), in_background=False
    )


def taken_by_another(store: Store) -> None:
    """Have somebody else take the run; its lease must have run out."""
    assert store.runs.claim("r1", runner_id="b", lease=timedelta(minutes=5))


@pytest.mark.parametrize(
    ("lease_s", "renew_every_s", "jitter"),
    [(10, 5, 0), (10, 4.5, 0), (10, 4.2, 0.1), (30, 30, 0.1), (10, 0, 0), (10, -1, 0), (10, 3, 1)],
)
def test_terms_without_room_for_a_missed_renewal(
    lease_s: float, renew_every_s: float, jitter: float
) -> None:
    """A period that with its jitter leaves no room for one missed renewal is refused (HBT-01)."""
    with pytest.raises(InvalidArgument):
        LeaseTerms(
            lease=timedelta(seconds=lease_s),
            renew_every=timedelta(seconds=renew_every_s),
            jitter=jitter,
        )


def test_default_terms() -> None:
    """A lease is 30 s long and renewed every 10 s unless it is said otherwise."""
    terms = LeaseTerms()

    assert (terms.lease, terms.renew_every) == (timedelta(seconds=30), timedelta(seconds=10))


def test_held_is_answered_locally(store: Store, virtual: Time) -> None:
    """Held ends when the lease does, counted from before the claim was sent, without the store."""
    claim = claimed(store)
    lease = keeper_of(store, virtual).lease(claim, sent_at=virtual.steady - 2)
    store.close()

    seen = []
    for seconds in (7.9, 0.2, 100):
        virtual.steady += seconds
        seen.append(lease.held)

    assert seen == [True, False, False]


def test_lost_for_good(store: Store, virtual: Time) -> None:
    """A lease that has run out is not revived by a renewal that is answered later (LSE-05)."""
    faulty = FaultyRuns(store.runs, after=lambda: virtual.advance(15))
    keeper = keeper_of(store, virtual, faulty)
    lease = keeper.lease(claimed(store), sent_at=virtual.steady)
    lost: list[Lease] = []
    with keeper.keep(lease, on_lost=lost.append):
        virtual.advance(5)
        keeper.renew_due()

    assert (faulty.renewals, lease.held, lost) == (1, False, [lease])


def test_stalled_store_does_not_prolong(store: Store, virtual: Time) -> None:
    """While a renewal stalls, held turns False at the old expiry, not later."""
    keeper = keeper_of(store, virtual)
    lease = keeper.lease(claimed(store), sent_at=virtual.steady)
    seen: list[bool] = []

    def stall() -> None:
        for seconds in (4.9, 0.2, 5.9):
            virtual.advance(seconds)
            seen.append(lease.held)
        taken_by_another(store)

    keeper = keeper_of(store, virtual, FaultyRuns(store.runs, before=stall))
    with keeper.keep(lease):
        virtual.advance(5)
        keeper.renew_due()

    assert seen == [True, False, False]
    assert not lease.held


def test_renewal_extends(store: Store, virtual: Time) -> None:
    """Each renewal, sent in time, moves the expiry here and in the store by a whole lease."""
    keeper = keeper_of(store, virtual)
    lease = keeper.lease(claimed(store), sent_at=virtual.steady)
    with keeper.keep(lease):
        virtual.advance(3.4)
        keeper.renew_due()

        assert lease.deadline == virtual.steady + 10
        assert lease.expires_at == virtual.clock.now() + timedelta(seconds=10)


@pytest.mark.parametrize("extreme", [-1.0, 1.0])
def test_one_renewal_in_five_is_missed(store: Store, virtual: Time, extreme: float) -> None:
    """With the greatest jitter and every fifth renewal failing the lease never ends (HBT-01)."""

    def fail_sometimes() -> None:
        if faulty.renewals % 5 == 0:
            raise StoreBusy("locked")

    class Extreme(random.Random):
        """Draws the end of each interval."""

        def uniform(self, a: float, b: float) -> float:
            return a if extreme < 0 else b

    faulty = FaultyRuns(store.runs, before=fail_sometimes)
    keeper = LeaseKeeper(faulty, TERMS, now=virtual.now, chance=Extreme(), in_background=False)
    lease = keeper.lease(claimed(store), sent_at=virtual.steady)
    least = 10.0
    with keeper.keep(lease):
        until = virtual.steady + 10 * 10
        while virtual.steady < until:
            virtual.advance(keeper.renew_due() or 0.001)
            least = min(least, lease.work_until - virtual.steady)

    assert faulty.renewals > 30
    assert least > 0
    assert lease.held


def test_refused_renewal_loses_the_lease(store: Store, virtual: Time) -> None:
    """When somebody else has taken the run the lease is lost, and the host is told once."""
    keeper = keeper_of(store, virtual)
    lease = keeper.lease(claimed(store), sent_at=virtual.steady)
    lost: list[Lease] = []
    with keeper.keep(lease, on_lost=lost.append):
        # The wall clock was set forward; the steady one knows nothing of it.
        virtual.clock.advance(timedelta(seconds=60))
        taken_by_another(store)
        virtual.steady += 4
        keeper.renew_due()
        virtual.steady += 4
        keeper.renew_due()

    assert (lease.held, lost) == (False, [lease])


def test_database_trouble_is_borne_until_the_expiry(store: Store, virtual: Time) -> None:
    """A database out of reach is asked again until the lease runs out; only then it is lost."""

    def fail() -> None:
        raise StoreUnavailable("gone")

    faulty = FaultyRuns(store.runs, before=fail)
    keeper = keeper_of(store, virtual, faulty)
    lease = keeper.lease(claimed(store), sent_at=virtual.steady)
    began = virtual.steady
    lost: list[float] = []
    with keeper.keep(lease, on_lost=lambda _: lost.append(virtual.steady - began)):
        while not lost:
            virtual.advance(keeper.renew_due() or 0.001)

    assert faulty.renewals > 10
    assert lost[0] == pytest.approx(10, abs=0.01)


def test_trouble_that_passes_costs_nothing(store: Store, virtual: Time) -> None:
    """A renewal that works again before the expiry keeps the lease."""

    def fail_early() -> None:
        if faulty.renewals < 8:
            raise StoreBusy("locked")

    faulty = FaultyRuns(store.runs, before=fail_early)
    keeper = keeper_of(store, virtual, faulty)
    lease = keeper.lease(claimed(store), sent_at=virtual.steady)
    with keeper.keep(lease):
        while faulty.renewals < 8:
            virtual.advance(keeper.renew_due() or 0.001)
        keeper.renew_due()

    assert lease.held
    assert lease.deadline > virtual.steady + 9


def test_renewal_after_the_end_is_no_loss(store: Store, virtual: Time) -> None:
    """A renewal that crosses the call which ends the run is refused, but nothing was lost."""
    keeper = keeper_of(store, virtual)
    lease = keeper.lease(claimed(store), sent_at=virtual.steady)
    lost: list[Lease] = []
    with keeper.keep(lease, on_lost=lost.append):
        lease.settle()
        assert store.runs.finish(lease.claim)
        virtual.advance(4)
        keeper.renew_due()

    assert lost == []


def test_check_asks_the_store(store: Store, virtual: Time) -> None:
    """`check` passes while the store agrees, and raises as soon as another has the run."""
    keeper = keeper_of(store, virtual)
    lease = keeper.lease(claimed(store), sent_at=virtual.steady)

    lease.check()
    virtual.clock.advance(timedelta(seconds=60))
    taken_by_another(store)

    assert lease.held
    with pytest.raises(LeaseLost, match=r"'r1' .generation 1. is lost"):
        lease.check()
    assert not lease.held


def test_check_of_a_run_that_has_ended(store: Store, virtual: Time) -> None:
    """`check` raises once the run is final, whoever ended it."""
    lease = keeper_of(store, virtual).lease(claimed(store), sent_at=virtual.steady)
    assert store.runs.finish(lease.claim)

    with pytest.raises(LeaseLost):
        lease.check()


def test_cancellation_is_learnt_at_a_renewal(store: Store, virtual: Time) -> None:
    """A requested cancellation is known to the holder after its next renewal."""
    keeper = keeper_of(store, virtual)
    lease = keeper.lease(claimed(store), sent_at=virtual.steady)
    with keeper.keep(lease):
        store.runs.cancel("r1")
        before = lease.cancel_requested
        virtual.advance(4)
        keeper.renew_due()

        assert (before, lease.cancel_requested) == (False, True)


def test_many_leases_one_keeper(store: Store, virtual: Time) -> None:
    """One keeper renews many leases, and the loss of one leaves the others."""
    keeper = keeper_of(store, virtual)
    leases = [keeper.lease(claimed(store, f"r{n}"), sent_at=virtual.steady) for n in range(1, 6)]
    lost: list[str] = []
    with ExitStack() as kept:
        for lease in leases:
            kept.enter_context(keeper.keep(lease, on_lost=lambda gone: lost.append(gone.run_id)))
        store.runs.finish(leases[0].claim)
        virtual.advance(4)
        keeper.renew_due()

    assert lost == ["r1"]
    assert [lease.held for lease in leases] == [False, True, True, True, True]


def test_repr_tells_no_token(store: Store, virtual: Time) -> None:
    """What is logged of a lease holds no token."""
    lease = keeper_of(store, virtual).lease(claimed(store), sent_at=virtual.steady)

    assert repr(lease) == "Lease('r1', generation=1, held)"


def test_background_thread(tmp_path: Path) -> None:
    """The keeper's own thread keeps a short lease for many times its length, then ends."""
    terms = LeaseTerms(lease=timedelta(seconds=0.6), renew_every=timedelta(seconds=0.1))
    with open_store(str(tmp_path / "real.db")) as store:
        reserve(store.runs, "r1")
        keeper = LeaseKeeper(store.runs, terms)
        sent_at = steady_seconds()
        claim = store.runs.claim("r1", runner_id="a", lease=terms.lease)
        assert claim
        lease = keeper.lease(claim, sent_at=sent_at)
        with keeper.keep(lease):
            time.sleep(1.5)
            kept = store.runs.verify(lease.claim)
        keeper.close()

    assert (kept, lease.held) == (True, True)
