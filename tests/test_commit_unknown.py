"""A connection that is cut around a commit: told apart, and settled by the call id."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from persistence import Store, open_store
from persistence.aio import open_async_store
from statemachine import Refused, RunStatus
from statemachine.errors import CommitUnknown, SqlatchError, StoreUnavailable
from statemachine.machines import Run
from tests.proxy import Proxy

LEASE = timedelta(seconds=30)
TOKEN = bytes(range(32))
LAUNCH: dict[str, Any] = {
    "workflow": "w",
    "source_ref": "r",
    "source": {},
    "definition_digest": "d",
}


@pytest.fixture(name="proxy")
def _proxy(postgres_url: str) -> Iterator[Proxy]:
    with Proxy(postgres_url) as proxy:
        yield proxy


@pytest.fixture(name="cut")
def _cut(proxy: Proxy) -> Iterator[Store]:
    """A store behind the proxy."""
    # Unprepared, each statement's text passes the proxy every time.
    with open_store(proxy.url, through_pooler=True) as store:
        yield store


@pytest.mark.parametrize("heard", [False, True], ids=["before", "after"])
def test_a_cut_creation_is_settled_by_the_same_call(
    proxy: Proxy, cut: Store, *, heard: bool
) -> None:
    """Whether or not the server had committed, the repeated call answers the one run."""
    cut.runs.list()
    proxy.cut_on(b"INSERT INTO runs", forward_first=heard)

    with pytest.raises(CommitUnknown) as trouble:
        cut.runs.reserve(run_id="r1", call="c1", **LAUNCH)
    again = cut.runs.reserve(run_id="r1", call="c1", **LAUNCH)

    assert proxy.cuts == 1
    assert trouble.value.call == "c1"
    assert trouble.value.__cause__ is not None
    assert (again.run_id, again.revision) == ("r1", 1)
    assert [step.transition for step in cut.runs.history("r1")] == ["reserve"]


@pytest.mark.parametrize("heard", [False, True], ids=["before", "after"])
def test_a_cut_creation_without_a_run_id_makes_no_second_run(
    proxy: Proxy, cut: Store, *, heard: bool
) -> None:
    """The id that the first call minted is the repeated call's, too."""
    cut.runs.list()
    proxy.cut_on(b"COMMIT", forward_first=heard)

    with pytest.raises(CommitUnknown) as trouble:
        cut.runs.reserve(call="c1", **LAUNCH)
    again = cut.runs.reserve(call="c1", **LAUNCH)

    assert proxy.cuts == 1
    assert trouble.value.call == "c1"
    assert cut.runs.list() == [again]


@pytest.mark.parametrize("heard", [False, True], ids=["before", "after"])
def test_a_cut_claim_is_settled_by_the_same_call(proxy: Proxy, cut: Store, *, heard: bool) -> None:
    """The same id and token answer the same claim; nothing was claimed twice."""
    cut.runs.reserve(run_id="r1", **LAUNCH)
    proxy.cut_on(b"UPDATE runs", forward_first=heard)

    with pytest.raises(CommitUnknown):
        cut.runs.claim("r1", runner_id="a", lease=LEASE, token=TOKEN, call="c1")
    claim = cut.runs.claim("r1", runner_id="a", lease=LEASE, token=TOKEN, call="c1")

    assert claim
    assert (claim.generation, claim.run.attempts) == (1, 1)
    assert cut.runs.mark_running(claim)


@pytest.mark.parametrize("heard", [False, True], ids=["before", "after"])
def test_a_cut_selection_takes_no_second_run(proxy: Proxy, cut: Store, *, heard: bool) -> None:
    """A repeated `claim_next` of one id answers the run that the first took."""
    for number in range(2):
        cut.runs.reserve(run_id=f"r{number}", **LAUNCH)
    proxy.cut_on(b"COMMIT", forward_first=heard)

    with pytest.raises(CommitUnknown) as trouble:
        cut.runs.claim_next("a", LEASE, token=TOKEN, call="c1")
    assert trouble.value.call == "c1"
    claim = cut.runs.claim_next("a", LEASE, token=TOKEN, call="c1")

    assert claim
    assert claim.run_id == "r0"
    assert RunStatus.QUEUED is _status(cut, "r1")


