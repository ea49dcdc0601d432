"""Launches from JSON Lines: read whole, checked whole, before anything of them is launched."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from attrs import field, frozen

from statemachine.errors import InvalidArgument
from statemachine.kinds import Integer, Json, JsonValue, Text, admit
from statemachine.machines.run_launch import RUN_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

FIELDS = ("id", "workflow", "command", "input", "env", "cwd", "timeout", "max_attempts")
MAX_TIMEOUT_S = 100 * 365 * 24 * 3_600
_SOURCE, _OPTIONS, _INPUT = Json(65_536), Json(65_536), Json(1_048_576)
_TIMEOUT = "a number of seconds above 0, at most 100 years"
_NO_SLUG = re.compile("[^A-Za-z0-9.-]+")


@frozen(kw_only=True)
class Launch:
    """One line of a launch file.

    Attributes:
        line: Its number, from 1.

        run_id: As given, or made from the line's content.

        workflow, source, source_ref, definition_digest, input, launch_options, max_attempts: What
            the run is reserved with.
    """

    line: int
    run_id: str
    workflow: str
    source: JsonValue
    source_ref: str
    definition_digest: str
    input: JsonValue = field(repr=False)
    launch_options: JsonValue = field(repr=False)
    max_attempts: int | None


class BadLaunchFile(Exception):
    """Some lines are no launches; nothing of the file was launched.

    Attributes:
        problems: One sentence per bad line, each with its number.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(*problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


def read_launches(path: Path) -> tuple[Launch, ...]:
    """Return the launches of a file, in its order; blank lines are passed over.

    A line without an `id` gets one from its content, the same whenever the same file is read: the
    workflow, 12 hexadecimal digits of the line's SHA-256, and which of several equal lines it is.

    Raises:
        BadLaunchFile: A line is no JSON object, has an unknown or a bad field, or an id that
            another line has.

        OSError: The file cannot be read.
    """
    return parse_launches(path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"))


def parse_launches(lines: Iterable[bytes]) -> tuple[Launch, ...]:
    """Return the launches of lines; see `read_launches`."""
    launches: list[Launch] = []
    problems: list[str] = []
    seen: dict[str, int] = {}
    equal: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            launch = _launch(number, _object(line), equal)
        except InvalidArgument as error:
            problems.append(f"line {number}: {error}")
            continue
        first = seen.setdefault(launch.run_id, number)
        if first != number:
            problems.append(f"line {number}: the id {launch.run_id!r} is that of line {first}")
        launches.append(launch)
    if problems:
        raise BadLaunchFile(problems)
    return tuple(launches)


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(line.decode(), object_pairs_hook=_unique, parse_constant=_not_finite)
    except InvalidArgument:
        raise
    except UnicodeDecodeError as error:
        raise InvalidArgument("the line", "UTF-8") from error
    except RecursionError as error:
        raise InvalidArgument("the line", "JSON of moderate depth") from error
    except json.JSONDecodeError as error:
        raise InvalidArgument("the line", f"a JSON object ({error.msg})") from error
    except ValueError as error:
        raise InvalidArgument("the line", "JSON with numbers of moderate length") from error
    if not isinstance(value, dict):
        raise InvalidArgument("the line", "a JSON object")
    unknown = [name for name in value if name not in FIELDS]
    if unknown:
        raise InvalidArgument(f"the field {unknown[0]!r}", f"one of {', '.join(FIELDS)}")
    return value


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise InvalidArgument("the line", "JSON that names each member once")
    return members


def _not_finite(name: str) -> NoReturn:
    raise InvalidArgument("the line", f"JSON, which has no {name}")


def _launch(number: int, given: Mapping[str, Any], equal: dict[str, int]) -> Launch:
    workflow = _text(given.get("workflow", "command"), "workflow")
    argv = given.get("command")
    if not isinstance(argv, list) or not argv or not all(isinstance(part, str) for part in argv):
        raise InvalidArgument("command", "a list of texts, the program first")
    if not argv[0]:
        raise InvalidArgument("command", "a list whose first text names a program")
    cwd = given.get("cwd")
    if cwd is not None and (not isinstance(cwd, str) or not cwd):
        raise InvalidArgument("cwd", "the path of a directory")
    source = {"kind": "command", "argv": argv, "cwd": cwd}
    options: dict[str, JsonValue] = {}
    if "env" in given:
        options["env"] = _environment(given["env"])
    if given.get("timeout") is not None:
        options["timeout"] = _seconds(given["timeout"])
    attempts = given.get("max_attempts", 3)
    if attempts is not None:
        admit(Integer(minimum=1), attempts, "max_attempts")
    admit(_INPUT, given.get("input"), "input")
    admit(_OPTIONS, options, "env and timeout")
    canonical = str(admit(_SOURCE, source, "command and cwd"))
    return Launch(
        line=number,
        run_id=_id(given, workflow, equal),
        workflow=workflow,
        source=source,
        source_ref=_text(f"command:{argv[0]}", "the program's name"),
        definition_digest=f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}",
        input=given.get("input"),
        launch_options=options,
        max_attempts=attempts,
    )


def _id(given: Mapping[str, Any], workflow: str, equal: dict[str, int]) -> str:
    if "id" in given:
        return str(admit(RUN_ID, given["id"], "id"))
    canonical = str(admit(Json(4 * 1_048_576), dict(given), "the line"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:12]
    equal[digest] = equal.get(digest, 0) + 1
    slug = _NO_SLUG.sub("-", workflow).strip("-.")[:100] or "launch"
    return f"{slug}-{digest}-{equal[digest]}"


def _text(value: object, name: str) -> str:
    return str(admit(Text(), value, name))


def _environment(env: object) -> dict[str, JsonValue]:
    """Check names and forms; an error never tells a value."""
    if not isinstance(env, dict):
        raise InvalidArgument("env", "an object of names and texts")
    for name, value in env.items():
        if not name or "=" in name:
            raise InvalidArgument("env", "an object whose names are not empty and hold no '='")
        origin = value.get("from") if isinstance(value, dict) and len(value) == 1 else None
        if not isinstance(value, str) and not (isinstance(origin, str) and origin):
            raise InvalidArgument(f"env {name!r}", 'a text or {"from": NAME}')
    return env


def _seconds(timeout: object) -> float:
    if not isinstance(timeout, int | float) or isinstance(timeout, bool):
        raise InvalidArgument("timeout", _TIMEOUT)
    if not 0 < timeout <= MAX_TIMEOUT_S:
        raise InvalidArgument("timeout", _TIMEOUT)
    return float(timeout)
