"""Which process this is, without asking the kernel at every call."""

from __future__ import annotations

import itertools
import os
import secrets
from typing import TYPE_CHECKING

from attrs import define

if TYPE_CHECKING:
    from collections.abc import Iterator


@define
class Process:
    """The running process; a fork's child has its own from its first step on.

    Attributes:
        pid: Its id.

        calls: Ids for its calls, no other's; side by side in an index. Any thread may take one.
    """

    pid: int
    calls: Iterator[str]


def _calls() -> Iterator[str]:
    return map(f"{secrets.token_hex(12)}-%x".__mod__, itertools.count())


PROCESS = Process(os.getpid(), _calls())


def _forked() -> None:
    PROCESS.pid, PROCESS.calls = os.getpid(), _calls()


os.register_at_fork(after_in_child=_forked)
