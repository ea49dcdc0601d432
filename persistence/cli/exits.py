"""How the command ends: which error is which exit code, told on standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn, TypeVar

from persistence.cli.launch_file import BadLaunchFile
from persistence.cli.printing import printable
from statemachine.errors import (
    CommitUnknown,
    InvalidArgument,
    SchemaMismatch,
    SqlatchError,
    StoreBusy,
    StoreCorrupt,
    StoreUnavailable,
)
from statemachine.outcome import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

DONE, REFUSED, USAGE, STORE, SOME_FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 130

_STORE_TROUBLE = (StoreBusy, StoreUnavailable, StoreCorrupt, CommitUnknown, SchemaMismatch)


class Ended(Exception):
    """The command ends here.

    Attributes:
        code: Its exit code.

        reason: Told on standard error, unless it is empty.
    """

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


def done(answer: T | Refused) -> T:
    """Return what a call answered; a refusal ends the command with its reason."""
    if isinstance(answer, Refused):
        raise Ended(REFUSED, str(answer))
    return answer


def guarded(app: Callable[[], object]) -> NoReturn:
    """Run it and exit with the code of what happened."""
    code, reason = DONE, ""
    try:
        app()
    except Ended as ended:
        code, reason = ended.code, ended.reason
    except (InvalidArgument, BadLaunchFile) as error:
        code, reason = USAGE, str(error)
    except _STORE_TROUBLE as error:
        code, reason = STORE, str(error) or type(error).__name__
    except SqlatchError as error:
        code, reason = REFUSED, str(error)
    if reason:
        print(f"sqlatch: {printable(reason)}", file=sys.stderr)
    sys.exit(code)
