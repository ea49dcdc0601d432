"""`prune`: forgetting runs that ended long ago, on the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from persistence import ManualClock, open_store
from tests.cli.conftest import Call


def rejected(db: str, days_ago: float, *run_ids: str, project: str = "default") -> None:
    """Have runs ended so long ago."""
    clock = ManualClock(datetime.now(UTC) - timedelta(days=days_ago))
    with open_store(db, clock=clock, project=project) as store:
        for run_id in run_ids:
            store.runs.reserve(
                run_id=run_id,
                workflow="demo",
                source_ref="test:demo",
                source={"kind": "demo"},
                definition_digest="sha256:0",
            )
            assert store.runs.reject(run_id, error_code="e", error_message="m")


def left(call: Call) -> list[str]:
    """Return the runs that are left."""
    return sorted(run["run_id"] for run in call("list", "--json").json)


def test_what_ended_long_ago_is_deleted(call: Call, db: str) -> None:
    """Runs that ended since stay."""
    rejected(db, 31, "old", "older")
    rejected(db, 29, "new")
    said = call("prune", "--older-than", "30d")

    assert (said.code, said.out) == (0, "2 deleted\n")
    assert left(call) == ["new"]
    assert call("prune", "--older-than", "1h", "--json").json == {"deleted": 1}


def test_more_than_one_batch(call: Call, db: str) -> None:
    """All are deleted, however many; no more than were asked for."""
    rejected(db, 2, *(f"r{number:03}" for number in range(205)))
    some = call("prune", "--older-than", "1d", "--limit", "103", "--json").json
    rest = call("prune", "--older-than", "1d", "--json").json

    assert (some, rest) == ({"deleted": 103}, {"deleted": 102})


def test_only_of_a_project(call: Call, db: str) -> None:
    """Runs of other projects stay where one is named."""
    rejected(db, 2, "mine", project="mine")
    rejected(db, 2, "theirs", project="theirs")
    call("prune", "--older-than", "60m", "--project", "mine")

    assert left(call) == ["theirs"]


@pytest.mark.parametrize("age", ["30", "d", "-1d", "1w", "1.5h", "0s", "999999999d", ""])
def test_an_age_that_is_none(call: Call, age: str) -> None:
    """An age that is not understood is wrong usage, and nothing is deleted."""
    call("init")

    assert call("prune", "--older-than", age).code == 2


def test_an_age_must_be_given(call: Call) -> None:
    """Nothing is deleted by default."""
    assert call("prune").code == 2
