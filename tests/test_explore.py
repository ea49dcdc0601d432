"""The exhaustive search: how large the space is, and that it finds seeded mistakes."""

from __future__ import annotations

import copy
import enum
import sys
from types import ModuleType
from typing import Annotated

import attrs
import pytest

from statemachine import lease_laws
from statemachine.errors import InvalidArgument, TooManyStates, UnknownTransition
from statemachine.examples import NOW_MS
from statemachine.exploration import Exploration, explore, liveness
from statemachine.kinds import Integer, Row, Text
from statemachine.lens import TICK_MS
from statemachine.machine import Creation, Invariant, Machine, Transition
from statemachine.machines._lease import HolderKind
from statemachine.machines.run_launch import RUN_LAUNCH, Run
from statemachine.outcome import Moved
from statemachine.path import Discovery, broken
from statemachine.simulate import decide
from statemachine.vocabulary import (
    Add,
    Equal,
    Guard,
    IsNull,
    Less,
    NotNull,
    OneOf,
    Or,
    Param,
    Set,
    implies,
)
from tests.mutants import with_transition, without_assignment, without_guard
from tests.order import ORDER, PENDING, order

run = attrs.fields(Run)
WORKER = ("claim", "mark_running", "renew", "park", "finish", "fail")
HELPERS = (*WORKER, "reap", "reap_cancelled", "wake")
PAUSED = Equal(run.paused, True)
UNHELD = Invariant(
    "who waits is held by control at most",
    implies(
        OneOf(run.status, ("queued", "parked")),
        Or(IsNull(run.lease_holder_kind), Equal(run.lease_holder_kind, HolderKind.CONTROL)),
    ),
)


@pytest.fixture(name="runs", scope="module")
def _runs() -> Exploration:
    return explore(RUN_LAUNCH)


def test_the_space_of_run_launch_is_pinned(runs: Exploration) -> None:
    """A changed number is a changed machine: look at why."""
    assert (runs.states, runs.edges) == (2928, 26528)


def test_run_launch_keeps_every_property_in_every_state(runs: Exploration) -> None:
    """MOD-01: every transition happens, no row is stuck, no invariant or law of leases breaks."""
    declared = [part.name for part in RUN_LAUNCH.creations]
    declared += [part.name for part in RUN_LAUNCH.transitions]

    assert list(runs.fired) == declared
    assert (runs.unfired, runs.dead_ends, runs.discoveries, runs.clashes) == ((), (), (), ())
    assert runs


def test_two_runs_never_hold_one_place(runs: Exploration) -> None:
    """What may be refused as the second, and that nothing else can be."""
    found = {p.rule: (p.pairs, p.entered_by, p.refused > 0, p.clash) for p in runs.populations}

    assert found == {
        "session reservation": (
            2473,
            ("reserve", "enqueue", "claim", "rebind", "rebind_held", "adopt"),
            True,
            None,
        ),
        "one continuation": (459, ("reserve", "enqueue"), True, None),
    }


def test_worker_reaper_and_wake_end_every_run_that_is_not_paused(runs: Exploration) -> None:
    """From every reachable row they and time are enough."""
    assert liveness(RUN_LAUNCH, helpers=HELPERS, unless=PAUSED, exploration=runs) == ()


def test_without_the_reaper_a_run_is_stuck(runs: Exploration) -> None:
    """What is found is told as a story."""
    helpers = tuple(name for name in HELPERS if name != "reap_cancelled")
    stuck = liveness(RUN_LAUNCH, helpers=helpers, unless=PAUSED, exploration=runs)

    assert [found.path.machine for found in stuck] == [RUN_LAUNCH]
    assert "—claim_for_control(a)→ parked —request_cancel→ parked: " in str(stuck[0])


def test_an_unknown_helper_is_named(runs: Exploration) -> None:
    """A misspelt helper would silently help nobody."""
    with pytest.raises(UnknownTransition, match="wkae"):
        liveness(RUN_LAUNCH, helpers=("wkae",), exploration=runs)


