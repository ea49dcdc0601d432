"""Which process this is, without asking the kernel at every call."""

from __future__ import annotations

import os

from attrs import define


@define
class Process:
    """The running process.

    Attributes:
        pid: Its id; a fork's child has its own from its first step on.
    """

    pid: int


PROCESS = Process(os.getpid())


def _forked() -> None:
    PROCESS.pid = os.getpid()


os.register_at_fork(after_in_child=_forked)
