"""Processes that call a few rows at once, at random, and note what they see."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier

from attrs import frozen

from persistence import SystemClock, open_store
from persistence.observing import Observer
from statemachine.apart import comparisons
from statemachine.births import Birth, births
from statemachine.examples import examples
from statemachine.kinds import Duration, Plain, Row, Text, Token
from statemachine.linearize import Observed
from statemachine.machine import Machine, Transition
from statemachine.machines import ALL
from statemachine.machines.run_launch import RUN_ID
from statemachine.outcome import Actor, Refused
from statemachine.path import broken
from statemachine.simulate import create
from statemachine.vocabulary import Column, Param
from tests.gauge import GAUGE
from tests.mutants import without_guard
from tests.order import ORDER

PROCESSES = 4
PATIENCE = 300.0
LEASE_MS = 30_000
OWN = (ORDER, GAUGE)
MACHINES = (*ALL, *OWN)
_READS, _OWN, _FITS, _ONWARD = 0.1, 0.7, 0.8, 15

_gate: list[Barrier] = []


@frozen
class Ahead:
    """The process's clock, ahead by a while: to one that is far ahead, leases have run out."""

    by: timedelta

    def now(self) -> datetime:
        """Return the present instant."""
        return SystemClock().now() + self.by


@frozen
class Task:
    """What each process does.

    Attributes:
        url: The database.

        machine: The declaration, by its name.

        rows: How many rows are called, one after another.

        calls: How often each process calls each of them.

        fault: A transition, and a guard that it was compiled without; None: no fault.
    """

    url: str
    machine: str
    rows: int
    calls: int
    fault: tuple[str, str] | None = None

    def key(self, number: int) -> str:
        """Return the key of a row."""
        return f"row-{number}"


@contextmanager
def hammers() -> Iterator[ProcessPoolExecutor]:
    """Start the processes, and end them."""
    context = get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, context, _enter, (context.Barrier(PROCESSES),)) as pool:
        yield pool


def _enter(gate: Barrier) -> None:
    _gate.append(gate)


def hammer(pool: ProcessPoolExecutor, task: Task) -> dict[str, list[Observed]]:
    """Let every process do its part at once; return what was seen of each row."""
    parts = [pool.submit(_hammer, task, number) for number in range(PROCESSES)]
    seen: dict[str, list[Observed]] = {}
    for part in parts:
        for key, notes in part.result(PATIENCE).items():
            seen.setdefault(key, []).extend(notes)
    return seen


@frozen
class _Player:
    """One process: what it plays, and its dice."""

    number: int
    machine: Machine
    observer: Observer
    dice: random.Random


def _hammer(task: Task, number: int) -> dict[str, list[Observed]]:
    machine = next(known for known in MACHINES if known.name == task.machine)
    compiled = None if task.fault is None else without_guard(machine, *task.fault)
    clock = Ahead(timedelta(milliseconds=LEASE_MS * number // 2))
    actor = Actor("process", f"p{number}")
    with open_store(
        task.url, clock=clock, actor=actor, machines=OWN, busy_timeout=timedelta(seconds=30)
    ) as store:
        observer = Observer.of(store, machine, compiled=compiled)
        player = _Player(number, machine, observer, random.Random(number))
        for row in range(task.rows):
            key = task.key(row)
            _gate[0].wait(PATIENCE)
            known: Row = observer.create(*_birth(machine, key))
            for _ in range(task.calls):
                known = _call(player, key, known) or known
        return observer.notes


def _birth(machine: Machine, key: str) -> tuple[str, Row]:
    """Return the plainest creation, with a key, and texts that no other row has."""
    sound = (b for b in births(machine) if not broken(machine, _born(machine, b)))
    first = next(sound)
    own = {
        param.name: key
        for param in machine.creation(first.creation).params
        if isinstance(param.kind, Text) and param.kind.pattern in (None, RUN_ID.pattern)
    }
    given = {name: key for name in own if first.params[name] is not None}
    return first.creation, {**first.params, **given}


def _born(machine: Machine, birth: Birth) -> Row:
    return create(machine, birth.creation, birth.params, birth.now).row


def _call(player: _Player, key: str, known: Row) -> Row | None:
    """Read the row, or try to move it; return what is known of it now."""
    observer, machine = player.observer, player.machine
    if player.dice.random() < _READS:
        return observer.get(key)
    weights = [1 if t.dest in machine.final else _ONWARD for t in machine.transitions]
    (transition,) = player.dice.choices(machine.transitions, weights)
    params = {p.name: _value(player, p, transition, known) for p in transition.params}
    answer = observer.apply(transition.name, key, params)
    return observer.get(key) if isinstance(answer, Refused) else answer


def _value(player: _Player, param: Param, transition: Transition, known: Row) -> Plain:
    """Return a value that fits what is known of the row, or one that need not."""
    compared = [
        column.name
        for terms, _ in comparisons([guard.condition for guard in transition.when], ())
        if param in terms
        for column in terms
        if isinstance(column, Column)
    ]
    if isinstance(param.kind, Token) and (not compared or player.dice.random() < _OWN):
        return f"{player.number}" * 64
    if compared and known[compared[0]] is not None and player.dice.random() < _FITS:
        return known[compared[0]]
    if isinstance(param.kind, Duration):
        return LEASE_MS
    nothing: tuple[Plain, ...] = (None,) if param.optional else ()
    return player.dice.choice((*nothing, *examples(param.kind)))
