"""Launch files: every bad line is named, and the same file means the same launches."""

from __future__ import annotations

import json

import pytest

from persistence.cli.launch_file import BadLaunchFile, Launch, parse_launches

GOOD = b'{"id": "a", "command": ["true"]}'


def one(**fields: object) -> Launch:
    """Return the launch of one line."""
    (launch,) = parse_launches([json.dumps({"command": ["echo", "hi"]} | fields).encode()])
    return launch


def test_whole_line() -> None:
    """Every field of a line becomes what the run is reserved with."""
    launch = one(
        id="a",
        workflow="report",
        input={"x": 1},
        env={"A": "text", "B": {"from": "C"}},
        cwd="/tmp",  # noqa: S108 - a directory's name, nothing is written
        timeout=2,
        max_attempts=5,
    )

    source = {"kind": "command", "argv": ["echo", "hi"], "cwd": "/tmp"}  # noqa: S108 - as above
    assert (launch.line, launch.run_id, launch.workflow) == (1, "a", "report")
    assert (launch.source, launch.source_ref) == (source, "command:echo")
    assert launch.definition_digest.startswith("sha256:")
    assert len(launch.definition_digest) == len("sha256:") + 64
    assert launch.input == {"x": 1}
    assert launch.launch_options == {"env": {"A": "text", "B": {"from": "C"}}, "timeout": 2.0}
    assert launch.max_attempts == 5


def test_defaults() -> None:
    """A line needs a command only."""
    launch = one()

    assert (launch.workflow, launch.max_attempts) == ("command", 3)
    assert (launch.input, launch.launch_options) == (None, {})
    assert launch.source == {"kind": "command", "argv": ["echo", "hi"], "cwd": None}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"nonsense", "the line must be a JSON object (Expecting value)"),
        (b"[1]", "the line must be a JSON object"),
        (b'{"command": ["a"], "command": ["b"]}', "the line must be JSON that names each member"),
        (b'{"command": ["a"], "input": NaN}', "the line must be JSON, which has no NaN"),
        (b'{"command": ["a"], "input": 1' + b"0" * 5_000 + b"}", "numbers of moderate length"),
        (b'{"command": ["a"], "input": 9007199254740993}', "integers within"),
        (b'{"command": ["a"], "input": "\\u0000"}', "without U+0000"),
        (b'{"command": ["a"], "input": "\xff"}', "the line must be UTF-8"),
        (b'{"command": ["a"], "input": ' + b"[" * 100_000, "JSON of moderate depth"),
        (b'{"command": ["a"], "colour": "red"}', "the field 'colour' must be one of id, workflow"),
        (b"{}", "command must be a list of texts"),
        (b'{"command": "ls -l"}', "command must be a list of texts"),
        (b'{"command": []}', "command must be a list of texts"),
        (b'{"command": ["ls", 1]}', "command must be a list of texts"),
        (b'{"command": [""]}', "command must be a list whose first text names a program"),
        (b'{"command": ["a\\nb"]}', "the program's name must be text"),
        (b'{"id": "", "command": ["a"]}', "id must be text that matches"),
        (b'{"id": "-x", "command": ["a"]}', "id must be text that matches"),
        (b'{"id": 1, "command": ["a"]}', "id must be text that matches"),
        (b'{"id": null, "command": ["a"]}', "id must be text that matches"),
        (b'{"workflow": "", "command": ["a"]}', "workflow must be text"),
        (b'{"cwd": 1, "command": ["a"]}', "cwd must be the path of a directory"),
        (b'{"cwd": "", "command": ["a"]}', "cwd must be the path of a directory"),
        (b'{"env": [], "command": ["a"]}', "env must be an object of names and texts"),
        (b'{"env": {"A": 1}, "command": ["a"]}', "env 'A' must be a text or"),
        (b'{"env": {"A": {"from": 1}}, "command": ["a"]}', "env 'A' must be a text or"),
        (b'{"env": {"A": {"from": "B", "x": 1}}, "command": ["a"]}', "env 'A' must be a text or"),
        (b'{"env": {"A=B": "x"}, "command": ["a"]}', "env must be an object whose names"),
        (b'{"timeout": 0, "command": ["a"]}', "timeout must be a number of seconds above 0"),
        (b'{"timeout": -1, "command": ["a"]}', "timeout must be a number of seconds above 0"),
        (b'{"timeout": "1", "command": ["a"]}', "timeout must be a number of seconds above 0"),
        (b'{"timeout": true, "command": ["a"]}', "timeout must be a number of seconds above 0"),
        (b'{"timeout": 1e99, "command": ["a"]}', "timeout must be a number of seconds above 0"),
        (b'{"max_attempts": 0, "command": ["a"]}', "max_attempts must be an integer from 1"),
        (b'{"max_attempts": 1.5, "command": ["a"]}', "max_attempts must be an integer from 1"),
        (b'{"max_attempts": "3", "command": ["a"]}', "max_attempts must be an integer from 1"),
        (json.dumps({"command": ["a", "x" * 70_000]}).encode(), "command and cwd must be at most"),
        (json.dumps({"command": ["a"], "input": "x" * 1_048_577}).encode(), "input must be at"),
        (
            json.dumps({"command": ["a"], "env": {"A": "x" * 65_536}}).encode(),
            "env and timeout must be at most",
        ),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_bad_line_is_named(line: bytes, problem: str) -> None:
    """A bad line is named with its number and its fault, and the whole file is refused."""
    with pytest.raises(BadLaunchFile) as refused:
        parse_launches([GOOD, b"", line])

    (told,) = refused.value.problems
    assert told.startswith("line 3: ")
    assert problem in told


def test_every_bad_line_is_named() -> None:
    """All bad lines are told at once."""
    with pytest.raises(BadLaunchFile) as refused:
        parse_launches([b"x", GOOD, b"{}", GOOD])

    assert [told.split(":")[0] for told in refused.value.problems] == ["line 1", "line 3", "line 4"]
    assert refused.value.problems[-1] == "line 4: the id 'a' is that of line 2"


def test_error_tells_no_value_of_the_environment() -> None:
    """What is wrong with a variable is told without its value."""
    with pytest.raises(BadLaunchFile) as refused:
        parse_launches([b'{"command": ["a"], "env": {"TOKEN": ["hunter2"]}}'])

    assert "hunter2" not in str(refused.value)


def test_id_from_content() -> None:
    """A line without an id has one that other content changes and other spelling does not."""
    first = one(input=1, timeout=2)
    respelt = one(timeout=2.0, input=1)
    other = one(input=2, timeout=2)

    assert first.run_id == respelt.run_id
    assert first.run_id != other.run_id
    assert first.run_id.startswith("command-")


def test_equal_lines_are_separate_launches() -> None:
    """Equal lines without ids are told apart by their order, the same in each reading."""
    line = b'{"command": ["date"]}'
    ids = [launch.run_id for launch in parse_launches([line, line, line])]

    assert ids == [launch.run_id for launch in parse_launches([line, line, line])]
    assert [run_id[-2:] for run_id in ids] == ["-1", "-2", "-3"]


def test_id_of_any_workflow() -> None:
    """A workflow of any name makes an id that is one."""
    launch = one(workflow="«Bericht 1»/täglich" + "x" * 400)

    assert len(launch.run_id) <= 200
    assert launch.run_id.startswith("Bericht-1-t-glichxxx")


def test_repr_tells_no_secret() -> None:
    """Input and options, which may hold secrets, are in no `repr`."""
    assert "hunter2" not in repr(one(env={"P": "hunter2"}, input="hunter2"))
