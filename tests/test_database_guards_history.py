"""History is what the transitions wrote: it is neither forged nor changed nor deleted."""

from __future__ import annotations

from typing import Any

import pytest

from persistence import Store
from tests.attacks import HUGE, STATES, scene, slipped, verbs
from tests.conftest import Capabilities
from tests.raw import Raw, insert


@pytest.fixture(name="raw")
def _raw(store: Store, database: str, capabilities: Capabilities) -> Raw:
    return scene(store, database, capabilities)


def test_rows_are_not_deleted(raw: Raw) -> None:
    """Neither a run nor all of them, in whatever state."""
    attacks = [
        "DELETE FROM runs",
        *(f"DELETE FROM runs WHERE run_id = '{state}'" for state in STATES),
        "DELETE FROM sqlatch_history",
        "DELETE FROM sqlatch_history WHERE transition IS NULL",
        "DELETE FROM sqlatch_history WHERE \"key\" = 'done'",
    ]
    if raw.capabilities.server_clock:
        attacks += [
            "TRUNCATE runs",
            "TRUNCATE sqlatch_history",
            "TRUNCATE runs, sqlatch_history RESTART IDENTITY CASCADE",
            "DELETE FROM ONLY runs USING sqlatch_history",
            (
                "MERGE INTO runs USING (SELECT 'queued') AS s(k) ON run_id = k"
                " WHEN MATCHED THEN DELETE"
            ),
        ]
    else:
        attacks += [f"PRAGMA recursive_triggers = ON;\n{sql}" for sql in attacks]

    assert slipped(raw, attacks) == []


def test_history_is_not_changed(raw: Raw) -> None:
    """Not a column of a single row."""
    last = raw.row("sqlatch_history", "key", "queued")
    attacks = [
        f'{verb} sqlatch_history SET "{name}" = {value} WHERE "key" = \'{key}\''
        for verb in verbs(raw.capabilities)
        for key in ("queued", "done")
        for name, value in (
            ("at", 1), ("machine", "'ghost'"), ("key", "'ghost'"), ("revision", 7),
            ("transition", "'finish'"), ("source", "'running'"), ("dest", "'done'"),
            ("actor", "'ghost'"), ("actor_kind", "'ghost'"), ("generation", 7),
            ("call", "'ghost'"), ("changes", "'{}'"), ("event", "'ghost'"), ("tx", 7),
            ("revision", "revision"),
        )
    ]  # fmt: skip
    if not raw.capabilities.server_clock:
        attacks += [
            f"{verb} sqlatch_history SET seq = {number} WHERE seq = {last['seq']}"
            for verb in verbs(raw.capabilities)
            for number in (last["seq"] + 1, -1, HUGE)
        ]

    assert slipped(raw, attacks) == []


def test_history_is_not_forged(raw: Raw) -> None:
    """A row of history is what a transition wrote, once; and a host's event is of a row that is."""
    attacks = []
    verbs_of_insert = ["INSERT"]
    if not raw.capabilities.server_clock:
        verbs_of_insert += ["INSERT OR REPLACE", "INSERT OR IGNORE", "REPLACE"]
    calls = {run_id: raw.row("runs", "run_id", run_id)["last_call"] for run_id in _STEPPED}
    last = {run_id: _fresh(raw.row("sqlatch_history", "call", c)) for run_id, c in calls.items()}
    noted = _fresh(raw.row("sqlatch_history", "event", "noted"))
    for verb in verbs_of_insert:
        for step_ in last.values():
            attacks += [
                insert("sqlatch_history", {**step_, **values}, verb)
                for values in (
                    {},
                    {"call": "forged"},
                    {"revision": step_["revision"] + 1, "call": "forged"},
                    {"revision": step_["revision"] + 1, "call": "forged", "transition": "cancel",
                     "dest": "cancelled"},
                    {"revision": 1, "call": "forged"},
                    {"transition": "finish", "dest": "done", "call": "forged"},
                    {"key": "no such run", "call": "forged"},
                    {"machine": "no such machine", "call": "forged"},
                    {"transition": None, "call": "forged"},
                    {"event": "forged", "call": "forged"},
                    {"at": 1, "call": "forged"},
                )
            ]  # fmt: skip
        attacks += [
            insert("sqlatch_history", {**noted, **values}, verb)
            for values in (
                {},
                {"revision": 9, "call": "forged"},
                {"revision": 0, "call": "forged"},
                {"key": "no such run", "call": "forged"},
                {"machine": "no such machine", "call": "forged"},
                {"transition": "cancel", "call": "forged"},
                {"dest": "done", "call": "forged"},
                {"source": "queued", "call": "forged"},
                {"generation": 7, "call": "forged"},
                {"changes": "no JSON", "call": "forged"},
                {"changes": "", "call": "forged"},
            )
        ]

    assert slipped(raw, attacks) == []


def test_no_place_in_history_is_chosen(raw: Raw) -> None:
    """A chosen sequence number could overwrite a step, stand in the way, or use the numbers up."""
    noted = raw.row("sqlatch_history", "event", "noted")
    numbers = (noted["seq"], 1, 0, -1, noted["seq"] + 1, 1_000_000, HUGE, -HUGE)
    forced = " OVERRIDING SYSTEM VALUE" if raw.capabilities.server_clock else ""
    attacks = []
    for number in numbers:
        row = {**noted, "seq": number, "call": f"forged {number}"}
        attacks.append(insert("sqlatch_history", row).replace(") VALUES", f"){forced} VALUES"))
        if not raw.capabilities.server_clock:
            attacks.append(insert("sqlatch_history", row, "INSERT OR REPLACE"))
    if raw.capabilities.server_clock:
        attacks += [
            insert("sqlatch_history", {**_fresh(noted), "tx": tx, "call": f"forged {tx}"})
            for tx in (0, 1, -1, HUGE)
        ]

    assert slipped(raw, attacks) == []


_STEPPED = ("queued", "running", "done")


def _fresh(row: dict[str, Any]) -> dict[str, Any]:
    """Return a history row without what the database itself gives."""
    return {name: value for name, value in row.items() if name not in ("seq", "tx")}
