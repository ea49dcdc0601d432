"""The fixtures that users of sqlatch get in their own tests."""

from __future__ import annotations

import tomllib

import psycopg
import pytest

from persistence import pytest_plugin
from tests.programs import ROOT

pytest_plugins = ("pytester",)

# Where sqlatch is installed, pytest has loaded it by its entry point already.
OPTIONS = ("-p", "no:sqlatch", "-p", "persistence.pytest_plugin", "-p", "no:cacheprovider")

TESTS = """
import pytest
from datetime import timedelta
from tests.order import ORDER

@pytest.fixture
def sqlatch_machines():
    return (ORDER,)

def test_a_store_with_own_machines_on_a_clock(sqlatch_store, sqlatch_clock):
    orders = sqlatch_store.machine(ORDER)
    orders.create("place", {"order_id": "a", "basket": "b"})
    sqlatch_clock.advance(timedelta(days=1))
    assert orders.apply("pay", "a").paid_at == sqlatch_clock.now()

def test_the_next_test_finds_it_empty(sqlatch_store):
    assert sqlatch_store.machine(ORDER).list() == []
"""


def test_the_package_declares_the_plugin() -> None:
    """Users find the fixtures by themselves, once sqlatch is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert project["entry-points"]["pytest11"] == {"sqlatch": pytest_plugin.__name__}


def test_every_fixture_is_named_so_that_it_meets_no_other() -> None:
    """All of them begin with `sqlatch_`, and say what they are."""
    fixtures = {
        name: value
        for name, value in vars(pytest_plugin).items()
        if type(value).__name__ == "FixtureFunctionDefinition"
    }

    assert sorted(fixtures) == [
        "sqlatch_clock",
        "sqlatch_machines",
        "sqlatch_postgresql_store",
        "sqlatch_postgresql_url",
        "sqlatch_sqlite_store",
        "sqlatch_sqlite_url",
        "sqlatch_store",
    ]


def test_a_test_runs_on_both_databases(
    pytester: pytest.Pytester, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the user's own machine, on the clock that the test moves, and empty each time."""
    monkeypatch.setenv(pytest_plugin.POSTGRES, postgres_server)
    pytester.makepyfile(TESTS)

    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=4)


def test_without_a_server_the_test_says_what_it_left_out(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loudly, and by the name of the variable that is missing."""
    monkeypatch.delenv(pytest_plugin.POSTGRES, raising=False)
    pytester.makepyfile(TESTS)

    result = pytester.runpytest_subprocess(*OPTIONS, "-rs")

    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines(["*NOT TESTED ON POSTGRESQL: SQLATCH_TEST_POSTGRES is not set*"])


def test_what_was_made_on_the_server_is_dropped(
    pytester: pytest.Pytester, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a test that failed; a schema of somebody else's stays."""
    monkeypatch.setenv(pytest_plugin.POSTGRES, postgres_server)
    pytester.makepyfile(
        """
        from pathlib import Path

        def test_fails(sqlatch_postgresql_store, sqlatch_postgresql_url):
            Path("url").write_text(sqlatch_postgresql_url)
            raise ZeroDivisionError
        """
    )

    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(failed=1)

    schema = (pytester.path / "url").read_text().rpartition("%3D")[2]
    with psycopg.connect(postgres_server) as connection:
        query = "SELECT count(*) FROM pg_namespace WHERE nspname = %s"
        assert connection.execute(query, [schema]).fetchone() == (0,)
        assert connection.execute(query, ["public"]).fetchone() == (1,)
    assert schema.startswith("sqlatch_test_")
