"""Weaknesses of the recorded bounds, by their ids, with our answers."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from persistence import Claim, ManualClock, Store, open_store
from statemachine import Actor, InvalidArgument, Reason
from tests.cases.launches import LEASE, queue, take
from tests.conformance.quirks import refused
from tests.conftest import START

TOO_LONG = timedelta(milliseconds=2**53 - 1)
ENQUEUED: dict[str, Any] = {
    "workflow": "demo",
    "source_ref": "demo.py",
    "runner_id": "w",
    "lease": LEASE,
}


def test_a_lease_beyond_all_dates_is_refused(store: Store) -> None:
    """huge-lease-poisons-row: the longest lease is bounded, and what is stored can be read."""
    queue(store, "q", session="s")
    with pytest.raises(InvalidArgument, match="lease must be"):
        store.runs.enqueue(run_id="big", **{**ENQUEUED, "lease": TOO_LONG})
    with pytest.raises(InvalidArgument, match="lease must be"):
        store.runs.claim("q", runner_id="w", lease=TOO_LONG)
    with pytest.raises(InvalidArgument, match="lease must be"):
        store.runs.claim_next("w", TOO_LONG, session_id="s")
    longest = take(store, "q", lease=timedelta(days=36_525))

    assert store.runs.get("big") is None
    assert longest.expires_at == START + timedelta(days=36_525)
    assert store.runs.list() == [longest.run] == [store.runs.find_reservation("s")]
    with pytest.raises(InvalidArgument, match="lease must be"):
        store.runs.renew(longest, lease=TOO_LONG)


def test_instants_are_compared_as_instants(store: Store, clock: ManualClock) -> None:
    """timestamps-stored-verbatim: however an instant is written, the earlier one is the earlier."""
    east, west = timezone(timedelta(hours=5)), timezone(timedelta(hours=-5))
    queue(store, "later", available_at=datetime(2030, 1, 1, 1, tzinfo=west))
    queue(store, "earlier", available_at=datetime(2030, 1, 1, 9, tzinfo=east))
    with pytest.raises(InvalidArgument, match="available_at must be an aware datetime"):
        queue(store, "naive", available_at=datetime(2030, 1, 1))  # noqa: DTZ001 - it is refused
    with pytest.raises(InvalidArgument, match="available_at must be an aware datetime"):
        queue(store, "text", available_at="2026-02-30T00:00:00.000Z")  # type: ignore[arg-type]  # wrong on purpose

    assert refused(store.runs.claim_next("h", LEASE)).reason is Reason.NOTHING
    clock.advance(timedelta(hours=6))
    taken = [store.runs.claim_next("h", LEASE) for _ in range(2)]
    assert [claim.run_id for claim in taken if isinstance(claim, Claim)] == ["earlier", "later"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("source", "x" * 5_000_000),
        ("launch_options", "x" * 5_000_000),
        ("definition_digest", ""),
        ("affinity_runner_id", "w\n"),
        ("parent_run_id", "../x"),
        ("parent_run_id", ""),
        ("parent_run_id", "b"),
    ],
    ids=["source", "launch_options", "digest", "affinity", "parent", "no-parent", "own-parent"],
)
def test_every_field_of_a_creation_is_bounded(store: Store, field: str, value: str) -> None:
    """enqueue-unbounded-fields: enqueue and reserve check all that they store, alike."""
    with pytest.raises(InvalidArgument) as by_enqueue:
        store.runs.enqueue(run_id="b", **{**ENQUEUED, field: value})
    whole: dict[str, Any] = {"source": {}, "definition_digest": "sha256:0", field: value}
    with pytest.raises(InvalidArgument) as by_reserve:
        store.runs.reserve(run_id="b", workflow="demo", source_ref="demo.py", **whole)

    assert by_enqueue.value.field == by_reserve.value.field == field
    assert store.runs.get("b") is None
    assert store.events_after().events == ()


@pytest.mark.parametrize("limit", [-1, 0, 1_001, math.nan, 0.5, True, "1"])
def test_the_feed_checks_its_limit(store: Store, limit: Any) -> None:
    """event-feed-unvalidated: the limit is 1 to 1,000 of whole events."""
    with pytest.raises(InvalidArgument, match="limit must be"):
        store.events_after(limit=limit)


def test_the_feed_checks_who_speaks(store: Store) -> None:
    """event-feed-unvalidated: an event has a type and an actor, and is of a run that exists."""
    queue(store)
    before = store.events_after()
    for type_, actor, field in (
        ("", None, "type"),
        ("started", Actor("host", ""), "actor.name"),
        ("started", Actor("", "w"), "actor.kind"),
    ):
        with pytest.raises(InvalidArgument) as found:
            store.runs.append_event("r", type=type_, actor=actor)
        assert found.value.field == field

    assert refused(store.runs.append_event("none", type="started")).reason is Reason.MISSING
    assert store.events_after() == before


def test_a_lone_surrogate_is_no_part_of_an_id(store: Store) -> None:
    """lone-surrogate-ids: what cannot be stored as it was given is refused before it is."""
    with pytest.raises(InvalidArgument, match="origin_session_id must be"):
        queue(store, session="\ud800")
    with pytest.raises(InvalidArgument, match="session_id must be"):
        store.runs.find_reservation("\ud800")

    assert store.runs.list() == []


@pytest.mark.parametrize("run_id", [123, None, True, ["abc"], b"abc", "abc\n"])
def test_a_run_id_is_text(store: Store, run_id: Any) -> None:
    """validate-coerces: nothing is made a text of."""
    calls = (
        store.runs.get,
        store.runs.cancel,
        store.runs.wake,
        store.runs.history,
        lambda key: store.runs.claim(key, runner_id="w", lease=LEASE),
    )
    for call in calls:
        with pytest.raises(InvalidArgument, match="run_id must be"):
            call(run_id)


def test_a_directory_of_others_keeps_its_mode(tmp_path: Path) -> None:
    """chmods-parent-directory: the file is its owner's alone; the directory is left as it is."""
    tmp_path.chmod(0o755)
    path = tmp_path / "x.sqlite"
    with open_store(str(path)):
        modes = [p.stat().st_mode & 0o777 for p in (tmp_path, path)]

    assert modes == [0o755, 0o600]
