"""The layouts as they were released; `python -m persistence.migrations.frozen` writes this one's.

A migration must not change when a declaration does, so it reads these files and not the machines.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from persistence.backends.postgresql_dialect import POSTGRESQL
from persistence.backends.sqlite_dialect import SQLITE
from persistence.layout import parts_of
from persistence.layout_record import VERSION
from statemachine.machines import ALL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from persistence.dialect import Dialect

FOLDER = Path(__file__).parent / "layouts"
DIALECTS: tuple[Dialect, ...] = (SQLITE, POSTGRESQL)


def frozen(version: int, dialect: str) -> Mapping[str, tuple[str, ...]]:
    """Return the statements of each part of a released layout."""
    text = _path(version, dialect).read_text(encoding="utf-8")
    return {part: tuple(statements) for part, statements in json.loads(text).items()}


def current(dialect: Dialect) -> str:
    """Return this version's layout as the text of its file."""
    parts = parts_of(ALL, dialect)
    return json.dumps(parts, indent=1, ensure_ascii=False) + "\n"


def write() -> None:
    """Write this version's layout; only ever before its release."""
    for dialect in DIALECTS:
        _path(VERSION, dialect.name).write_text(current(dialect), encoding="utf-8")


def _path(version: int, dialect: str) -> Path:
    return FOLDER / f"{version:04}.{dialect}.json"


if __name__ == "__main__":
    write()
