"""Functions run in a child of this process: forked, so that it inherits what is open."""

from __future__ import annotations

import os
import pickle
import pwd
import signal
import traceback
from collections.abc import Callable
from typing import Any

PATIENCE = 60


def forked(function: Callable[[], object], *, unprivileged: bool = False) -> Any:
    """Run a function in a fork of this process, and return its result.

    Args:
        function: Returns something that can be pickled.

        unprivileged: Whether the child gives up root's rights first, where it has them.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(PATIENCE)
        _in_child(function, writing, unprivileged=unprivileged)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended by {status}"
    failed, result = pickle.loads(said)  # noqa: S301  # written by our own child
    assert not failed, result
    return result


def _in_child(function: Callable[[], object], writing: int, *, unprivileged: bool) -> None:
    failed, result = True, None
    try:
        if unprivileged and os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
        failed, result = False, function()
    except BaseException:  # noqa: BLE001  # told by the parent
        result = traceback.format_exc()
    finally:
        with os.fdopen(writing, "wb") as answer:
            answer.write(pickle.dumps((failed, result)))
        os._exit(0)
