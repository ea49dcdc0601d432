"""What each command does, prints and exits with."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from persistence import Claim, Store, open_store
from statemachine import render
from statemachine.machines import RUN_LAUNCH
from tests.cli.conftest import Call
from tests.cli.programs import launch_file
from tests.order import ORDER

LEASE = timedelta(seconds=30)
SECRET = "hunter2-in-the-environment"


@pytest.fixture
def store(db: str) -> Store:
    """The command's database, opened beside it."""
    return open_store(db)


def reserve(store: Store, run_id: str = "r1", **facts: object) -> None:
    """Queue a run."""
    store.runs.reserve(
        run_id=run_id,
        workflow="demo",
        source_ref="test:demo",
        source={"kind": "demo"},
        definition_digest="sha256:0",
        **facts,  # type: ignore[arg-type]  # a test gives what reserve takes
    )


def running(store: Store, run_id: str = "r1", **facts: object) -> Claim:
    """Queue a run, take it and start it."""
    reserve(store, run_id, **facts)
    claim = store.runs.claim(run_id, runner_id="w", lease=LEASE)
    assert claim
    assert store.runs.mark_running(claim)
    return claim


def stuck(call: Call, run_id: str = "r1") -> str:
    """Return the word that `list` has for a run, which `show` has too."""
    (listed,) = [run for run in call("list", "--json").json if run["run_id"] == run_id]
    assert call("show", run_id, "--json").json["stuck"] == listed["stuck"]
    return str(listed["stuck"])


def test_init_is_harmless(call: Call, db: str) -> None:
    """`init` makes the layout, once."""
    assert [call("init").code, call("init").code] == [0, 0]
    assert Path(db).exists()


@pytest.mark.parametrize("args", [("list",), ("show", "r1"), ("history", "r1"), ("cancel", "r1")])
def test_missing_database(call: Call, db: str, args: tuple[str, ...]) -> None:
    """Looking at a database that does not exist makes none, and says what would."""
    said = call(*args)

    assert said.code == 3
    assert said.err == f"sqlatch: there is no database at {db}; `sqlatch init` makes one\n"
    assert not Path(db).exists()


def test_file_that_is_no_database(call: Call, db: str) -> None:
    """A file that is no database is store trouble, and stays as it is."""
    Path(db).write_bytes(b"this is no database" * 1_000)
    said = call("list")

    assert said.code == 3
    assert said.err.startswith("sqlatch: ")
    assert Path(db).read_bytes() == b"this is no database" * 1_000


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("list", "--limit", "0"), "--limit"),
        (("list", "--status", "lost"), "lost"),
        (("show",), "ID"),
        (("nonsense",), "nonsense"),
        (("diagram", "nonsense"), "there is no machine 'nonsense'; known: run_launch"),
        (("run", "no-such-file.jsonl"), "no-such-file.jsonl"),
        (("show", "-- not an id"), "not an id"),
    ],
)
def test_wrong_usage(call: Call, args: tuple[str, ...], told: str) -> None:
    """Wrong usage exits with 2 and says what is wrong."""
    call("init")
    said = call(*args)

    assert said.code == 2
    assert told in said.err


def test_launch_and_again(call: Call, tmp_path: Path) -> None:
    """The same file launches only what is new."""
    file = tmp_path / "launches.jsonl"
    launch_file(file, [{"id": "a", "command": ["true"]}, {"command": ["date"]}])
    first = call("launch", str(file))
    launch_file(
        file,
        [{"id": "a", "command": ["true"]}, {"command": ["date"]}, {"id": "b", "command": ["ls"]}],
    )
    second = call("launch", str(file))

    assert (first.code, first.out) == (0, "2 launched, 0 known before\n")
    assert (second.code, second.out) == (0, "1 launched, 2 known before\n")
    assert [run["run_id"] for run in call("list", "--json").json].count("a") == 1


def test_launched_run(call: Call, tmp_path: Path) -> None:
    """A launch is a queued headless run that says what it is."""
    file = launch_file(tmp_path / "l", [{"id": "a", "command": ["true"], "cwd": "/"}])
    (run,) = call("launch", file, "--json").json

    assert (run["status"], run["execution_mode"]) == ("queued", "headless")
    assert run["source"] == {"kind": "command", "argv": ["true"], "cwd": "/"}
    assert (run["source_ref"], run["max_attempts"]) == ("command:true", 3)


@pytest.mark.parametrize("command", ["launch", "run"])
def test_bad_line_launches_nothing(call: Call, tmp_path: Path, command: str) -> None:
    """A bad line is named by its number, and nothing of the file is launched."""
    file = tmp_path / "launches.jsonl"
    file.write_text('{"command": ["true"]}\n{"command": "ls"}\n')
    said = call(command, str(file))
    call("init")

    assert said.code == 2
    assert said.err == "sqlatch: line 2: command must be a list of texts, the program first\n"
    assert call("list", "--json").json == []


