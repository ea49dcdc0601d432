"""A creation that is called again under its call id makes nothing new, named or not."""

from __future__ import annotations

import enum
import threading
import traceback
from typing import Any

import pytest

from persistence import Cancelled, Claim, ManualClock, Store
from persistence.stores.rows import Rows
from statemachine.errors import IdentityConflict, IllegalTransition, InvalidArgument
from statemachine.machines import RUN_LAUNCH
from tests.cases.launches import LEASE

LAUNCH: dict[str, Any] = {"workflow": "w", "source_ref": "s", "definition_digest": "d"}
TOKEN = b"t" * 32


class Name(str, enum.Enum):  # noqa: UP042 - such enums are about, and their `str` is another text
    """Names that an application keeps as an enum."""

    RUN = "r1"
    WORKFLOW = "deploy"


def test_a_repeated_creation_keeps_the_run_id_that_was_minted(
    store: Store, clock: ManualClock
) -> None:
    """Whoever retries a call without a run id gets the run of the first try."""
    first = store.runs.reserve(source=None, call="c1", **LAUNCH)
    clock.advance(LEASE)
    again = store.runs.reserve(source=None, call="c1", **LAUNCH)
    other = store.runs.reserve(source=None, call="c2", **LAUNCH)

    assert again == first
    assert other.run_id != first.run_id
    assert [run.run_id for run in store.runs.list()] == [first.run_id, other.run_id]


def test_a_repeated_birth_answers_its_claim(store: Store) -> None:
    """The same call and token: the same claim."""
    claims = [
        store.runs.enqueue(runner_id="a", lease=LEASE, call="c1", token=TOKEN, **LAUNCH)
        for _ in range(2)
    ]

    assert isinstance(claims[0], Claim)
    assert claims[0] == claims[1]
    assert len(store.runs.list()) == 1


def test_a_call_id_of_something_else_creates_nothing(store: Store) -> None:
    """Other facts, or another move, under one id are a conflict."""
    run = store.runs.reserve(source=None, call="c1", **LAUNCH)
    assert store.runs.pause(run.run_id, call="c2")
    paused = store.runs.get(run.run_id)

    with pytest.raises(IdentityConflict, match="facts_digest"):
        store.runs.reserve(source="another", call="c1", **LAUNCH)
    with pytest.raises(IdentityConflict, match="call id of pause"):
        store.runs.reserve(source=None, call="c2", **LAUNCH)

    assert store.runs.list() == [paused]


def test_concurrent_creations_of_one_call_make_one_run(store: Store) -> None:
    """Each of four threads is answered the one run."""
    ready, answers = threading.Barrier(4), []

    def create() -> None:
        ready.wait()
        answers.append(store.runs.reserve(source=None, call="c1", **LAUNCH).run_id)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [run.run_id for run in store.runs.list()] * 4


def test_a_text_of_an_enum_is_stored_as_the_text_that_it_is(store: Store) -> None:
    """What is stored is what was judged, not the name of the enum's member."""
    launch = {**LAUNCH, "workflow": Name.WORKFLOW}
    run = store.runs.reserve(run_id=Name.RUN, source=None, **launch)

    assert (run.run_id, run.workflow) == ("r1", "deploy")
    assert (type(run.run_id), type(run.workflow)) == (str, str)
    assert store.runs.get(Name.RUN) == run
    assert isinstance(store.runs.cancel(Name.RUN), Cancelled)


def test_a_refused_row_shows_no_private_value(store: Store) -> None:
    """A database that refuses a row may say which; its private columns are not ours to print."""
    given = {
        **LAUNCH,
        "run_id": "r1",
        "project": "p",
        "source": None,
        "facts_digest": "0" * 64,
        "input": "the secret",
        "launch_options": {},
        "execution_mode": "interactive",
    }
    rows: Rows = store.machine(RUN_LAUNCH)

    with pytest.raises((IllegalTransition, InvalidArgument)) as trouble:
        rows.create("reserve", given)

    assert "an interactive run has a session" in str(trouble.value)
    assert "the secret" not in "".join(traceback.format_exception(trouble.value))
