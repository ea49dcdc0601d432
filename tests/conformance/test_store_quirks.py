"""Weaknesses of the recorded implementation: each has a test of our answer."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance import (
    test_argument_quirks,
    test_delivery_quirks,
    test_lease_quirks,
    test_queue_quirks,
)


def test_every_recorded_weakness_has_a_test() -> None:
    """Each id begins the docstring of a test, and no docstring begins with another."""
    vectors = Path(__file__).parents[1] / "vectors" / "store_quirks.json"
    recorded = {quirk["id"] for quirk in json.loads(vectors.read_text())["quirks"]}
    named = {
        test.__doc__.split(":")[0]
        for tests in (
            test_argument_quirks,
            test_delivery_quirks,
            test_lease_quirks,
            test_queue_quirks,
        )
        for name, test in vars(tests).items()
        if name.startswith("test_") and callable(test) and ":" in test.__doc__
    }

    assert named == recorded
