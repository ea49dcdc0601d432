"""Exhaustive breadth-first search of a machine: every row that calls and time can make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

from statemachine.calls import Call, Caller
from statemachine.errors import TooManyStates
from statemachine.examples import NOW_MS
from statemachine.graph import TICK, Edge, Graph
from statemachine.interpret import Meaning, meaning
from statemachine.kinds import Integer, admit
from statemachine.lease_laws import broken_law
from statemachine.lens import Lens
from statemachine.outcome import Moved
from statemachine.path import Discovery, Path, broken
from statemachine.population import Population, populate
from statemachine.simulate import create, decide
from statemachine.solve import variables_of
from statemachine.vocabulary import Condition, terms_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statemachine.kinds import Plain, Row
    from statemachine.machine import Invariant, Machine, Transition

MAX_STATES = 50_000
"""Rows that a search reaches, unless told otherwise: some minutes of work."""


@frozen(kw_only=True)
class Exploration:
    """What the search found.

    Attributes:
        machine: The declaration.

        states: How many different rows were reached, as far as the rules can tell them apart.

        edges: How many different ways lead from one to another, ticks of the clock included.

        fired: The creations and transitions that happened.

        unfired: Those that never did: a dead edge.

        dead_ends: Paths to rows from which no call and no time leads to a final state.

        discoveries: What does not hold, each with a shortest path; one per property.

        populations: What two rows together say of each uniqueness rule.

        graph: The rows and the ways between them.
    """

    machine: Machine = field(repr=False)
    states: int
    edges: int
    fired: tuple[str, ...]
    unfired: tuple[str, ...]
    dead_ends: tuple[Path, ...]
    discoveries: tuple[Discovery, ...]
    populations: tuple[Population, ...]
    graph: Graph = field(repr=False)

    def __bool__(self) -> bool:
        return not (self.unfired or self.dead_ends or self.discoveries or self.clashes)

    @property
    def clashes(self) -> tuple[str, ...]:
        """How two rows came to hold one place of a uniqueness rule."""
        return tuple(
            f'{p.clash}: "{p.rule}" fails' for p in self.populations if p.clash is not None
        )


def explore(
    machine: Machine,
    *,
    always: tuple[Invariant, ...] = (),
    watching: tuple[Condition, ...] = (),
    stop_at_first: bool = False,
    most: int = MAX_STATES,
) -> Exploration:
    """Search breadth-first from the creations, with two runners and a clock that ticks.

    Args:
        machine: The declaration.

        always: Properties to check in every state, beside the machine's invariants.

        watching: Further conditions whose truth must stay visible in the states.

        stop_at_first: Return as soon as one property fails; the numbers, what was not fired and
            dead ends then only say how far the search came.

        most: How many states may be reached, at least 1.

    Raises:
        InvalidArgument: `most` is less than 1.

        TooManyStates: There are more; names the column with the most values.
    """
    admit(Integer(minimum=1), most, "most")
    return _Search(machine, always, watching, most).exploration(stop_at_first=stop_at_first)


def liveness(
    machine: Machine,
    *,
    helpers: tuple[str, ...],
    unless: Condition | None = None,
    exploration: Exploration | None = None,
) -> tuple[Discovery, ...]:
    """Return where a row is stuck for ever, though helpers do all they can and time passes.

    Args:
        machine: The declaration.

        helpers: The transitions that helpers make; with ticks of the clock, these alone must lead
            from every reachable row to a final state.

        unless: Rows of which this is true are excused.

        exploration: That of the machine, when it is at hand; it must have watched `unless`.

    Returns:
        One discovery for each state in which rows are stuck, the nearest of them.

    Raises:
        UnknownTransition: A helper's transition is not declared.

        TooManyStates: As `explore`.
    """
    for name in helpers:
        machine.transition(name)
    watching = () if unless is None else (unless,)
    if exploration is None:
        graph = _Search(machine, (), watching, MAX_STATES).searched()
    else:
        graph = exploration.graph
    excused = None if unless is None else meaning(unless)
    finals = [n for n in range(len(graph.rows)) if graph.state(n) in machine.final]
    live = graph.leading_to(finals, helpers)
    stuck: dict[Plain, Discovery] = {}
    for number, seen in enumerate(graph.rows):
        if number in live or graph.state(number) in stuck:
            continue
        if excused is not None and excused(graph.lens.show(seen), {}, NOW_MS) is True:
            continue
        name = f"{', '.join(helpers)} lead to a final state"
        stuck[graph.state(number)] = Discovery(name, graph.path(number))
    return tuple(stuck.values())


class _Search:
    def __init__(
        self,
        machine: Machine,
        always: tuple[Invariant, ...],
        watching: tuple[Condition, ...],
        most: int,
    ) -> None:
        self._machine = machine
        self._most = most
        self._lens = Lens(machine, [*(rule.condition for rule in always), *watching])
        self._graph = Graph(machine, self._lens)
        self._always = tuple((rule.name, meaning(rule.condition)) for rule in always)
        self._rules: tuple[tuple[str, Meaning], ...] = self._always + tuple(
            (rule.name, meaning(rule.condition))
            for rule in machine.invariants
            if not self._lens.settled.issuperset(variables_of(terms_in(rule.condition)))
        )
        caller = Caller(machine, self._lens)
        self._births = [call for c in machine.creations for call in caller.calls(c, ())]
        self._calls = {
            t.name: caller.calls(t, [guard.condition for guard in t.when])
            for t in machine.transitions
        }
        self._fired: set[str] = set()
        self._found: dict[str, Discovery] = {}

    def searched(self, *, stop_at_first: bool = False) -> Graph:
        self._begin()
        number = 0
        while number < len(self._graph.rows) and not (stop_at_first and self._found):
            self._expand(number)
            number += 1
            if len(self._graph.rows) > self._most:
                name, values = self._graph.widest()
                raise TooManyStates(self._machine.name, name, values, self._most)
        return self._graph

    def exploration(self, *, stop_at_first: bool) -> Exploration:
        machine, graph = self._machine, self.searched(stop_at_first=stop_at_first)
        declared = [creation.name for creation in machine.creations]
        declared += [transition.name for transition in machine.transitions]
        return Exploration(
            machine=machine,
            states=len(graph.rows),
            edges=sum(len(ways) for ways in graph.ways),
            fired=tuple(name for name in declared if name in self._fired),
            unfired=tuple(name for name in declared if name not in self._fired),
            dead_ends=tuple(self._dead_ends()),
            discoveries=tuple(self._found.values()),
            populations=()
            if stop_at_first and self._found
            else tuple(populate(machine, rule) for rule in machine.uniqueness),
            graph=graph,
        )

    def _begin(self) -> None:
        """Make every first row that the invariants admit; the database refuses the others."""
        for call in self._births:
            row = create(self._machine, call.name, call.params({}, NOW_MS), NOW_MS).row
            if broken(self._machine, row):
                continue
            self._fired.add(call.name)
            failed = _first_untrue(self._always, row)
            if failed is not None:
                self._found.setdefault(failed, Discovery(failed, self._graph.path(None, call)))
                continue
            seen, known = self._graph.find(row)
            if known is None:
                self._graph.add(seen, None, call)

    def _expand(self, number: int) -> None:
        row = self._lens.show(self._graph.rows[number])
        state = row[self._machine.state.name]
        for transition in self._machine.transitions:
            if state in transition.source:
                for call in self._calls[transition.name]:
                    self._try(number, row, transition, call)
        self._reach(number, self._lens.later(row), None)

    def _try(self, number: int, row: Row, transition: Transition, call: Call) -> None:
        params = call.params(row, NOW_MS)
        moved = decide(self._machine, row, transition.name, params, NOW_MS)
        if not isinstance(moved, Moved):
            return
        self._fired.add(transition.name)
        law = broken_law(self._machine, transition, row, moved.row, NOW_MS)
        if law is not None:
            self._found.setdefault(law, Discovery(law, self._graph.path(number, call)))
        self._reach(number, moved.row, call)

    def _reach(self, number: int, row: Row, call: Call | None) -> None:
        seen, known = self._graph.find(row)
        if known is None:
            failed = _first_untrue(self._rules, row)
            if failed is not None and call is not None:
                self._found.setdefault(failed, Discovery(failed, self._graph.path(number, call)))
                return
            known = self._graph.add(seen, number, call)
        if known != number:
            self._graph.ways[number][Edge(TICK if call is None else call.name, known)] = None

    def _dead_ends(self) -> Iterator[Path]:
        graph, final = self._graph, self._machine.final
        if not final:
            return
        finals = [n for n in range(len(graph.rows)) if graph.state(n) in final]
        live = graph.leading_to(finals, None)
        yield from (graph.path(n) for n in range(len(graph.rows)) if n not in live)


def _first_untrue(rules: tuple[tuple[str, Meaning], ...], row: Row) -> str | None:
    for name, truth in rules:
        if truth(row, {}, NOW_MS) is not True:
            return name
    return None
