"""Each declared call, tried on the real databases, does what the in-memory machine says."""

from __future__ import annotations

import time

import attrs
import pytest

from persistence import check_machine, open_store
from persistence.checking import Agreement, agree
from persistence.disagreement import Difference
from statemachine.machine import Machine
from statemachine.machines import ALL, RUN_LAUNCH
from statemachine.vocabulary import Put
from tests.mutants import changed, with_transition, without_assignment, without_guard
from tests.order import ORDER

run = attrs.fields(RUN_LAUNCH.record)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """A database of each kind."""
    if request.param == "sqlite":
        return ":memory:"
    found: str = request.getfixturevalue("postgres_server")
    return found


@pytest.mark.parametrize("machine", [*ALL, ORDER], ids=lambda machine: machine.name)
def test_every_call_does_what_was_declared(machine: Machine, url: str) -> None:
    """Verdict, row, refusal and history agree for every call that guards can tell apart."""
    agreement = agree(machine, url)

    assert agreement.disagreements == ()
    assert agreement.missing == ()


def test_what_is_tried_of_run_launch_is_all_there_is() -> None:
    """The number of calls is pinned: a machine that changes shows how much."""
    agreement = agree(RUN_LAUNCH)

    assert _size(agreement) == (2341, 2218, 236, 226)


def test_postgresql_is_tried_in_three_ways(postgres_server: str) -> None:
    """A statement that reads the server's clock, or many calls, is another text: all are tried."""
    agreement = agree(ORDER, postgres_server)

    assert agreement.ways == ("given clock", "server's clock", "in a batch")
    assert _size(agreement) == (93, 4, 10, 10)


def test_nothing_stays_on_the_database(postgres_url: str) -> None:
    """A check leaves no table, and works beside those that are there."""
    with open_store(postgres_url) as store:
        store.runs.reserve(
            workflow="w", source_ref="r", source=None, definition_digest="d", run_id="kept"
        )
        while not (before := store.events_after().events):
            time.sleep(0.01)  # a foreign write transaction delays the feed

        report = check_machine(ORDER, postgres_url)

        assert report
        assert before == store.events_after().events


def test_a_guard_missing_from_the_sql_is_found(url: str) -> None:
    """A database that lets anybody finish a run disagrees with the declaration, and says where."""
    agreement = agree(
        RUN_LAUNCH, url, compiled=without_guard(RUN_LAUNCH, "finish", "held"), only=("finish",)
    )
    found = [one for one in agreement.disagreements if one.difference.about == "verdict"]
    first = found[0]

    assert not agreement
    assert [one.place for one in found] == ["finish from starting", "finish from running"]
    assert str(first).startswith(
        "finish from starting: verdict differs\n"
        "  declared: finish refused: the lease of 'a' is lost; it is starting, held by a"
    )
    assert "\n  database: moved to done\n" in str(first)


def test_a_guard_added_to_the_sql_is_found(url: str) -> None:
    """The database refuses what the declaration lets happen."""
    compiled = with_transition(RUN_LAUNCH, "cancel", when=RUN_LAUNCH.transition("pause").when)
    agreement = agree(RUN_LAUNCH, url, compiled=compiled, only=("cancel", "pause"))

    assert {(one.place, one.difference.about) for one in agreement.disagreements} == {
        ("cancel from queued", "verdict"),
        ("cancel from starting", "verdict"),
    }
    assert agreement.disagreements[0].difference.declared == "moved to cancelled"


def test_an_assignment_missing_from_the_sql_is_found(url: str) -> None:
    """A database that does not count attempts disagrees, column by column."""
    compiled = without_assignment(RUN_LAUNCH, "claim", "attempts")
    agreement = agree(RUN_LAUNCH, url, compiled=compiled, only=("claim",))

    assert {one.place.partition(" ")[0] for one in agreement.disagreements} == {"claim"}
    assert agreement.disagreements[0].difference == Difference("row", "attempts=2", "attempts=1")


def test_another_value_in_the_sql_is_found(url: str) -> None:
    """The stored row is compared, not the verdict alone."""
    assign = tuple(
        Put(run.error_code, "called off") if a.column.name == "error_code" else a
        for a in RUN_LAUNCH.transition("abort").assign
    )
    compiled = with_transition(RUN_LAUNCH, "abort", assign=assign)
    agreement = agree(RUN_LAUNCH, url, compiled=compiled, only=("abort",))

    assert agreement.disagreements[0].difference == Difference(
        "row", "error_code='cancelled'", "error_code='called off'"
    )


