"""The statements that reach the databases, as committed pages: a changed one is seen in review."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sql_pages import GOLDEN, pages

PAGES = dict(pages())


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_committed_sql_is_what_is_compiled(path: Path) -> None:
    """When this fails on purpose, run `python -m tests.sql_pages` and read the diff."""
    assert path.exists(), "run `python -m tests.sql_pages`"
    assert PAGES[path].splitlines() == path.read_text().splitlines()


def test_no_page_is_left_over() -> None:
    """A machine that is gone takes its pages along."""
    assert sorted(GOLDEN.glob("*")) == sorted(PAGES)