def test_a_park_that_keeps_the_attempts_strands_the_run() -> None:
    """Parked and used up: nothing claims it, and no reaper looks at it."""
    machine = without_assignment(RUN_LAUNCH, "park", "attempts")
    stuck = liveness(machine, helpers=HELPERS, unless=PAUSED)
    parked = [str(found) for found in stuck if found.path.machine is machine]

    assert len(parked) == 1
    assert "max_attempts=2" in parked[0]
    assert parked[0].count("—claim(a)→ starting") == 1
    assert "—park(a, waiting=False)→ parked: " in parked[0]


def first(machine: Machine, *always: Invariant) -> Discovery:
    """Return the first thing that does not hold."""
    found = explore(machine, always=always, stop_at_first=True)
    assert not found

    return found.discoveries[0]


def test_a_guard_forgotten_on_finish() -> None:
    """Somebody else than the holder could end the run, and nobody would be fenced off."""
    found = first(without_guard(RUN_LAUNCH, "finish", "held"))

    assert found.name == lease_laws.FENCED
    assert str(found.path).endswith("→ starting —finish(outcome=completed)→ done")
    assert len(found.path) == 2


def test_a_guard_forgotten_on_claim() -> None:
    """A live lease would be taken from its holder."""
    found = first(without_guard(RUN_LAUNCH, "claim", "free"))

    assert found.name == lease_laws.NEVER_STOLEN
    assert str(found.path).endswith("→ starting —claim(b)→ starting")


def test_a_lease_not_dropped_on_park() -> None:
    """A property of one's own is checked in every state."""
    columns = [name for name in RUN_LAUNCH.fields if name.startswith("lease_")]
    found = first(without_assignment(RUN_LAUNCH, "park", *columns), UNHELD)

    assert found.name == UNHELD.name
    assert str(found.path).endswith("→ starting —park(a, waiting=False)→ parked")


def test_waiting_left_on_by_claim() -> None:
    """An invariant that breaks is found on the shortest way."""
    found = first(without_assignment(RUN_LAUNCH, "claim", "waiting"))

    assert found.name == "waiting only while parked"
    assert str(found.path).endswith("—park(a, waiting=True)→ parked —claim(a)→ starting")
    assert str(found).endswith('starting: "waiting only while parked" fails')


def test_a_fence_forgotten_on_cancel() -> None:
    """Outside systems could not tell the cancelled runner apart."""
    found = first(without_assignment(RUN_LAUNCH, "cancel", "lease_generation"))

    assert found.name == lease_laws.FENCED
    assert str(found.path).endswith("→ starting —cancel→ cancelled")


def test_a_story_tells_of_time_and_walks_again() -> None:
    """Ticks are steps, and the script comes to the same broken row."""
    columns = [name for name in RUN_LAUNCH.fields if name.startswith("lease_")]
    machine = without_assignment(RUN_LAUNCH, "reap", *columns)
    found = first(machine)
    steps = list(found.path.steps())
    walked: dict[str, object] = {}
    exec(found.script(), walked)  # noqa: S102 - the product's own text
    replay = walked["replay"]
    assert callable(replay)
    row: Row = replay(machine)

    assert str(found.path).endswith("—tick→ starting —tick→ starting —reap→ failed")
    assert [step.now - steps[-4].now for step in steps[-3:]] == [TICK_MS, 2 * TICK_MS, 2 * TICK_MS]
    assert broken(machine, row) == broken(machine, steps[-1].row)
    assert found.name in broken(machine, row)


