"""What SQLite tells of a database's layout, and of a table that a user made."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# A key is not told to be NOT NULL where the table is not STRICT; our triggers hold that. Letters'
# case is nothing in SQLite's names.
CATALOG = """
SELECT CASE type WHEN 'table' THEN 'table ' || lower(name)
        WHEN 'view' THEN 'relation ' || lower(name)
        ELSE type || ' ' || lower(tbl_name) || '.' || name END AS name,
    CASE type WHEN 'view' THEN 'a view' ELSE sql END AS definition, lower(tbl_name) AS place
FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'
UNION ALL
SELECT 'column ' || lower(m.name) || '.' || lower(c.name), c.type
    || CASE WHEN c."notnull" OR c.pk THEN ', NOT NULL' ELSE '' END
    || CASE WHEN c.pk AND c.type = 'INTEGER' COLLATE NOCASE
        AND (SELECT max(k.pk) FROM pragma_table_xinfo(m.name) k) = 1 THEN ', IDENTITY' ELSE '' END
    || CASE WHEN c.hidden > 1 THEN ', GENERATED' ELSE '' END
    || coalesce(', DEFAULT ' || c.dflt_value, ''), lower(m.name)
FROM sqlite_master m JOIN pragma_table_xinfo(m.name) c WHERE m.type = 'table'
UNION ALL
SELECT 'index ' || lower(tbl_name) || '.' || name, 'UNIQUE ('
    || (SELECT group_concat(lower(c.name), ', ') FROM pragma_index_info(m.name) c) || ')',
    lower(tbl_name)
FROM sqlite_master m WHERE type = 'index' AND sql IS NULL
ORDER BY 1
"""

_ROW_NUMBERS = ("rowid", "_rowid_", "oid")
"""SQLite's names for a row's number; a column of that name takes its place."""

_NUMBERLESS = re.compile(r"\bWITHOUT\s+ROWID\b[^)]*$", re.IGNORECASE)
_CLASHING = re.compile(r"\bON\s+CONFLICT\s+(?:ROLLBACK|FAIL|IGNORE|REPLACE)\b", re.IGNORECASE)
_COLLATION = r"""[^,]*?\bCOLLATE\s+["`[]?(\w+)"""


def row_number(columns: Iterable[str]) -> str:
    """Return the name of a row's number that none of the columns takes."""
    taken = tuple(columns)
    return next(name for name in _ROW_NUMBERS if name not in taken)


def unfit(table: str, columns: Iterable[str], catalog: Mapping[str, str]) -> list[str]:
    """Return why triggers over these columns cannot guard a table that is there.

    They need the rows' numbers, and that a clash is an error, which undoes the statement alone.
    """
    made, problems = catalog[f"table {table}"], []
    number = row_number(columns)
    if f"column {table}.{number}" in catalog:
        problems.append(f"column {table}.{number} hides the rows' own numbers")
    if _NUMBERLESS.search(made):
        problems.append(f"table {table} is WITHOUT ROWID")
    clashing = _CLASHING.search(made)
    if clashing is not None:
        problems.append(f"table {table} has {clashing[0]}: what it does then cannot be guarded")
    for name in columns:
        said = re.search(rf"""[\s(,]["`[]?{name}["`\]]?\s{_COLLATION}""", made, re.IGNORECASE)
        if said and said[1].upper() != "BINARY":
            problems.append(f"column {table}.{name} has COLLATE {said[1]}")
    return problems
