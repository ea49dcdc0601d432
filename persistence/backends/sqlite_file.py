"""The file of a SQLite database: made for its owner alone, or looked at."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path
from urllib.parse import quote

from persistence.backends.sqlite_errors import translated
from statemachine.errors import InvalidArgument, StoreCorrupt, StoreUnavailable

_SMALLEST = 512
"""Bytes of the smallest page that SQLite knows."""

_PREPARING = threading.Lock()
"""No thread connects to a file before the descriptor that made it is closed."""

_MOUNTS = Path("/proc/self/mountinfo")
_SHARED = (
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "gfs2", "gpfs", "lustre",
    "ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "smb3", "smbfs",
)  # fmt: skip
"""File systems that several machines share: there no two of them share the memory of a log."""


def absolute(path: str) -> str:
    """Return a path that means the same file whatever directory the process changes to.

    Raises:
        InvalidArgument: No file can have this name.
    """
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise InvalidArgument("url", "a path that the file system can spell") from error
    if "\0" in path:
        raise InvalidArgument("url", "a path without U+0000")
    return str(Path(path).absolute())


def prepare(path: str, *, create: bool) -> None:
    """Make the file for its owner alone, before SQLite would by the umask; or look at it.

    Raises:
        StoreUnavailable: It does not exist, cannot be made or read, or lies on a network.

        StoreCorrupt: It is no SQLite database; it was left as it is.
    """
    try:
        with _PREPARING:
            if Path(path).exists():
                _look(path)
            elif create:
                _make(Path(path))
            else:
                msg = f"{path} does not exist; open it with create=True to make it"
                raise StoreUnavailable(msg)
    except OSError as error:
        msg = f"{path} cannot be {'created' if create else 'read'}: {error.strerror}"
        raise StoreUnavailable(msg) from error
    system = file_system(path)
    if system in _SHARED:
        msg = (
            f"{path} lies on a network ({system}), where SQLite's log and locks do not hold:"
            " move it to a local disk, or use PostgreSQL"
        )
        raise StoreUnavailable(msg)


def _look(path: str) -> None:
    """Refuse a file that is no database, or whose end is missing, before anything is written.

    SQLite does the reading: to close a descriptor of one's own would let go of the locks that this
    process's other connections have on the file, and another process would cut their log off.
    While a log or journal lies beside it, the file alone does not tell where it ends.
    """
    resting = not any(_has_bytes(path + beside) for beside in ("-wal", "-journal"))
    size = Path(path).stat().st_size
    try:
        look = sqlite3.connect(f"file:{quote(path)}?mode=rw", uri=True, timeout=0)
    except sqlite3.Error as error:
        raise translated(error) from error
    try:
        (page,) = look.execute("PRAGMA page_size").fetchone()
        (pages,) = look.execute("PRAGMA page_count").fetchone()
        sound = size == 0 or not resting or (size % page == 0 and size >= pages * page)
    except sqlite3.Error as error:
        sound = not isinstance(translated(error), StoreCorrupt)
    finally:
        look.close()
    if not sound or 0 < size < _SMALLEST:
        msg = f"{path} is damaged or no database; it was left as it is"
        raise StoreCorrupt(msg)


def _has_bytes(path: str) -> bool:
    try:
        return Path(path).stat().st_size > 0
    except FileNotFoundError:
        return False  # a log goes with its last connection, also between two looks


def _make(path: Path) -> None:
    missing = [parent for parent in path.parents if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=0o700, exist_ok=True)
        parent.chmod(0o700)
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except FileExistsError:
        return  # another was faster, and may hold locks on it by now
    os.fchmod(descriptor, 0o600)
    os.close(descriptor)


def file_system(path: str) -> str | None:
    """Return the type of the file system that holds a path; None where that cannot be told."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    place = os.path.realpath(path)
    found: tuple[str, str | None] = ("", None)
    for mount in mounts:
        before, _, after = mount.partition(" - ")
        point = before.split()[4].encode().decode("unicode_escape", errors="replace")
        within = place == point or place.startswith(point.rstrip("/") + "/")
        if within and len(point) >= len(found[0]):
            found = (point, after.split()[0])
    return found[1]