def test_a_script_runs_by_itself_where_the_machine_can_be_imported(
    runs: Exploration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads a report can run it; a module that only uses the machine is not taken."""
    user = ModuleType("user")
    vars(user)["RUN_LAUNCH"] = RUN_LAUNCH
    monkeypatch.setitem(sys.modules, "user", user)
    script = runs.graph.path(len(runs.graph.rows) - 1).script()

    assert script.endswith("    from statemachine import RUN_LAUNCH\n\n    replay(RUN_LAUNCH)\n")
    compile(script, "replay", "exec")


class Shutter(enum.StrEnum):
    """Whether it can be used."""

    OPEN = "open"
    SHUT = "shut"


@attrs.frozen(kw_only=True)
class Account:
    """What nothing bounds: paid into without end."""

    account_id: str
    state: Shutter
    balance: Annotated[int, Integer()] = 0


def test_a_search_without_end_says_which_column_has_none() -> None:
    """What is paid in and out again must be counted exactly, and nothing bounds it."""
    account = attrs.fields(Account)
    machine = Machine(
        name="account",
        record=Account,
        table="accounts",
        key=account.account_id,
        state=account.state,
        initial=(Shutter.OPEN,),
        final=(Shutter.SHUT,),
        creations=(
            Creation("open", Shutter.OPEN, (Set(account.account_id, Param("account_id", Text())),)),
        ),
        transitions=(
            Transition("pay_in", (Shutter.OPEN,), None, assign=(Add(account.balance),)),
            Transition(
                "pay_out",
                (Shutter.OPEN,),
                None,
                when=(Guard("covered", Less(0, account.balance)),),
                assign=(Add(account.balance, -1),),
            ),
            Transition("shut", (Shutter.OPEN,), Shutter.SHUT),
        ),
    )

    with pytest.raises(TooManyStates, match=r"balance: more than 40 .* 21 values") as told:
        explore(machine, most=40)

    assert told.value.most == 40
    assert copy.copy(told.value).args == told.value.args
    with pytest.raises(InvalidArgument, match="most"):
        explore(machine, most=0)


def test_every_path_walks_again_on_whole_rows(runs: Exploration) -> None:
    """What the lens leaves out changes nothing: every 40th row is reached as its path says."""
    graph = runs.graph
    for number in range(0, len(graph.rows), 40):
        *_, last = graph.path(number).steps()

        assert last.row["status"] == graph.state(number)
        assert broken(RUN_LAUNCH, last.row) == ()


def test_a_machine_of_ones_own_is_explored() -> None:
    """Nothing knows run launch by name; reminders are counted as far as they matter."""
    found = explore(ORDER)

    assert found
    assert (found.states, found.fired) == (14, ("place", "pay", "remind", "ship", "cancel"))
    assert [(p.rule, p.entered_by, p.clash) for p in found.populations] == [
        ("one open order per basket", ("place",), None)
    ]
    assert liveness(ORDER, helpers=("pay", "ship"), exploration=found) == ()
    assert [str(d.path) for d in liveness(ORDER, helpers=("ship",), exploration=found)] == [
        "—place→ pending"
    ]


def test_a_transition_that_never_happens_is_a_dead_edge() -> None:
    """MOD-01: its guards can be satisfied, but by no row that comes to be."""
    when = (Guard("far beyond", Less(5, order.reminders)),)
    found = explore(with_transition(ORDER, "remind", when=when))

    assert not found
    assert found.unfired == ("remind",)


def test_a_row_that_nothing_can_end_is_a_dead_end() -> None:
    """MOD-01: a state that is left on paper only."""
    machine = with_transition(ORDER, "cancel", source=(PENDING,))
    machine = with_transition(machine, "ship", when=(Guard("has a coupon", NotNull(order.coupon)),))
    found = explore(machine)

    assert not found
    assert str(found.dead_ends[0]) == "—place→ pending —pay→ paid"
    assert found.unfired == ("ship",)


def test_a_refused_call_leaves_the_row_as_it_is(runs: Exploration) -> None:
    """Deciding is pure: neither a refusal nor a move writes to the old row."""
    graph = runs.graph
    row = graph.lens.show(graph.rows[-1])
    before = dict(row)
    outcome = decide(RUN_LAUNCH, row, "pause", {}, NOW_MS)

    assert isinstance(outcome, Moved) == (
        before["paused"] is False and before["status"] == "parked"
    )
    assert row == before
