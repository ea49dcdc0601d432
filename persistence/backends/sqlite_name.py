"""The name of an open database's file: at every call it must still be that file's."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from attrs import define, field

from statemachine.errors import StoreUnavailable

if TYPE_CHECKING:
    from typing import TypeAlias

_ABOVE_S = 0.01
"""How long what the file's own directory does not tell of may be unseen."""

_TICK_NS = 100_000_000
"""How old a directory's last change is when no later one can have the same time."""

_SECOND_NS = 1_000_000_000

Identity: TypeAlias = "tuple[int, int]"
"""Which file has a name: device and inode."""

NO_FILE: Identity = (0, 0)


@define(eq=False)
class Name:
    """The name of one connection's file.

    SQLite goes on writing into a file that was removed, renamed or replaced. Each of these changes
    its directory, and the time of that change costs half of what the look-up of a path does. So the
    path itself is looked up only where the directory has changed, or may have: a moment ago, on a
    file system that counts whole seconds, or behind a symbolic link. Of what is renamed further
    above, or mounted over it, a directory does not tell: hence the path every 10 ms in any case.

    Attributes:
        path: Absolute.

        file: Which file had it when the connection was opened.
    """

    path: str
    file: Identity
    _directory: int = field(default=-1, init=False)
    _changed: int = field(default=0, init=False)
    _until: float = field(default=0.0, init=False)
    _again: float = field(default=0.0, init=False)
    _lock: threading.RLock = field(factory=threading.RLock, init=False)

    @classmethod
    def of(cls, path: str) -> Name:
        """Take a file by its name; to be called before the file is opened by it.

        Raises:
            StoreUnavailable: There is none.
        """
        return cls(path, _identity(path))

    def stands(self) -> bool:
        """Return whether the name is still the file's.

        Raises:
            StoreUnavailable: It is no file's.
        """
        now = time.monotonic()
        if now < self._until:
            try:
                if os.fstat(self._directory).st_ctime_ns == self._changed:
                    return True
            except OSError:  # another thread has closed the store
                pass
        return self._looked_up(now)

    def __del__(self) -> None:
        """Let go of the directory where nobody has: a store may be dropped, also by a fork."""
        if self._directory >= 0:
            os.close(self._directory)

    def close(self) -> None:
        """Let go of the file; from now on the name is not its."""
        with self._lock:
            self.file, directory, self._directory = NO_FILE, self._directory, -1
            if directory >= 0:
                os.close(directory)

    def _looked_up(self, now: float) -> bool:
        until = 0.0
        if now >= self._again:
            self._again = now + _ABOVE_S
            until = self._again if self._watched() else 0.0
        stands = self.file != NO_FILE and _identity(self.path) == self.file
        if stands:
            self._until = until
        return stands

    def _watched(self) -> bool:
        """Note when the directory has changed; False where a later change might not show."""
        parent = os.path.dirname(self.path)  # noqa: PTH120 - a path that is a text
        try:
            with self._lock:
                if self._directory < 0 and self.file != NO_FILE:
                    self._directory = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
            seen = os.fstat(self._directory)
            self._changed = seen.st_ctime_ns
            if time.time_ns() - self._changed < _TICK_NS or self._changed % _SECOND_NS == 0:
                return False
            there = os.stat(parent)  # noqa: PTH116 - as above
            return os.path.samestat(seen, there) and os.path.realpath(self.path) == self.path
        except OSError:
            return False


def _identity(path: str) -> Identity:
    try:
        found = os.stat(path)  # noqa: PTH116  # half of what Path costs
    except OSError as error:
        msg = f"{path} is gone: {error.strerror}"
        raise StoreUnavailable(msg) from error
    return found.st_dev, found.st_ino