def test_a_history_that_says_less_is_found(url: str) -> None:
    """What a transition changed is compared with what its step records."""
    recorded = tuple(column for column in RUN_LAUNCH.recorded if column.name != "paused")
    agreement = agree(
        RUN_LAUNCH,
        url,
        compiled=changed(RUN_LAUNCH, recorded=recorded),
        only=("reserve", "pause", "resume"),
    )

    assert {(one.call, one.difference.about) for one in agreement.disagreements} == {
        ("reserve", "history"),
        ("pause", "history"),
        ("resume", "history"),
    }


def test_a_uniqueness_rule_missing_from_the_tables_is_found(url: str) -> None:
    """Where the second row of a session gets in, the call disagrees."""
    rules = tuple(rule for rule in RUN_LAUNCH.uniqueness if rule.name != "session reservation")
    compiled = changed(RUN_LAUNCH, uniqueness=rules, selections=())
    agreement = agree(RUN_LAUNCH, url, compiled=compiled, only=("adopt",))
    found = [one for one in agreement.disagreements if one.call == "adopt"]

    assert found[0].place == "adopt from queued"
    assert (
        found[0].difference.declared
        == "adopt refused: 'a' is queued, but 'session reservation' is taken by 'c'"
    )
    assert found[0].difference.found == "moved to queued"


@pytest.mark.parametrize(
    ("machine", "place", "invariant"),
    [
        (
            without_assignment(RUN_LAUNCH, "park", "lease_holder"),
            "park from starting",
            "the lease is whole or absent",
        ),
        (
            without_assignment(RUN_LAUNCH, "rebind", "waiting"),
            "rebind from parked",
            "waiting only while parked",
        ),
        (
            without_assignment(RUN_LAUNCH, "reap", "outcome"),
            "reap from starting",
            "an outcome exactly when final",
        ),
        (
            without_assignment(ORDER, "ship", "parcel"),
            "ship from paid",
            "shipped exactly with a parcel",
        ),
    ],
    ids=["lease not dropped on park", "waiting left on", "no outcome", "no parcel"],
)
def test_an_invariant_broken_by_one_transition_is_no_agreement(
    machine: Machine, place: str, invariant: str, url: str
) -> None:
    """Both sides moving into a forbidden row alike is a failure, told with the row it began in."""
    agreement = agree(machine, url, only=(place.partition(" ")[0],))
    found = [one for one in agreement.disagreements if one.difference.about == "invariant"]

    assert found[0].place == place
    assert found[0].difference.declared == f'"{invariant}" holds of every row'
    assert f" {machine.key.name}='" in str(found[0])


def test_the_report_says_what_was_covered() -> None:
    """States, edges, calls and time; nothing else when all is well."""
    report = check_machine(ORDER, helpers=("pay", "ship"))
    heading, *lines = str(report).splitlines()

    assert report
    assert heading.startswith("order on sqlite, ")
    assert lines == [
        (
            "  agreement: 31 calls (4 ruled out by invariants), 5 with another row in the way,"
            " 5 creations; given clock"
        ),
        "  reachable: 14 states, 19 edges",
        "  covered:   4 of 4 transitions, 3 invariants, 1 uniqueness rules",
    ]


def test_the_report_tells_of_whatever_is_wrong() -> None:
    """A stuck row, told with the way there, makes the report false."""
    report = check_machine(ORDER, helpers=("ship",))

    assert not report
    assert report.findings() == (str(report.stuck[0]),)
    assert str(report).endswith('—place→ pending: "ship lead to a final state" fails')


def test_progress_is_told_to_the_end() -> None:
    """A caller can draw a bar: each stage ends with all of it done."""
    told: list[tuple[str, int, int]] = []
    check_machine(ORDER, progress=lambda *step: told.append(step))

    assert told == [
        ("comparing", 31, 36),
        ("comparing", 36, 36),
        ("exploring", 0, 1),
        ("exploring", 1, 1),
    ]


def _size(agreement: Agreement) -> tuple[int, int, int, int]:
    return agreement.cells, agreement.left_out, agreement.slots, agreement.births
