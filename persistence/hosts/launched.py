"""The handler of runs that are commands: source, options and input in, exit status and output out.

The source is `{"kind": "command", "argv": [...], "cwd": path or null}`. The launch options may hold
`env` (name to text, or to `{"from": NAME}` for a variable of the worker's own) and `timeout` in
seconds. An input other than null goes to the command's standard input as one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, assert_never

from persistence.hosts.command import CommandEnd, CommandTask, How, run_guarded
from persistence.hosts.safe_error import redacted
from persistence.hosts.verdict import Done, Failed, Park, Verdict
from statemachine.errors import LeaseLost
from statemachine.machines.run_launch import RunOutcome

if TYPE_CHECKING:
    from persistence.hosts.lease import Lease
    from statemachine.kinds import JsonValue
    from statemachine.machines.run_launch import Run

KIND = "command"
_LAST_WORDS = 200


def is_command(run: Run) -> bool:
    """Tell whether the run's source is a command."""
    return isinstance(run.source, Mapping) and run.source.get("kind") == KIND


def run_command(run: Run, lease: Lease) -> Verdict:
    """Run the command under a guard; the worker's handler.

    Raises:
        Failed: The run's facts name no command, or a variable that the worker does not have.

        LeaseLost: The lease was lost meanwhile; the command was ended.
    """
    end = run_guarded(_task(run), lease)
    match end.how:
        case How.LEASE:
            raise LeaseLost(lease.run_id, lease.generation)
        case How.STOPPED:
            if not lease.held:
                raise LeaseLost(lease.run_id, lease.generation)
            return Park()
        case How.UNSTARTABLE:
            return Failed(code="notStarted", message=redacted(end.error or "not started"))
        case How.GUARD_LOST:
            return Failed(code="guardLost", message="the command was ended: its guard was killed")
        case How.TIMEOUT:
            return Failed(
                code="timedOut",
                message=f"killed after its timeout, at {end.seconds:.1f} s",
                outcome=RunOutcome.TIMED_OUT,
                result=_result(end),
            )
        case How.EXITED if end.code == 0:
            return Done(_result(end))
        case How.EXITED:
            return Failed(code="exitStatus", message=_message(end), result=_result(end))
    assert_never(end.how)


def _task(run: Run) -> CommandTask:
    source, options = run.source, run.launch_options
    if not isinstance(source, Mapping) or not isinstance(options, Mapping):
        raise Failed(code="notACommand", message="the run's source or options are no object")
    argv, cwd = source.get("argv"), source.get("cwd")
    if not isinstance(argv, list) or not argv or not all(isinstance(part, str) for part in argv):
        raise Failed(code="notACommand", message="the run's source has no argv")
    if cwd is not None and not isinstance(cwd, str):
        raise Failed(code="notACommand", message="the run's source has no directory for cwd")
    given = options.get("env", {})
    env = {name: _value(name, value) for name, value in given.items()}
    env["SQLATCH_RUN_ID"] = run.run_id
    env["SQLATCH_GENERATION"] = str(run.lease_generation)
    return CommandTask(
        argv=argv,
        env=env,
        cwd=cwd,
        timeout_s=options.get("timeout"),
        stdin="" if run.input is None else json.dumps(run.input, ensure_ascii=False) + "\n",
    )


def _value(name: str, value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    origin = value.get("from") if isinstance(value, Mapping) else None
    if not isinstance(origin, str):
        raise Failed(code="notACommand", message=f"the variable {name} has no text")
    if origin not in os.environ:
        raise Failed(
            code="environmentMissing", message=f"the worker's environment has no variable {origin}"
        )
    return os.environ[origin]


def _result(end: CommandEnd) -> JsonValue:
    """Return what is kept: at most 800 KB of canonical JSON, however the output reads."""
    return {
        "exit_code": end.code,
        "seconds": round(end.seconds, 3),
        "stdout": _text(end.stdout, end.dropped[0]),
        "stderr": _text(end.stderr, end.dropped[1]),
        "stdout_dropped_bytes": end.dropped[0],
        "stderr_dropped_bytes": end.dropped[1],
    }


def _text(output: bytes, dropped: int) -> str:
    """Return output as text; U+FFFD stands for what is no UTF-8, and for U+0000."""
    if dropped:
        # A character that the cut has halved is left out.
        while output and output[0] & 0xC0 == 0x80:  # noqa: PLR2004 - UTF-8's continuation bytes
            output = output[1:]
    return output.decode("utf-8", "replace").replace("\0", "\ufffd")


def _message(end: CommandEnd) -> str:
    code = end.code or 0
    told = f"exit status {code}" if code > 0 else f"killed by {_signal(-code)}"
    words = _text(end.stderr, end.dropped[1]).strip().splitlines()
    last = redacted(words[-1])[:_LAST_WORDS] if words else ""
    return f"{told}: {last}" if last else told


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
