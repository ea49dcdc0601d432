"""`check_machine`: a machine tried whole, in memory and on a real database."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from attrs import field, frozen

from persistence.agreement import try_cell
from persistence.birth_agreement import try_birth
from persistence.scratch import scratch
from statemachine.births import births
from statemachine.exploration import explore, liveness
from statemachine.valuations import cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from persistence.disagreement import Disagreement
    from persistence.trial import Trial
    from statemachine.exploration import Exploration
    from statemachine.machine import Machine
    from statemachine.path import Discovery

    Progress: TypeAlias = Callable[[str, int, int], None]

_T = TypeVar("_T")

GIVEN_CLOCK, SERVER_CLOCK, IN_A_BATCH = "given clock", "server's clock", "in a batch"

_SHOWN = 10
_BATCH = 100


@frozen(kw_only=True)
class Agreement:
    """What trying every call on a database found.

    Attributes:
        machine: The declaration.

        database: Name of the database.

        cells: How many calls of transitions were compared.

        left_out: How many valuations no row can hold, since an invariant forbids them.

        slots: How many of all these calls were compared once more, with another row in the way.

        births: How many creations were compared.

        ways: How the calls were made, each on its own: by statements for a given clock, for the
            `server's clock`, or for many calls `in a batch`.

        happened: The creations and transitions that happened.

        missing: Those that never did.

        differing: How many comparisons differ.

        disagreements: The first one of each place and kind.
    """

    machine: Machine = field(repr=False)
    database: str
    cells: int
    left_out: int
    slots: int
    births: int
    ways: tuple[str, ...]
    happened: tuple[str, ...]
    missing: tuple[str, ...]
    differing: int
    disagreements: tuple[Disagreement, ...]

    def __bool__(self) -> bool:
        return not (self.disagreements or self.missing)


@frozen(kw_only=True)
class CheckReport:
    """What checking a machine found; true when nothing is wrong with it.

    Attributes:
        agreement: The declaration against the database.

        exploration: Every row that calls and time can make, in memory.

        stuck: Where rows are stuck for ever, though the helpers do all they can.

        seconds: How long it took.
    """

    agreement: Agreement
    exploration: Exploration
    stuck: tuple[Discovery, ...]
    seconds: float

    def __bool__(self) -> bool:
        return bool(self.agreement and self.exploration and not self.stuck)

    def __str__(self) -> str:
        return "\n".join((*self._covered(), *self.findings()))

    def _covered(self) -> Iterator[str]:
        tried, explored = self.agreement, self.exploration
        machine = tried.machine
        yield f"{machine.name} on {tried.database}, {self.seconds:.1f} s"
        yield (
            f"  agreement: {tried.cells} calls ({tried.left_out} ruled out by invariants),"
            f" {tried.slots} with another row in the way, {tried.births} creations;"
            f" {', '.join(tried.ways)}"
        )
        yield f"  reachable: {explored.states} states, {explored.edges} edges"
        fired = [name for name in explored.fired if name in {t.name for t in machine.transitions}]
        yield (
            f"  covered:   {len(fired)} of {len(machine.transitions)} transitions,"
            f" {len(machine.invariants)} invariants, {len(machine.uniqueness)} uniqueness rules"
        )

    def findings(self) -> tuple[str, ...]:
        """Return what is wrong, each with the way there."""
        tried, explored = self.agreement, self.exploration
        found = [str(one) for one in tried.disagreements[:_SHOWN]]
        if tried.differing > len(found):
            found.append(f"{tried.differing} comparisons differ in all")
        found += [f"{name} never happens on the database" for name in tried.missing]
        found += [f"{name} never fires: a dead edge" for name in explored.unfired]
        found += [f"{path}: a dead end, nothing leads on" for path in explored.dead_ends[:_SHOWN]]
        found += [str(one) for one in (*explored.discoveries, *self.stuck)]
        return (*found, *explored.clashes)


def check_machine(
    machine: Machine,
    url: str | None = None,
    *,
    helpers: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> CheckReport:
    """Check a machine: agreement on a database, then reachability and liveness in memory.

    Args:
        machine: The declaration, shipped or the user's own.

        url: `postgresql://…`: in a transaction there that is never committed, with each clock;
            None or a path: SQLite, in memory; a file is not touched.

        helpers: Transitions which, with the passing of time, must alone lead from everywhere to a
            final state; empty: not checked.

        progress: Told what is under way, how much of it is done, and how much there is.

    Raises:
        SqlatchError: The database cannot be used.
    """
    began = time.monotonic()
    told = progress or _untold
    agreement = agree(machine, url, progress=told)
    told("exploring", 0, 1)
    exploration = explore(machine)
    found: tuple[Discovery, ...] = ()
    if helpers:
        found = liveness(machine, helpers=helpers, exploration=exploration)
    told("exploring", 1, 1)
    return CheckReport(
        agreement=agreement,
        exploration=exploration,
        stuck=found,
        seconds=time.monotonic() - began,
    )


def agree(
    machine: Machine,
    url: str | None = None,
    *,
    compiled: Machine | None = None,
    only: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> Agreement:
    """Try every call that a machine can tell apart on a database; see `check_machine`.

    Args:
        machine: What the calls and their answers are worked out from.

        url: Which database.

        compiled: What the database is laid out and the statements are compiled from, in order to
            see a difference found; None: the machine itself.

        only: Names of transitions and creations to try; empty: all.

        progress: As for `check_machine`.
    """
    every = cells(machine)
    tried = tuple(cell for cell in every if not only or cell.transition in only)
    first = tuple(birth for birth in births(machine) if not only or birth.creation in only)
    told = progress or _untold
    ways = [GIVEN_CLOCK]
    with scratch(compiled or machine, url) as one:
        dialect = one.program.dialect
    if dialect.server_clock:
        ways.append(SERVER_CLOCK)
    if dialect.arrays:
        ways.append(IN_A_BATCH)
    clocks = [way for way in ways if way != IN_A_BATCH]
    total = len(tried) * len(ways) + len(first) * len(clocks)
    trials: list[Trial] = []
    done = 0
    for way in ways:
        server, batch = way == SERVER_CLOCK, way == IN_A_BATCH
        with scratch(compiled or machine, url, server_clock=server) as database:
            for some in _batches(tried):
                with database.undone():
                    for cell in some:
                        trials += try_cell(machine, cell, database, in_a_batch=batch)
                done += len(some)
                told("comparing", done, total)
        if batch:
            continue
        with scratch(compiled or machine, url, server_clock=server, any_row=False) as database:
            for several in _batches(first):
                with database.undone():
                    trials += [t for birth in several for t in try_birth(machine, birth, database)]
                done += len(several)
                told("comparing", done, total)
    return _agreement(machine, (dialect.name, *ways), only, every.left_out, trials)


def _batches(calls: tuple[_T, ...]) -> Iterator[tuple[_T, ...]]:
    """Yield stretches of calls, each undone at its end: deleted rows are in the way until then."""
    for start in range(0, len(calls), _BATCH):
        yield calls[start : start + _BATCH]


def _agreement(
    machine: Machine,
    database: tuple[str, ...],
    only: tuple[str, ...],
    left_out: int,
    trials: list[Trial],
) -> Agreement:
    creations = [creation.name for creation in machine.creations]
    declared = [*creations, *(transition.name for transition in machine.transitions)]
    wanted = [name for name in declared if not only or name in only]
    moved = {trial.call for trial in trials if trial.moved}
    differing = [trial.disagreement for trial in trials if trial.disagreement is not None]
    first: dict[tuple[str, str], Disagreement] = {}
    for one in differing:
        first.setdefault((one.place, one.difference.about), one)
    return Agreement(
        machine=machine,
        database=database[0],
        cells=sum(t.slot is None and t.call not in creations for t in trials),
        left_out=left_out,
        slots=sum(trial.slot is not None for trial in trials),
        births=sum(trial.slot is None and trial.call in creations for trial in trials),
        ways=database[1:],
        happened=tuple(name for name in wanted if name in moved),
        missing=tuple(name for name in wanted if name not in moved),
        differing=len(differing),
        disagreements=tuple(first.values()),
    )


def _untold(_what: str, _done: int, _total: int) -> None:
    pass
