"""Cases about handles and declarations: stale ones, copied ones, and states of every enum."""

from __future__ import annotations

import copy
import enum
import pickle
from multiprocessing import get_context
from pathlib import Path

import attrs
import pytest

from persistence import Claim, Store, open_store
from statemachine import Reason, Refused, Run
from statemachine.errors import MachineError
from statemachine.kinds import Text
from statemachine.machine import Creation, Machine, Transition
from statemachine.machines import RUN_LAUNCH
from statemachine.simulate import decide
from statemachine.vocabulary import Param, Set
from tests.cases.launches import LEASE, queue, start, take


def test_fsm_01_a_stale_handle_is_told_the_real_state(store: Store) -> None:
    """FSM-01: two copies of a queued run; one is cancelled, the other cannot be started."""
    queue(store)
    first, second = store.runs.get("r"), store.runs.get("r")
    assert first is not None
    assert second is not None
    begun = []

    assert store.runs.cancel(first.run_id)
    claim = store.runs.claim(second.run_id, runner_id="w", lease=LEASE)
    if claim:
        begun.append(claim)

    assert isinstance(claim, Refused)
    assert (claim.reason, claim.state) == (Reason.STATE, "cancelled")
    assert begun == []
    assert second.status == "queued"
    assert [event.transition for event in store.runs.history("r")] == ["reserve", "cancel"]


def _finish(url: str, claim: Claim, machine: Machine) -> tuple[object, bool]:
    """Work with what came from another process."""
    known = machine == RUN_LAUNCH and machine.transition("claim").name == "claim"
    with open_store(url) as store:
        return store.runs.finish(claim, result="from afar"), known


def test_fsm_05_definitions_claims_and_answers_go_to_other_processes(tmp_path: Path) -> None:
    """FSM-05: what is copied is equal and works; the claim keeps token and generation."""
    url = str(tmp_path / "runs.db")
    with open_store(url) as store:
        queue(store)
        claim = start(store)
        refused = store.runs.claim("r", runner_id="w", lease=LEASE)
        for whole in (RUN_LAUNCH, claim, refused, store.runs.history("r")):
            assert pickle.loads(pickle.dumps(whole)) == whole  # noqa: S301  # our own
            assert copy.deepcopy(whole) == whole
        again = pickle.loads(pickle.dumps(claim))  # noqa: S301  # our own
        assert (again.token, again.generation) == (claim.token, claim.generation)
        copied = copy.deepcopy(RUN_LAUNCH)
        assert decide(copied, None, "pause", {}, 0) == decide(RUN_LAUNCH, None, "pause", {}, 0)

        with get_context("spawn").Pool(1) as pool:
            done, known = pool.apply(_finish, (url, claim, RUN_LAUNCH))

        assert known
        assert isinstance(done, Run)
        assert done.result == "from afar"
        assert store.runs.get("r") == done


class Numbered(enum.Enum):
    """States whose values are numbers."""

    DRAFT = 1
    SENT = 2


class Plain(enum.Enum):
    """States whose values are texts."""

    DRAFT = "draft"
    SENT = "sent"


class Textual(enum.StrEnum):
    """States that are texts."""

    DRAFT = "Draft of it"
    SENT = "Sent, at last"


class Other(enum.Enum):
    """Another enum with the names of the first."""

    DRAFT = 10
    SENT = 20


@attrs.frozen(kw_only=True)
class NumberedLetter:
    """A letter with two columns of choices."""

    letter_id: str
    state: Numbered
    other: Other = Other.SENT


@attrs.frozen(kw_only=True)
class PlainLetter:
    """A letter."""

    letter_id: str
    state: Plain
    other: Other = Other.SENT


@attrs.frozen(kw_only=True)
class TextualLetter:
    """A letter."""

    letter_id: str
    state: Textual
    other: Other = Other.SENT


class Colliding(enum.Enum):
    """States of which one's name is the other's value."""

    DRAFT = "SENT"
    SENT = 1


@attrs.frozen(kw_only=True)
class CollidingLetter:
    """A letter."""

    letter_id: str
    state: Colliding
    other: Other = Other.SENT


def letters(record: type[object], states: type[enum.Enum]) -> Machine:
    """Declare a machine over a record and its states."""
    draft, sent = states
    columns = attrs.fields(record)  # type: ignore[arg-type]  # an attrs class
    return Machine(
        name=f"letter_{record.__name__.lower()}",
        record=record,
        table=f"letters_{record.__name__.lower()}",
        key=columns.letter_id,
        state=columns.state,
        initial=(draft,),  # type: ignore[arg-type]  # members stand for their texts
        final=(sent,),  # type: ignore[arg-type]  # the same
        creations=(Creation("write", draft, (Set(columns.letter_id, Param("id", Text())),)),),  # type: ignore[arg-type]  # the same
        transitions=(Transition("send", (draft,), sent),),  # type: ignore[arg-type]  # the same
        recorded=(columns.other,),
    )


LETTERS = (
    (letters(NumberedLetter, Numbered), Numbered, ("DRAFT", "SENT")),
    (letters(PlainLetter, Plain), Plain, ("draft", "sent")),
    (letters(TextualLetter, Textual), Textual, ("Draft of it", "Sent, at last")),
)


def test_fsm_06_states_are_stored_as_documented_texts_and_read_as_members(database: str) -> None:
    """FSM-06: the value where it is a text, else the name; what is read back is the member."""
    with open_store(database, machines=[machine for machine, _, _ in LETTERS]) as store:
        for machine, states, texts in LETTERS:
            rows = store.machine(machine)
            draft, sent = states
            written = rows.create("write", {"id": "l"})
            moved = rows.apply("send", "l")

            assert machine.states == texts
            assert not isinstance(moved, Refused)
            assert written.state is draft
            assert moved.state is sent
            assert rows.get("l") == moved
            assert moved.other is Other.SENT
            assert [row.letter_id for row in rows.list(states=(texts[1],))] == ["l"]
            assert [e.dest for e in rows.history("l")] == list(texts)
            again = rows.apply("send", "l")
            assert isinstance(again, Refused)
            assert again.state == texts[1]


def test_fsm_06_two_members_stored_alike_are_refused_at_declaration() -> None:
    """FSM-06: a name that is another member's value cannot be told from it."""
    with pytest.raises(MachineError, match="stored as 'SENT'"):
        letters(CollidingLetter, Colliding)


def test_a_run_of_any_handle_takes_the_same_way(store: Store) -> None:
    """FSM-01: which copy of the record a call was decided by plays no part."""
    queue(store)
    stale = store.runs.get("r")
    claim = take(store)
    assert stale is not None

    assert store.runs.mark_running(Claim(claim.run, claim.token))
    assert isinstance(store.runs.finish(Claim(stale, claim.token)), Refused)
    assert store.runs.finish(claim)
