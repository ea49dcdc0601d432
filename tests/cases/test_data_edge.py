"""Cases about data at the edge of what can be stored; every bound: `tests/test_bounds.py`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from persistence import Claim, Store
from statemachine import Refused, Run
from statemachine.errors import InvalidArgument
from tests.cases.launches import LEASE, queue, start, take
from tests.conftest import Capabilities
from tests.raw import Raw


@pytest.fixture(name="raw")
def _raw(store: Store, database: str, capabilities: Capabilities) -> Raw:
    return Raw(store, database, capabilities)


def refusing(store: Store, claim: Claim, text: str) -> dict[str, Callable[[], object]]:
    """Return calls that give a text where it must be kept as it is."""
    runs = store.runs
    return {
        "run_id": lambda: queue(store, f"r{text}"),
        "origin_session_id": lambda: queue(store, "new", session=text),
        "runner_id": lambda: runs.claim("r", runner_id=text, lease=LEASE),
        "session_id": lambda: runs.adopt("r", session_id=text),
        "error_code": lambda: runs.fail(claim, error_code=text, error_message="m"),
        "call": lambda: runs.pause("r", call=text),
        "result": lambda: runs.finish(claim, result={"deep": [text]}),
        "payload": lambda: runs.append_event("r", type="t", payload=text),
        "type": lambda: runs.append_event("r", type=text),
    }


@pytest.mark.parametrize("text", ["a\x00b", "x\ud800y"], ids=["DAT-01", "DAT-02"])
def test_dat_01_02_what_cannot_be_stored_is_refused_up_front_but_for_free_text(
    store: Store, raw: Raw, text: str
) -> None:
    """DAT-01 (U+0000), DAT-02 (lone surrogates): the run can still be failed, with that text."""
    queue(store)
    claim = start(store)
    before = raw.content()

    for name, call in refusing(store, claim, text).items():
        with pytest.raises(InvalidArgument, match=name):
            call()

    assert raw.content() == before
    failed = store.runs.fail(claim, error_code="code", error_message=text, result={"safe": True})
    assert isinstance(failed, Run)
    assert failed.error_message == f"{text[0]}\ufffd{text[2]}"


def test_dat_01_keys_that_differ_behind_u0000_never_meet(store: Store) -> None:
    """DAT-01: 'a' and 'a NUL b' are not one session."""
    queue(store, session="a")

    with pytest.raises(InvalidArgument, match="session_id"):
        store.runs.find_reservation("a\x00b")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_dat_03_what_is_no_number_is_refused_before_any_write(
    store: Store, raw: Raw, number: float
) -> None:
    """DAT-03: at any depth, and for a number of its own; never NULL, never invalid JSON."""
    queue(store)
    claim = start(store)
    before = raw.content()
    deep = {"a": [{"b": [1, number]}]}

    calls: dict[str, Callable[[], object]] = {
        "result": lambda: store.runs.finish(claim, result=deep),
        "input": lambda: store.runs.reserve(
            workflow="w", source_ref="r", source=None, definition_digest="d", input=deep
        ),
        "source": lambda: store.runs.reserve(
            workflow="w", source_ref="r", source=deep, definition_digest="d"
        ),
        "payload": lambda: store.runs.append_event("r", type="t", payload=deep),
        "max_attempts": lambda: queue(store, "new", max_attempts=number),  # type: ignore[arg-type]  # wrong on purpose
    }
    for name, call in calls.items():
        with pytest.raises(InvalidArgument, match=name):
            call()

    assert raw.content() == before


def test_dat_06_limits_are_named_with_their_size_and_the_run_can_end(
    store: Store, raw: Raw
) -> None:
    """DAT-06: a huge result, an id too long for an index, a reason of a megabyte."""
    queue(store)
    claim = start(store)
    before = raw.content()

    with pytest.raises(InvalidArgument, match="result must be at most 1048576 bytes"):
        store.runs.finish(claim, result="x" * 3_000_000)
    with pytest.raises(InvalidArgument, match=r"session_id must be .* 512 characters"):
        store.runs.adopt("r", session_id="s" * 10_000)
    with pytest.raises(InvalidArgument, match=r"error_message must be .* 2048 bytes"):
        store.runs.fail(claim, error_code="c", error_message="m" * 1_000_000)
    assert raw.content() == before

    parked = store.runs.park_source_changed(claim, error_message="m", status_detail="d" * 1_000_000)
    assert isinstance(parked, Run)
    assert parked.status_detail == "d" * 8_192
    assert store.runs.reject("r", error_code="c", error_message="m")


TEXTS = ("007", "7", "1e3", "1000", " 42 ", "42", "1.10", "1.1", "0x10", "true", "null", "-0")


def test_dat_07_texts_that_look_like_numbers_stay_texts(store: Store) -> None:
    """DAT-07: byte for byte on the way back, and each equal to itself alone."""
    for number, text in enumerate(TEXTS):
        run = store.runs.reserve(
            run_id=f"r{number}",
            workflow=text,
            source_ref=text,
            source=text,
            definition_digest=text,
            input=[text],
            origin_session_id=text,
        )
        assert (run.workflow, run.source, run.input) == (text, text, [text])

    for number, text in enumerate(TEXTS):
        reserved = store.runs.find_reservation(text)
        assert reserved is not None
        assert reserved.run_id == f"r{number}"
        claim = take(store, f"r{number}", by=text)
        done = store.runs.finish(claim, result=text)
        assert isinstance(done, Run)
        assert (done.result, done.last_actor) == (text, text)


def test_dat_07_a_guard_matches_exactly_its_text(store: Store) -> None:
    """DAT-07: a source that is expected as `007` is not `7`."""
    store.runs.reserve(
        run_id="r", workflow="w", source_ref="007", source="007", definition_digest="d"
    )

    def rebind(expected: str) -> object:
        return store.runs.rebind(
            "r",
            workflow="w",
            source_ref="7",
            source="7",
            definition_digest="d",
            expected_source_ref=expected,
            runner_id="w",
            lease=LEASE,
        )

    assert store.runs.park(take(store))
    for other in ("7", "007 ", "7.0", "0007"):
        refused = rebind(other)
        assert isinstance(refused, Refused)
        assert refused.guard == "source as expected"
    assert isinstance(rebind("007"), Claim)
