"""`doctor`: whether a database is well, and what to do where it is not."""

from __future__ import annotations

import attrs

from persistence.cli.database import DEFAULT_DB, Db, Json, open_database, shown
from persistence.cli.exits import REFUSED, Ended
from persistence.cli.findings import Finding
from persistence.cli.naming import OwnMachines, machines_named
from persistence.cli.printing import print_json, print_table
from statemachine.errors import SchemaMismatch


def doctor(names: OwnMachines = None, db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """Look at layout, durability, clocks, leases, every row and the files; change nothing.

    Each row is read. Exits with 1 when something is to be done, and says what.
    """
    found = _examined(db, names)
    if as_json:
        print_json([attrs.asdict(one) | {"well": one.well} for one in found])
    else:
        print_table(
            shown(db),
            ("", "looked at", "found", "what to do"),
            [("ok" if one.well else "!!", one.about, one.told, one.advice) for one in found],
        )
    if not all(one.well for one in found):
        raise Ended(REFUSED)


def _examined(db: str, names: list[str] | None) -> list[Finding]:
    from persistence.cli.durability import clock, durability, files  # noqa: PLC0415 - `--help` is quick
    from persistence.cli.examining import examined  # noqa: PLC0415 - likewise

    own = machines_named(names) if names else ()
    try:
        store = open_database(db, read_only=True, machines=own)
    except SchemaMismatch as mismatch:
        differences = "; ".join(mismatch.differences)
        return [Finding("layout", differences, mismatch.advice)]
    with store:
        backend = store.engine.backend
        return [
            Finding("layout", "as declared"),
            *durability(backend),
            *files(backend),
            clock(backend),
            *(one for machine in store.engine.machines for one in examined(store, machine)),
        ]
