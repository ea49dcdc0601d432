"""Several processes on one database: what they saw can be told as if they had come one by one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from persistence import ManualClock, Store, SystemClock, open_store
from persistence.observing import Observer
from statemachine import Refused
from statemachine.errors import IdentityConflict, InvalidArgument
from statemachine.kinds import Row
from statemachine.linearize import Observed, linearize
from statemachine.machine import Machine
from statemachine.outcome import Actor, Reason
from statemachine.simulate import create, decide
from tests import hammering
from tests.conftest import START
from tests.hammering import MACHINES, OWN, Task, hammer
from tests.order import ORDER

ROWS, CALLS = 12, 15


@pytest.fixture(scope="module", name="hammers")
def _hammers() -> Iterator[ProcessPoolExecutor]:
    with hammering.hammers() as started:
        yield started


@pytest.fixture(name="url", params=["sqlite-file", "postgresql"])
def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database that several processes can open."""
    if request.param == "sqlite-file":
        return str(tmp_path / "many.db")
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture(name="store")
def _store(url: str) -> Iterator[Store]:
    """The referee's own store, which lays the tables out."""
    with open_store(url, clock=SystemClock(), machines=OWN) as opened:
        yield opened


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_what_processes_saw_happened_one_by_one(
    url: str, store: Store, hammers: ProcessPoolExecutor, machine: Machine
) -> None:
    """Each call took effect at one moment while it lasted, as the in-memory machine says.

    In that order no law of leases is broken: at most one holds a row at any moment. The history
    that the database wrote has the same order.
    """
    seen = hammer(hammers, Task(url, machine.name, ROWS, CALLS))

    assert len(seen) == ROWS
    for key, notes in seen.items():
        found = linearize(machine, notes)
        assert found, f"{key}\n{found}"
        steps = [event.call for event in store.machine(machine).history(key, limit=1_000)]
        placed = dict.fromkeys(call.call for call in found.order if call.call in steps)
        assert list(placed) == steps
    assert _overlaps(seen) > ROWS * CALLS


def _overlaps(seen: dict[str, list[Observed]]) -> int:
    """Count the calls that were made while another on the same row lasted."""
    return sum(
        one.began < other.began < (one.ended or 0)
        for notes in seen.values()
        for one in notes
        for other in notes
    )


@pytest.mark.parametrize(
    ("machine", "transition", "guard"),
    [
        ("run_launch", "claim", "free"),
        ("run_launch", "renew", "held"),
        ("turn_intent", "release", "held"),
        ("notification", "claim", "free"),
        ("order", "remind", "patient"),
    ],
)
@pytest.mark.usefixtures("store")
def test_a_guard_that_the_sql_lacks_is_found(
    url: str, hammers: ProcessPoolExecutor, machine: str, transition: str, guard: str
) -> None:
    """Statements that were compiled without one guard answer what no order of calls can explain."""
    declared = next(known for known in MACHINES if known.name == machine)

    # A row may end before the guard that is missing matters: many rows make that unlikely for all.
    seen = hammer(hammers, Task(url, machine, ROWS * 6, CALLS, fault=(transition, guard)))

    found = [linearize(declared, notes) for notes in seen.values()]
    wrong = [one for one in found if not one]
    assert wrong
    assert any(call.name == transition for one in wrong for call in one.left)


NOW = 1_893_456_000_000
A, B = Actor("process", "a"), Actor("process", "b")


def _placed() -> Row:
    return create(ORDER, "place", {"order_id": "o", "basket": "b"}, NOW).row


def _paid(actor: Actor = A, call: str = "pay") -> Row:
    verdict = decide(ORDER, _placed(), "pay", {}, NOW, actor=actor, call=call)
    assert not isinstance(verdict, Refused)
    return verdict.row


def _note(
    name: str | None, began: int, ended: int | None, answer: Row | Refused | None, by: Actor = A
) -> Observed:
    return Observed(
        name=name, now=NOW, began=began, ended=ended, answer=answer, actor=by, call=f"{name}"
    )


PAID_ALREADY = Refused(transition="pay", reason=Reason.STATE, key="o", state="paid")


def test_overlapping_calls_may_have_come_in_either_order() -> None:
    """The one that was refused began and ended first, yet came second."""
    calls = [_note("pay", 0, 9, PAID_ALREADY, B), _note("pay", 5, 12, _paid())]

    found = linearize(ORDER, calls, _placed())

    assert found
    assert [call.actor for call in found.order] == [A, B]


def test_a_call_sees_what_had_ended_before_it() -> None:
    """A refusal for a payment that had not begun yet is none that the machine gives."""
    calls = [_note("pay", 0, 4, PAID_ALREADY, B), _note("pay", 5, 12, _paid())]

    assert not linearize(ORDER, calls, _placed())


def test_a_stale_read_is_found() -> None:
    """Who reads after a payment was answered must see it."""
    calls = [_note("pay", 0, 4, _paid()), _note(None, 5, 6, _placed(), B)]

    found = linearize(ORDER, calls, _placed())

    assert not found
    assert "none of these can come next" in str(found)
    assert [call.name for call in found.left] == [None]


def test_two_winners_of_one_race_are_found() -> None:
    """Two that both paid cannot both have been first."""
    calls = [_note("pay", 0, 9, _paid()), _note("pay", 1, 8, _paid(B), B)]

    assert not linearize(ORDER, calls, _placed())


def test_a_call_without_an_answer_may_have_happened() -> None:
    """A payment that was never answered explains what the next one sees, and need not."""
    cut = _note("pay", 0, None, None)

    assert linearize(ORDER, [cut, _note(None, 5, 6, _paid(), B)], _placed())
    assert linearize(ORDER, [cut, _note(None, 5, 6, _placed(), B)], _placed())
    twice = [_note(None, 5, 6, _paid(), B), _note(None, 7, 8, _placed(), B)]
    assert not linearize(ORDER, [cut, *twice], _placed())


def test_an_observer_needs_to_know_the_clock(postgres_url: str) -> None:
    """What the server's clock says to a statement is not known, so nothing could be compared."""
    with open_store(postgres_url) as store, pytest.raises(InvalidArgument, match="clock"):
        Observer.of(store, ORDER)


def test_an_error_is_noted_as_no_answer(tmp_path: Path) -> None:
    """Where a call ends in an error, the note says that nobody knows whether it happened."""
    with open_store(str(tmp_path / "o.db"), clock=ManualClock(START), machines=OWN) as store:
        observer = Observer.of(store, ORDER)
        observer.create("place", {"order_id": "o", "basket": "b"})
        with pytest.raises(IdentityConflict):
            observer.create("place", {"order_id": "o", "basket": "another"})

    answered, cut = observer.notes["o"]
    assert (answered.ended is None, cut.ended is None) == (False, True)
    assert linearize(ORDER, observer.notes["o"])