def test_a_cut_call_of_the_asynchronous_store_names_its_id_too(proxy: Proxy) -> None:
    """Whichever way a call runs, what was unknown is settled by the id."""

    async def story() -> list[str | None]:
        async with await open_async_store(proxy.url, through_pooler=True) as store:
            await store.runs.list()
            proxy.cut_on(b"COMMIT", forward_first=True)
            with pytest.raises(CommitUnknown) as trouble:
                await store.runs.reserve(call="c1", **LAUNCH)
            again = await store.runs.reserve(call="c1", **LAUNCH)
            assert await store.runs.list() == [again]
            proxy.cut_on(b"COMMIT", forward_first=True)
            with pytest.raises(CommitUnknown) as unnamed:
                await store.runs.claim_many("a", LEASE, limit=2)
            return [trouble.value.call, unnamed.value.call]

    assert asyncio.run(story()) == ["c1", None]


@pytest.mark.parametrize("heard", [False, True], ids=["before", "after"])
def test_a_cut_commit_of_a_block_is_unknown(proxy: Proxy, cut: Store, *, heard: bool) -> None:
    """The block happened wholly or not at all; its calls, repeated, settle it."""
    cut.runs.list()
    proxy.cut_on(b"COMMIT", forward_first=heard)

    def block() -> None:
        with cut.transaction():
            cut.runs.reserve(run_id="r1", call="c1", **LAUNCH)
            cut.runs.pause("r1", call="c2")

    with pytest.raises(CommitUnknown) as trouble:
        block()
    assert trouble.value.call is None
    steps = [step.transition for step in cut.runs.history("r1")]
    block()

    assert (["reserve", "pause"] if heard else []) == steps
    assert [step.transition for step in cut.runs.history("r1")] == ["reserve", "pause"]


def test_a_cut_within_a_block_undoes_it(proxy: Proxy, cut: Store) -> None:
    """Nothing was committing: the block is gone, and that is known."""
    cut.runs.list()
    proxy.cut_on(b"UPDATE runs", forward_first=True)

    def block() -> None:
        with cut.transaction():
            cut.runs.reserve(run_id="r1", **LAUNCH)
            cut.runs.pause("r1")

    with pytest.raises(StoreUnavailable):
        block()

    assert cut.runs.get("r1") is None


def test_a_cut_that_a_block_swallows_is_told_at_its_end(proxy: Proxy, cut: Store) -> None:
    """The connection was gone before there was anything to commit: nothing is unknown."""
    cut.runs.list()
    proxy.cut_on(b"UPDATE runs", forward_first=True)

    def block() -> None:
        with cut.transaction():
            cut.runs.reserve(run_id="r1", **LAUNCH)
            with pytest.raises(StoreUnavailable):
                cut.runs.pause("r1")

    with pytest.raises(StoreUnavailable, match="nothing of it was stored"):
        block()

    assert cut.runs.get("r1") is None


def test_a_cut_read_is_no_mystery(proxy: Proxy, cut: Store) -> None:
    """A read that is cut off can simply be repeated."""
    cut.runs.reserve(run_id="r1", **LAUNCH)
    proxy.cut_on(b"SELECT", forward_first=False)

    with pytest.raises(StoreUnavailable):
        cut.runs.get("r1")
    assert isinstance(cut.runs.get("r1"), Run)


def test_a_cut_look_for_more_is_no_mystery(proxy: Proxy, cut: Store) -> None:
    """Nor is the look for rows that others have locked, however its statement begins."""
    proxy.cut_on(b" SELECT (SELECT coalesce", forward_first=False)

    with pytest.raises(StoreUnavailable):
        cut.runs.claim_next("runner", LEASE)
    assert proxy.cuts == 1
    assert isinstance(cut.runs.claim_next("runner", LEASE), Refused)


def test_the_store_works_again_after_all_connections_were_cut(proxy: Proxy, cut: Store) -> None:
    """Idle connections that died are found out once, not one by one."""
    cut.runs.reserve(run_id="r1", **LAUNCH)
    proxy.cut_all()

    with pytest.raises(SqlatchError):
        cut.runs.get("r1")
    assert isinstance(cut.runs.get("r1"), Run)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    """Opening a store on a closed port fails with our error and its cause."""
    with pytest.raises(StoreUnavailable) as trouble:
        open_store("postgresql://nobody@127.0.0.1:9/none", busy_timeout=timedelta(milliseconds=300))

    assert trouble.value.__cause__ is not None


def _status(store: Store, run_id: str) -> RunStatus:
    run = store.runs.get(run_id)
    assert not isinstance(run, Refused)
    assert run is not None
    return run.status
