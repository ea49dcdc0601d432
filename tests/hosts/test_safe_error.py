"""What a run's record may tell of an error, checked against the recorded vectors."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from persistence.hosts.safe_error import SafeCode, SafeError, safe_error, safe_text
from statemachine.errors import InvalidArgument, StoreBusy, StoreUnavailable

VECTORS = json.loads(
    (Path(__file__).parents[1] / "vectors" / "safe_launch_error.json").read_text()
)["vectors"]


def spelled(given: Any) -> str:
    """Return the text that a vector stands for."""
    match given:
        case {"$rep": [str(unit), int(times), *around]}:
            before, after = [*around, "", ""][:2]
            return str(before) + unit * times + str(after)
        case _:
            return str(given)


def thrown_text(thrown: Any) -> str:
    """Return what the recorded implementation makes of a thrown value that is no error."""
    match thrown:
        case None:
            return "null"
        case list():
            return ",".join(thrown)
        case "object with a message property":
            return "[object Object]"
        case _:
            return str(thrown)


def given_text(vector: dict[str, Any]) -> str:
    """Return the text of the error that a vector describes."""
    if "thrown" in vector:
        return thrown_text(vector["thrown"])
    return spelled(vector["input"] if "input" in vector else vector["error_message"])


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: json.dumps(v)[:60])
def test_vector(vector: dict[str, Any]) -> None:
    """Code and text are those that were recorded; a halved character becomes U+FFFD (D18)."""
    told = safe_text(given_text(vector))

    expected = vector["message"]
    assert vector["code"] == told.code
    if isinstance(expected, str):
        assert expected == told.message
    elif expected["has_lone_surrogate"]:
        assert expected["utf16_len"] == len(told.message.encode("utf-16-le")) // 2
        assert told.message[-20:] == "\ufffd… [error truncated]"
    else:
        digest = hashlib.sha256(told.message.encode("utf-16-le")).hexdigest()
        assert expected["sha256_of_utf16le"] == digest


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreBusy("invalid"), SafeCode.STORE_UNAVAILABLE),
        (StoreUnavailable("not found"), SafeCode.STORE_UNAVAILABLE),
        (InvalidArgument("lease", "positive"), SafeCode.INPUT_INVALID),
        (ModuleNotFoundError("No module named 'x'"), SafeCode.WORKFLOW_NOT_FOUND),
        (SyntaxError("invalid syntax"), SafeCode.WORKFLOW_INVALID),
        (ValueError("must be positive"), SafeCode.WORKFLOW_INVALID),
        (ZeroDivisionError("division by zero"), SafeCode.ACTIVATION_FAILED),
    ],
)
def test_class_before_text(error: Exception, code: SafeCode) -> None:
    """The error's own class says the code; its text only where the class says nothing."""
    assert code == safe_error(error).code


def test_error_without_a_message() -> None:
    """An error that says nothing is told by the name of its class, never by an empty text."""
    assert SafeError(SafeCode.ACTIVATION_FAILED, "KeyboardInterrupt") == safe_error(
        KeyboardInterrupt()
    )


def test_stack_trace_is_left_out() -> None:
    """A stack trace inside a message is not told."""
    error = RuntimeError(
        'child broke\nTraceback (most recent call last):\n  File "x", line 1\nOops'
    )

    assert safe_error(error).message == "child broke"


def test_message_fits_the_record() -> None:
    """The longest message, of the widest characters, fits the 2,048 bytes of the record."""
    told = safe_error(RuntimeError("日" * 5_000))

    assert len(told.message) == 499
    assert len(told.message.encode()) <= 2_048
