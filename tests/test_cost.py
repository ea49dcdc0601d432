"""What does not concern a claim does not cost it anything; `python -m tests.cost` measures it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from persistence import Claim, open_store
from persistence.backends.sqlite import SqliteBackend
from tests.cost import LEASE, Load, fill, loads

FEW, MORE, TAKEABLE = 100, 3_000, 20


def steps_of_a_claim(path: Path, load: Load) -> int:
    """Fill a database, and return how many steps SQLite's machine makes for one claim."""
    fill(str(path), load, takeable=TAKEABLE)
    count = itertools.count()
    with open_store(str(path)) as store:
        store.runs.claim_next("w", LEASE)  # prepares the statement
        assert isinstance(store.engine.backend, SqliteBackend)
        with store.engine.backend.session() as session:
            session._driver.set_progress_handler(lambda: next(count) < 0, 1)
            claim = store.runs.claim_next("w", LEASE)
            session._driver.set_progress_handler(None, 1)
    assert isinstance(claim, Claim)
    return next(count)


@pytest.mark.parametrize("number", range(1, len(loads())), ids=lambda n: loads()[n].name)
def test_claim_makes_as_many_steps(tmp_path: Path, number: int) -> None:
    """Rows that their own fields rule out cost a claim no step, however many they are.

    Those that only the moment rules out cost some steps each; the documentation says so.
    """
    few, more = loads(FEW, FEW)[number], loads(MORE, MORE)[number]
    alone = steps_of_a_claim(tmp_path / "alone.db", loads(0, 0)[0])
    beside_few = steps_of_a_claim(tmp_path / "few.db", few)
    beside_more = steps_of_a_claim(tmp_path / "more.db", more)

    if few.ruled_out:
        assert beside_more <= alone * 1.05
    else:
        assert beside_few < beside_more < alone * (more.count + 1)


def test_figures_are_of_the_right_runs(database: str) -> None:
    """Whatever stands at the head, the oldest run that can be taken is taken."""
    if database == ":memory:":
        pytest.skip("a database in memory is opened once")
    pinned = next(load for load in loads(FEW * 100) if load.name.startswith("pinned"))

    fill(database, pinned, takeable=TAKEABLE)

    with open_store(database) as store:
        claims = [store.runs.claim_next("w", LEASE) for _ in range(2)]
        assert [claim.run_id for claim in claims if claim] == ["younger", "younger-1"]