def test_changed_line_is_a_conflict(call: Call, tmp_path: Path) -> None:
    """A changed line with a used id is named, and nothing of the file is launched."""
    file = tmp_path / "launches.jsonl"
    call("launch", launch_file(file, [{"id": "a", "command": ["true"]}]))
    changed = [{"id": "b", "command": ["true"]}, {"id": "a", "command": ["false"]}]
    said = call("launch", launch_file(file, changed))

    assert said.code == 1
    assert said.err.startswith("sqlatch: line 2: run_launch 'a' exists with other facts")
    assert said.err.endswith("nothing was launched\n")
    assert [run["run_id"] for run in call("list", "--json").json] == ["a"]


def test_nothing_prints_a_value_of_the_environment(call: Call, tmp_path: Path) -> None:
    """No command prints what stands in `env`; `show` names the variables."""
    launch = {"id": "a", "command": ["true"], "env": {"PASS": SECRET, "HOST": {"from": "H"}}}
    file = launch_file(tmp_path / "l", [launch])
    said = [
        call("launch", file),
        call("launch", file, "--json"),
        call("list"),
        call("list", "--json"),
        call("show", "a"),
        call("show", "a", "--json"),
        call("history", "a"),
        call("history", "a", "--json"),
        call("pause", "a", "--json"),
    ]

    assert [one.code for one in said] == [0] * len(said)
    assert all(SECRET not in one.out + one.err for one in said)
    assert said[5].json["environment"] == ["HOST from H", "PASS"]


def test_list_filters(call: Call, store: Store) -> None:
    """`list` shows the runs of a state or a session, oldest or newest first."""
    reserve(store, "q1")
    reserve(store, "q2")
    running(store, "r1")
    reserve(store, "s1", origin_session_id="s")

    def listed(*args: str) -> list[str]:
        return [run["run_id"] for run in call("list", "--json", *args).json]

    assert listed("--status", "running") == ["r1"]
    assert listed("--status", "queued", "--status", "running", "--limit", "2") == ["q1", "q2"]
    assert listed("--newest", "--limit", "2") == ["s1", "r1"]
    assert listed("--session", "s") == ["s1"]


def test_list_as_a_table(call: Call, store: Store) -> None:
    """The table has a row per run, and obeys nothing that stands in it."""
    claim = running(store)
    store.runs.fail(claim, error_code="x", error_message="\x1b[31mred\x07 [bold]not markup[/bold]")
    said = call("list")

    assert said.code == 0
    assert "r1" in said.out
    assert "\\x1b[31mred\\x07 [bold]not markup[/bold]" in said.out
    assert "\x1b" not in said.out


def test_what_is_stuck(call: Call, store: Store) -> None:
    """`list` says in a word why a run does not go on."""
    words = {"free": ""}
    reserve(store, "free")
    running(store, "held")
    words["held"] = ""
    reserve(store, "paused")
    store.runs.pause("paused")
    words["paused"] = "paused"
    store.runs.park(running(store, "waiting"), waiting=True)
    words["waiting"] = "waiting"
    store.runs.park_source_changed(running(store, "changed"), error_message="it changed")
    words["changed"] = "source changed"
    running(store, "to-cancel")
    store.runs.cancel("to-cancel")
    words["to-cancel"] = "cancellation requested"
    store.runs.park(running(store, "parked", origin_session_id="s"))
    reserve(store, "in-the-way", origin_session_id="s")
    words["parked"] = "blocked by in-the-way"
    words["in-the-way"] = ""
    reserve(store, "later", available_at=store.clock.now() + timedelta(days=1))
    words["later"] = "not yet due"
    for run_id, most in (("expired", None), ("worn", 1)):
        reserve(store, run_id, max_attempts=most)
        store.runs.claim(run_id, runner_id="w", lease=timedelta(milliseconds=1))
    words |= {"expired": "lease ran out", "worn": "attempts used up"}
    store.runs.finish(running(store, "done"))
    words["done"] = ""
    reserve(store, "looked-at")
    store.runs.claim_for_control("looked-at", holder="op", lease=LEASE)
    words["looked-at"] = "held for control"

    assert {run["run_id"]: run["stuck"] for run in call("list", "--json").json} == words
    assert stuck(call, "parked") == "blocked by in-the-way"


def test_show_of_an_unknown_run(call: Call, store: Store) -> None:
    """An unknown run is a refusal, for `show` and `history` alike."""
    reserve(store)
    said = [call(command, "r2") for command in ("show", "history")]

    assert [(one.code, one.err) for one in said] == [(1, "sqlatch: there is no run 'r2'\n")] * 2


def test_history(call: Call, store: Store) -> None:
    """`history` tells each transition in order, by whom, and what it changed."""
    store.runs.finish(running(store))
    events = call("history", "r1", "--json").json
    table = call("history", "r1", "--after", "2")

    assert [event["transition"] for event in events] == [
        *("reserve", "claim", "mark_running", "finish")
    ]
    assert [event["revision"] for event in events] == [1, 2, 3, 4]
    assert events[1]["actor"] == {"kind": "host", "name": "w"}
    assert events[3]["changes"]["outcome"] == "completed"
    assert "finish" in table.out
    assert "reserve" not in table.out


