"""`check`: machines tried whole, on the command line."""

from __future__ import annotations

from pathlib import Path

from persistence.cli.checking import HELPERS
from statemachine.machines import ALL
from tests.cli.conftest import Call


def test_a_machine_without_faults(call: Call, db: str) -> None:
    """What was covered is told, and the exit code says that all is well; no file is made."""
    said = call("check", "notification", "tests.order:ORDER")

    assert said.code == 0
    assert said.out.startswith("notification on sqlite, ")
    assert "\norder on sqlite, " in said.out
    assert "reachable: " in said.out
    assert not Path(db).exists()


def test_shipped_machines_are_checked_for_a_way_out() -> None:
    """Each shipped machine has helpers, which are transitions of it."""
    declared = {machine.name: {one.name for one in machine.transitions} for machine in ALL}

    assert list(HELPERS) == list(declared)
    assert all(set(helpers) <= declared[name] for name, helpers in HELPERS.items())


def test_a_machine_that_gets_stuck(call: Call) -> None:
    """A row that the named helpers cannot bring to an end is a finding, with the way there."""
    said = call("check", "tests.order:ORDER", "--helper", "ship", "--json")
    (report,) = said.json

    assert said.code == 1
    assert report["machine"] == "order"
    assert not report["well"]
    assert any("place" in finding for finding in report["findings"])


def test_on_a_server(call: Call, postgres_url: str) -> None:
    """There each call is tried with the server's clock and in a batch too, and nothing stays."""
    (report,) = call("check", "notification", "--db", postgres_url, "--json").json

    assert report["database"] == "postgresql"
    assert report["ways"] == ["given clock", "server's clock", "in a batch"]
    assert call("list", "--db", postgres_url).code == 3


def test_unknown_machine(call: Call) -> None:
    """A machine that there is not is wrong usage."""
    assert call("check", "nonsense").code == 2
