"""What the layout's own table says of each part, and what the database has."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

import sqlalchemy as sa
from attrs import frozen

from persistence.dialect import Key, text_of
from persistence.schema import LAYOUT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from persistence.dialect import Dialect
    from persistence.layout import Session

VERSION = 1
"""The layout of this version of sqlatch."""

_NAME = r'(?:"(?:[^"]|"")+"|\w+)'
_MADE = re.compile(
    rf"CREATE (?:UNIQUE )?(?P<kind>TABLE|FUNCTION) (?P<name>{_NAME})"
    rf"|CREATE (?:UNIQUE )?(?P<part>INDEX|TRIGGER) (?P<called>{_NAME}) .*?\bON (?P<on>{_NAME})"
    rf"|ALTER TABLE (?P<table>{_NAME}) ADD (?P<added>COLUMN|CONSTRAINT) (?P<new>{_NAME})",
    re.DOTALL,
)


def catalog_of(session: Session, dialect: Dialect) -> dict[str, str]:
    """Return what the database has: each thing's definition, by its kind and name."""
    rows, _ = session.execute(dialect.catalog(), {})
    return {row[0]: row[1] for row in rows}


def is_laid_out(catalog: Mapping[str, str]) -> bool:
    """Tell whether this is the catalog of a database with any layout of sqlatch."""
    return f"table {LAYOUT.name}" in catalog


@frozen
class Record:
    """What is recorded of a part.

    Attributes:
        version: The layout's.

        digest: Of the statements that declare it.

        made: What the database made of it: definitions by name.
    """

    version: int
    digest: str
    made: Mapping[str, str]


def recorded_in(session: Session, dialect: Dialect) -> dict[str, Record]:
    """Return the record of each part."""
    columns = (LAYOUT.c.part, LAYOUT.c.version, LAYOUT.c.digest, LAYOUT.c.catalog)
    rows, _ = session.execute(text_of(sa.select(*columns), dialect.statements), {})
    return {row[0]: Record(row[1], row[2], json.loads(row[3])) for row in rows}


def digest(ddl: Sequence[str]) -> str:
    """Return the digest of a part's declared statements."""
    return hashlib.sha256("\n".join(ddl).encode()).hexdigest()


def recording(
    part: str,
    made: Sequence[str],
    dialect: Dialect,
    *,
    version: int = VERSION,
    declared: Sequence[str] | None = None,
    provided: sa.ColumnElement[bool] | None = None,
) -> str:
    """Return the statement that records a part with what the database made of it.

    It records nothing unless all is there: a shell may have gone on behind a statement that failed.

    Args:
        part: Its name.

        made: The statements that make it.

        dialect: The database.

        version: The layout's.

        declared: The statements that its machine declares; None: `made`.

        provided: What must be true, or the statement fails, for the catalog may not be NULL.
    """
    names = names_made(made)
    tables = [name.removeprefix("table ") for name in names if name.startswith("table ")]
    columns = (sa.column(name, Key()) for name in ("name", "definition", "place"))
    found = sa.text(dialect.catalog()).columns(*columns).subquery("found").c
    named = found.name.in_([_text(name) for name in names])
    count = sa.func.sum(sa.case((named, sa.literal(1)), else_=sa.literal(0)))
    seen = (
        sa.select(dialect.gathered(found.name, found.definition).label("made"), count.label("n"))
        .where(sa.or_(named, *(found.place == _text(table) for table in tables)))
        .subquery("seen")
        .c
    )
    catalog = seen.made if provided is None else sa.case((provided, seen.made))
    facts = (_text(part), sa.literal(version), _text(digest(declared or made)), catalog)
    record = sa.select(*facts).where(seen.n == sa.literal(len(names)))
    into = ["part", "version", "digest", "catalog"]
    return text_of(sa.insert(LAYOUT).from_select(into, record), dialect.ddl)


def forgetting(part: str, dialect: Dialect) -> str:
    """Return the statement that takes a part's record back."""
    return text_of(sa.delete(LAYOUT).where(LAYOUT.c.part == _text(part)), dialect.ddl)


def names_made(statements: Sequence[str]) -> list[str]:
    """Return what these statements of ours make, named as in the catalog."""
    names = [name_made(statement) for statement in statements]
    return [name for name in names if name is not None]


def name_made(statement: str) -> str | None:
    """Return what a statement of ours makes, named as in the catalog; None: nothing."""
    found = _MADE.match(statement)
    if found is None:
        return None
    kind = next(filter(None, (found["kind"], found["part"], found["added"]))).lower()
    place = (found["on"] or found["table"], found["name"] or found["called"] or found["new"])
    return f"{kind} {'.'.join(_unquoted(name) for name in place if name)}"


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _text(constant: str) -> sa.ColumnElement[str]:
    return sa.literal(constant, sa.Text())
