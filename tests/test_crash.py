"""A process killed between any two things that it tells the database: what it leaves behind."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

import attrs
import psycopg
import pytest
from attrs import frozen

from persistence import Store
from persistence.binds import KEY_BIND
from persistence.crash import crash
from persistence.history import feed_of_call
from statemachine import Refused
from statemachine.errors import InvalidArgument
from statemachine.machines import ALL
from statemachine.path import broken
from tests.cases.launches import queue
from tests.conftest import START
from tests.crashing import LATER, SCENES, Place, opened, perform

KEYS = {"run_launch": ("r1", "r2"), "turn_intent": ("i1", "i2"), "notification": ("n1", "n2")}


@frozen
class Database:
    """Where the processes die; one for all scenes, each trial with rows of its own."""

    url: str
    server_clock: bool

    def instants(self, *, later: bool) -> tuple[datetime | None, datetime | None]:
        """Return when a trial is made ready, and when its call comes."""
        if later:
            return START, LATER
        return (None, None) if self.server_clock else (START, START)


@pytest.fixture(scope="module", name="database", params=["sqlite-file", "postgresql"])
def _database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    if request.param == "sqlite-file":
        yield Database(str(tmp_path_factory.mktemp("crash") / "crash.db"), server_clock=False)
        return
    server = request.getfixturevalue("postgres_server")
    schema = f"test_crash_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
        separator = "&" if "?" in server else "?"
        url = f"{server}{separator}options=-csearch_path%3D{schema}"
        yield Database(url, server_clock=True)
        connection.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())


def _state(store: Store, name: str) -> object:
    """Return what a trial's rows and their history say; no row may break an invariant."""
    found: list[object] = []
    for machine in ALL:
        program = store.engine.program(machine)
        with store.engine.backend.session() as session:
            told = {"machine": machine.name, "call": f"call {name}"}
            found.append(len(session.execute(feed_of_call(program.dialect).sql, told)[0]))
            for key in KEYS[machine.name]:
                rows, _ = session.execute(program.read().sql, {KEY_BIND: f"{name}.{key}"})
                steps = store.machine(machine).history(f"{name}.{key}")
                assert len(rows) == bool(steps)
                if rows:
                    row = program.row(rows[0])
                    assert broken(machine, row) == ()
                    last = (steps[-1].revision, steps[-1].dest)
                    assert last == (row["revision"], row[machine.state.name])
                found.append((machine.name, key, tuple(step.transition for step in steps)))
    return found


def _told(answer: Any, name: str) -> object:
    """Return what an answer says of its rows, alike for all trials."""
    if isinstance(answer, list):
        return [_told(one, name) for one in answer]
    if isinstance(answer, Refused):
        return (answer.reason, answer.guard)
    kind = type(answer).__name__
    for inner in ("run", "intent", "notification"):
        if inner in (field.name for field in attrs.fields(type(answer))):
            generation = getattr(answer, "generation", None)
            return (kind, _told(getattr(answer, inner), name), generation)
    fields = attrs.asdict(answer, recurse=False)
    keys = [value for value in fields.values() if str(value).startswith(f"{name}.")]
    return (kind, str(keys[0]).removeprefix(name), fields.get("status"), fields["revision"])


@pytest.mark.parametrize("scene", SCENES)
def test_a_killed_call_happened_wholly_or_not_at_all(database: Database, scene: str) -> None:
    """Wherever the process dies: the next one finds the rows before or after, and nothing between.

    The same call again, under the same id, answers what the first one would have.
    """
    trial = SCENES[scene]
    ready, comes = database.instants(later=trial.later)
    prefix = scene.replace(" ", "-")
    seen: list[object] = []
    answer: object = None
    before: object = None
    after: object = None
    for step in itertools.count():
        name = f"{prefix}.{step}"
        with opened(database.url, name, ready) as store:
            item = trial.before(Place(store, name))
            before = _state(store, name)
        act = partial(perform, name=name, scene=scene, item=item)
        opening = partial(opened, database.url, name, comes)
        died = step > 0 and crash(opening, act, step=step)
        with opening() as store:
            left = _state(store, name)
            if step > 0:
                assert left in (before, after)
                seen.append(left)
            again = _told(act(store), name)
            if step == 0:
                answer, after = again, _state(store, name)
                continue
            assert _state(store, name) == after
            assert again == answer or not trial.keyed
        if not died:
            break

    assert before in seen
    assert seen[-2:] == [after, after]


def test_a_call_in_two_halves_is_found(database: Database) -> None:
    """What is not one transaction is left half done by some step."""
    left = []
    for step in range(1, 5):
        name = f"halves.{step}"
        opening = partial(opened, database.url, name, START)
        assert crash(opening, partial(_in_halves, name=name), step=step) == (step < 4)
        with opening() as store:
            left.append(len(store.runs.list()))

    assert left == [0, 1, 2, 2]


def test_a_step_is_at_least_the_first() -> None:
    """Steps are counted from one."""
    with pytest.raises(InvalidArgument, match="step"):
        crash(partial(opened, ":memory:", "p", START), _nothing, step=0)


def test_an_act_that_fails_is_no_crash(capfd: pytest.CaptureFixture[str]) -> None:
    """An error in the act is told as such, with its traceback."""
    with pytest.raises(ChildProcessError, match="by itself"):
        crash(partial(opened, ":memory:", "p", START), _failing, step=1)
    assert "ZeroDivisionError" in capfd.readouterr().err


def _nothing(store: Store) -> None:
    del store


def _failing(store: Store) -> None:
    raise ZeroDivisionError(store)


def _in_halves(store: Store, *, name: str) -> None:
    for run_id in ("r1", "r2"):
        queue(store, f"{name}.{run_id}")
