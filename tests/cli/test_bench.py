"""`bench`: it measures what it says, with tiny numbers; the figures themselves are no test."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import attrs
import psycopg
import pytest

from persistence.cli.bench.backlogs import claims
from persistence.cli.bench.contenders import Contender, MeasuredWrong, moved
from persistence.cli.bench.figures import Figure, rates, times
from persistence.cli.bench.places import scratch
from persistence.cli.bench.works import duel, ring
from statemachine.machines import RunStatus
from tests.cli.conftest import Call

_OWN = {"run_id", "facts_digest", "last_call", "last_actor", "last_actor_kind"}
"""What is each run's own, or its caller's."""

TINY = ("--rounds", "1", "--runs", "4", "--backlog", "10", "--processes", "2", "--json")
WORKS = [
    "lifecycle of 4 steps",
    "drain, 2 processes",
    "renewals",
    "drain in batches of 50",
    "claim_next, 1,000 queued",
    "claim_next, 10 queued",
    "claim_next, 10 final kept",
]


def test_on_a_file(call: Call, db: str, tmp_path: Path) -> None:
    """Everything is measured beside the file, which is not touched, and nothing is left there."""
    said = call("bench", *TINY)

    assert said.code == 0
    assert [one["work"] for one in said.json] == [*WORKS, "lifecycle of 4 steps"]
    assert all(one["ours"] > 0 and one["hand"] > 0 for one in said.json)
    assert "synchronous=normal; fdatasync " in said.json[0]["place"]
    assert "synchronous=full; fdatasync " in said.json[-1]["place"]
    assert (Path(db).exists(), list(tmp_path.iterdir())) == (False, [])


def _schemas(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, 'sqlatch_bench_')"
        ).fetchall()
    return {str(name) for (name,) in rows}


def test_on_a_server(call: Call, postgres_url: str) -> None:
    """Everything is measured in schemas of its own, which are dropped."""
    before = _schemas(postgres_url)
    said = call("bench", *TINY, "--db", postgres_url)
    left = _schemas(postgres_url) - before

    assert said.code == 0
    assert [one["work"] for one in said.json] == WORKS
    assert "; one commit " in said.json[0]["place"]
    assert left == set()


def test_one_work_as_a_table(call: Call) -> None:
    """`--only` measures what it names."""
    said = call("bench", "--only", "renewals", "--rounds", "1", "--runs", "2")

    assert said.code == 0
    assert "renewals/s" in said.out
    assert "lifecycle" not in said.out


def test_nowhere(call: Call, tmp_path: Path) -> None:
    """A directory that is not there is store trouble."""
    assert call("bench", "--db", str(tmp_path / "missing" / "x.db")).code == 3


def test_both_do_the_same_work(tmp_path: Path) -> None:
    """Of each contender's lifecycle the row and the history tell the same."""
    with scratch(str(tmp_path / "x.db")) as place, ring(place) as both:
        told = []
        for contender in (both.ours, both.twin):
            (run_id,) = both.fresh(1)
            _live(contender, run_id)
            run = both.ours.store.runs.get(run_id)
            assert run is not None
            steps = both.ours.store.runs.history(run_id)
            row = {name: value for name, value in attrs.asdict(run).items() if name not in _OWN}
            instants = {name for name, value in row.items() if isinstance(value, datetime)}
            facts = {name: name in instants or value for name, value in row.items()}
            told.append((facts, [(step.transition, step.source, step.dest) for step in steps]))
            # It answers the stored run, so what was digested is the same.
            both.ours.reserve(run_id)

    assert (told[0][0]["status"], told[0][0]["result"]) == (RunStatus.DONE, {"ok": True})
    assert [name for name, *_ in told[0][1]] == ["reserve", "claim", "mark_running", "finish"]
    assert told[0] == told[1]


def _live(contender: Contender, run_id: str) -> None:
    contender.reserve(run_id)
    held = contender.take()
    contender.start(held)
    contender.renew(held)
    contender.end(held)


def test_both_take_the_same_batch(database: str, tmp_path: Path) -> None:
    """A batch of either is as long as it was asked for, and is finished by it."""
    db = str(tmp_path / "x.db") if database == ":memory:" else database
    with scratch(db) as place, ring(place) as both:
        taken = []
        contenders: list[Contender] = [both.ours, both.twin]
        for contender in contenders:
            both.twin.fill(both.fresh(5))
            held = [contender.take_many(3), contender.take_many(3), contender.take_many(3)]
            for batch in held:
                contender.end_many(batch)
            taken.append([len(batch) for batch in held])
        done = both.ours.store.runs.list(statuses=[RunStatus.DONE])

    assert taken == [[3, 2, 0], [3, 2, 0]]
    assert len(done) == 10


def test_turns_are_taken_and_the_first_round_is_forgotten(tmp_path: Path) -> None:
    """Neither is always the first of a round."""
    order: list[Contender] = []

    def work(contender: Contender) -> float:
        order.append(contender)
        return float(len(order))

    with scratch(str(tmp_path / "x.db")) as place, ring(place) as both:
        ours, hand = duel(both, 2, work)
        a, b = both.ours, both.twin

    assert order == [b, a, a, b, b, a]
    assert (ours, hand) == ([3.0, 6.0], [4.0, 5.0])


def test_the_load_stays_while_it_is_measured(tmp_path: Path) -> None:
    """What is taken was added before, so that the backlog is as long as it is said to be."""
    told: list[str] = []
    figures = claims(str(tmp_path / "x.db"), rounds=2, runs=3, backlog=7, progress=told.append)

    assert [figure.growth is None for figure in figures] == [True, False, False]
    assert len(told) == 4


def test_a_ratio_is_of_medians() -> None:
    """An outlier does not count; more is better of rates, less of times."""
    rate = rates("w", "u", [8.0, 8.0, 1.0], [10.0, 10.0, 900.0], 0.9)
    time = times("w", [0.002, 0.002, 9.0], [0.001, 0.001, 0.001], least=0.001)

    assert (rate.ratio, rate.reached) == (0.8, False)
    assert (time.ratio, time.growth, time.reached) == (0.5, 2.0, False)
    assert rate.cells[4:] == ("0.80", "≥ 0.90", "", "missed")


def test_nothing_promised_is_nothing_missed() -> None:
    """A figure without a target is reached."""
    figure = Figure(work="w", unit="u", ours=1, hand=2, ratio=0.5)

    assert figure.reached


def test_a_call_that_did_nothing_is_no_measurement() -> None:
    """What does not move ends the measurement."""
    with pytest.raises(MeasuredWrong):
        moved(())
