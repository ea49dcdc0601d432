"""What a database promises of a power cut, whose clock rules, and who may read its files."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from persistence.backends.sqlite import MEMORY, SqliteBackend
from persistence.cli.findings import Finding
from persistence.clock import SystemClock, milliseconds
from persistence.dialect import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from persistence.clock import Clock
    from persistence.engine import Backend

MAX_SKEW_MS = 2_000
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OWN = SystemClock()
_LEVELS = ("OFF", "NORMAL", "FULL", "EXTRA")


def durability(backend: Backend) -> Sequence[Finding]:
    """Return the settings in force that decide what a crash or a power cut may lose."""
    if isinstance(backend, SqliteBackend):
        return _of_file(backend)
    return _of_server(backend)


def _of_file(backend: SqliteBackend) -> Sequence[Finding]:
    with backend.session() as session:
        mode = str(session.pragma("journal_mode"))
        level = int(str(session.pragma("synchronous")))
    wal = "" if mode == "wal" else "Open it once for writing, on a file system with shared memory."
    told = f"{_LEVELS[level]}, as every store is opened without durability='full'"
    return (
        Finding("journal_mode", mode, wal),
        Finding("synchronous", f"{told}: a power cut may lose the last commits"),
    )


def _of_server(backend: Backend) -> Sequence[Finding]:
    wanted = (
        ("fsync", "A power cut may destroy the database: set fsync = on."),
        ("full_page_writes", "A power cut may tear pages: set full_page_writes = on."),
        ("synchronous_commit", "A crash may lose the last commits: set synchronous_commit = on."),
    )
    found = []
    with backend.session() as session:
        for name, advice in wanted:
            rows, _ = session.execute(f"SHOW {name}", {})
            value = str(rows[0][0])
            found.append(Finding(name, value, advice if value == "off" else ""))
    return found


def moment(backend: Backend) -> int:
    """Return the instant by the clock that rules, in milliseconds since the Unix epoch."""
    if not backend.dialect.server_clock:
        return milliseconds(_OWN)
    query = text_of(sa.select(backend.dialect.clock()), backend.dialect.statements)
    with backend.session() as session:
        rows, _ = session.execute(query, {})
    return int(rows[0][0])


def clock(backend: Backend, own: Clock = _OWN) -> Finding:
    """Return whose clock rules over leases, and how far this process's `own` is from it."""
    if not backend.dialect.server_clock:
        return Finding("clock", "this machine's: all who open the file share it")
    with backend.session():
        began = milliseconds(own)
        server = moment(backend)
        ended = milliseconds(own)
    skew = (began + ended) // 2 - server
    told = f"the server's; this machine's is {abs(skew)} ms {'behind' if skew < 0 else 'ahead'}"
    if abs(skew) <= MAX_SKEW_MS:
        return Finding("clock", told)
    advice = "Leases hold all the same; instants that programs here compute are off: set the clock."
    return Finding("clock", told, advice)


def files(backend: Backend) -> Sequence[Finding]:
    """Return who may read or write the files of an SQLite database."""
    if not isinstance(backend, SqliteBackend) or backend.path == MEMORY:
        return ()
    paths = [Path(f"{backend.path}{suffix}") for suffix in ("", "-wal", "-shm")]
    found = []
    for path in paths:
        if path.exists():
            mode = stat.S_IMODE(path.stat().st_mode)
            advice = f"Others may use it: chmod 600 {path}" if mode & _OTHERS else ""
            found.append(Finding(f"mode of {path.name}", f"{mode:04o}", advice))
    return found
