"""What may be told of an error: a code, and one redacted line."""

from __future__ import annotations

import enum
import re

from attrs import frozen

from statemachine.errors import (
    CommitUnknown,
    InvalidArgument,
    MachineError,
    SchemaMismatch,
    StoreBusy,
    StoreCorrupt,
    StoreUnavailable,
)

MAX_UNITS = 500
KEPT_UNITS = 480
MARK = "… [error truncated]"
NOTHING_SAID = "The deferred workflow could not start"

# ECMAScript's white space: the wire form is shared with implementations that trim by it.
_SPACE = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_BEARER = re.compile(f"bearer[{_SPACE}]+[^{_SPACE}]+", re.IGNORECASE)
_VALUE = re.compile(
    f"(token|api[_-]?key|secret|password)([{_SPACE}]*[:=][{_SPACE}]*)[^{_SPACE}]+", re.IGNORECASE
)
_TRACE = re.compile(r"Traceback \(most recent call last\):.*", re.DOTALL)


class SafeCode(enum.StrEnum):
    """What kind of error stopped a launch."""

    WORKFLOW_NOT_FOUND = "workflow_not_found"
    WORKFLOW_INVALID = "workflow_invalid"
    INPUT_INVALID = "input_invalid"
    SOURCE_CHANGED = "source_changed"
    STORE_UNAVAILABLE = "store_unavailable"
    ACTIVATION_FAILED = "activation_failed"
    CANCELLED = "cancelled"


_BY_CLASS: tuple[tuple[type[BaseException], SafeCode], ...] = (
    (InvalidArgument, SafeCode.INPUT_INVALID),
    (MachineError, SafeCode.WORKFLOW_INVALID),
    (StoreBusy, SafeCode.STORE_UNAVAILABLE),
    (StoreUnavailable, SafeCode.STORE_UNAVAILABLE),
    (StoreCorrupt, SafeCode.STORE_UNAVAILABLE),
    (CommitUnknown, SafeCode.STORE_UNAVAILABLE),
    (SchemaMismatch, SafeCode.STORE_UNAVAILABLE),
    (ModuleNotFoundError, SafeCode.WORKFLOW_NOT_FOUND),
    (SyntaxError, SafeCode.WORKFLOW_INVALID),
)
_BY_TEXT: tuple[tuple[re.Pattern[str], SafeCode], ...] = (
    (
        re.compile("not found|cannot find|unknown workflow", re.IGNORECASE),
        SafeCode.WORKFLOW_NOT_FOUND,
    ),
    (re.compile("source changed|source mismatch", re.IGNORECASE), SafeCode.SOURCE_CHANGED),
    (re.compile("invalid|must be", re.IGNORECASE), SafeCode.WORKFLOW_INVALID),
)


@frozen
class SafeError:
    """An error as a run's record may tell it.

    Attributes:
        code: What kind of error it is.

        message: One line, never empty; secrets redacted; at most 500 UTF-16 units.
    """

    code: SafeCode
    message: str


def safe_error(error: BaseException, *, nothing_said: str | None = None) -> SafeError:
    """Return what may be told of an error; the code comes from its class, else from its text.

    Args:
        error: What was raised.

        nothing_said: The message where the error has none; default: the name of its class.
    """
    told = safe_text(str(error), nothing_said=nothing_said or type(error).__name__)
    for known, code in _BY_CLASS:
        if isinstance(error, known):
            return SafeError(code, told.message)
    return told


def safe_text(text: str, *, nothing_said: str = NOTHING_SAID) -> SafeError:
    """Return what may be told of an error of which only the text is known."""
    line = redacted(_TRACE.sub("", text)) or nothing_said
    for pattern, code in _BY_TEXT:
        if pattern.search(line):
            return SafeError(code, _bounded(line))
    return SafeError(SafeCode.ACTIVATION_FAILED, _bounded(line))


def redacted(text: str) -> str:
    """Return the text on one line, without bearer tokens and values of secrets.

    What follows `token`, `api key`, `secret` or `password` and a colon or equals sign is taken to
    be a value, up to the next white space.
    """
    line = _BEARER.sub("Bearer [redacted]", text.replace("\n", " "))
    return _VALUE.sub(r"\1\2[redacted]", line).strip(_SPACE)


def _bounded(line: str) -> str:
    """Cut by UTF-16 units, as the wire form counts; a halved or lone surrogate becomes U+FFFD."""
    units = line.encode("utf-16-le", "surrogatepass")
    if len(units) <= 2 * MAX_UNITS:
        return units.decode("utf-16-le", "replace")
    return units[: 2 * KEPT_UNITS].decode("utf-16-le", "replace") + MARK
