"""`events`: the audit feed on the command line."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from persistence import open_store
from tests.cli.conftest import Call
from tests.cli.programs import ARGV, environment


def reserve(db: str, *run_ids: str) -> None:
    """Queue runs."""
    with open_store(db) as store:
        for run_id in run_ids:
            store.runs.reserve(
                run_id=run_id,
                workflow="demo",
                source_ref="test:demo",
                source={"kind": "demo"},
                definition_digest="sha256:0",
            )


def test_events_go_on_behind_the_printed_cursor(call: Call, db: str) -> None:
    """Who begins at the printed cursor misses nothing and sees nothing twice."""
    reserve(db, "r1", "r2", "r3")
    first = call("events", "--limit", "2", "--json").json
    second = call("events", "--after", first["cursor"], "--json").json
    third = call("events", "--after", second["cursor"], "--json").json

    assert [event["key"] for event in first["events"]] == ["r1", "r2"]
    assert [event["key"] for event in second["events"]] == ["r3"]
    assert third == {"events": [], "cursor": second["cursor"]}


def test_events_are_told_in_words(call: Call, db: str) -> None:
    """A line says which row, what happened to it and by whom; the cursor comes last."""
    reserve(db, "r1")
    call("pause", "r1")
    with open_store(db) as store:
        store.runs.append_event("r1", type="note", payload="\x1b[2J")
    lines = call("events").out.splitlines()

    assert "Z run_launch r1 1 reserve -> queued by process pid-" in lines[0]
    assert "Z run_launch r1 2 pause queued -> queued by operator " in lines[1]
    assert "Z run_launch r1 2 event note by process pid-" in lines[2]
    assert lines[3].startswith("cursor ")


def test_wrong_cursor_is_wrong_usage(call: Call) -> None:
    """A cursor that was never printed is named."""
    call("init")
    said = call("events", "--after", "yesterday")

    assert said.code == 2
    assert "cursor" in said.err


def test_followed_events_come_as_they_happen(db: str, tmp_path: Path) -> None:
    """`--follow` prints what is appended while it runs, until it is interrupted."""
    reserve(db, "before")
    process = subprocess.Popen(
        [*ARGV, "events", "--follow", "--json"],
        env=environment(db),
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    reserve(db, "after")
    second = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)

    assert [event["key"] for event in first["events"]] == ["before"]
    assert [event["key"] for event in second["events"]] == ["after"]
    assert (rest, process.returncode) == ("", 130)