def test_cancel_has_three_answers(call: Call, store: Store) -> None:
    """A run is cancelled, or its holder is asked to, or it has ended before."""
    reserve(store, "queued")
    running(store, "running")
    store.runs.finish(running(store, "done"))
    said = [call("cancel", run_id) for run_id in ("queued", "running", "running", "done")]
    missing = call("cancel", "missing")

    assert [one.code for one in said] == [0, 0, 0, 0]
    assert [one.out for one in said] == [
        "queued is cancelled\n",
        "running is being worked on; its holder has been asked to end it\n",
        "running is being worked on; its holder has been asked to end it\n",
        "done has ended before: done\n",
    ]
    assert (missing.code, missing.err) == (1, "sqlatch: cancel refused: there is no 'missing'\n")


def test_wake(call: Call, store: Store) -> None:
    """A waiting run may be taken again once it is woken; another has nothing to be woken from."""
    store.runs.park(running(store), waiting=True)
    reserve(store, "r2")
    said = [call("wake", "r1"), call("wake", "r1"), call("wake", "r2")]

    assert [one.code for one in said] == [0, 1, 1]
    assert said[1].err == "sqlatch: wake refused: 'r1' is parked, but not 'waiting'\n"
    assert said[2].err == "sqlatch: wake refused: 'r2' is queued\n"


def test_requeue(call: Call, store: Store) -> None:
    """A launch whose lease ran out before anything ran goes back into the queue."""
    reserve(store)
    store.runs.claim("r1", runner_id="w", lease=timedelta(milliseconds=1))
    said = [call("requeue", "r1"), call("requeue", "r1")]

    assert [one.code for one in said] == [0, 1]
    assert call("show", "r1", "--json").json["status"] == "queued"


def test_reject(call: Call, store: Store) -> None:
    """A run that nobody holds can be failed by an operator, with a reason."""
    reserve(store)
    running(store, "r2")
    run = call("reject", "r1", "--code", "obsolete", "--message", "not wanted", "--json").json
    held = call("reject", "r2")

    assert (run["status"], run["error_code"], run["error_message"]) == (
        *("failed", "obsolete"),
        "not wanted",
    )
    assert held.code == 1
    assert "reject refused" in held.err


def test_pause_and_resume(call: Call, store: Store) -> None:
    """A paused run is not taken until it is resumed; each is refused where it changes nothing."""
    reserve(store)
    paused = [call("pause", "r1"), call("pause", "r1")]
    taken = store.runs.claim_next("w", LEASE)
    resumed = [call("resume", "r1"), call("resume", "r1")]

    assert [one.code for one in (*paused, *resumed)] == [0, 1, 0, 1]
    assert not taken
    assert store.runs.claim_next("w", LEASE)


def test_operator_is_on_record(call: Call, store: Store) -> None:
    """What an operator does is told of the operator."""
    reserve(store)
    call("pause", "r1")

    assert store.runs.history("r1")[-1].actor.kind == "operator"


@pytest.mark.parametrize(
    ("form", "drawn"),
    [
        ("mermaid", render.to_mermaid(RUN_LAUNCH)),
        ("dot", render.to_dot(RUN_LAUNCH)),
        ("svg", render.to_svg(RUN_LAUNCH)),
        ("table", render.to_table(RUN_LAUNCH)),
    ],
)
def test_diagram(call: Call, form: str, drawn: str) -> None:
    """`diagram` prints what the declaration gives, in each format."""
    assert call("diagram", "--format", form).out == drawn.rstrip("\n") + "\n"


@pytest.mark.parametrize(
    ("form", "drawn"),
    [
        ("mermaid", render.to_mermaid(RUN_LAUNCH, counts={"queued": 2, "running": 1})),
        ("dot", render.to_dot(RUN_LAUNCH, counts={"queued": 2, "running": 1})),
        ("svg", render.to_svg(RUN_LAUNCH, counts={"queued": 2, "running": 1})),
    ],
)
def test_live_diagram(call: Call, store: Store, form: str, drawn: str) -> None:
    """A live diagram colours states by how many rows the database has there."""
    running(store)
    reserve(store, "r2")
    reserve(store, "r3")

    assert call("diagram", "--live", "--format", form).out == drawn.rstrip("\n") + "\n"


def test_live_diagram_of_an_own_machine(call: Call, db: str) -> None:
    """Rows of an own machine are counted too."""
    with open_store(db, machines=(ORDER,)) as store:
        store.machine(ORDER).create("place", {"order_id": "o1", "basket": "b"})

    assert "1 row" in call("diagram", "tests.order:ORDER", "--live").out


def test_a_table_is_not_live(call: Call) -> None:
    """The transition table has nothing to colour."""
    assert call("diagram", "--live", "--format", "table").code == 2


def test_json_is_one_document(call: Call, store: Store) -> None:
    """Records are printed as one JSON document with instants in UTC."""
    reserve(store)
    run = call("show", "r1", "--json").json

    assert run["created_at"].endswith("Z")
    assert "input" not in run
    assert json.dumps(run)
