"""Each argument of each call of `store.runs`, out of its bounds: named, and nothing is written."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from persistence import Claim, Store
from persistence.stores.run_holding import Finish
from persistence.stores.runs import Runs
from statemachine import Actor
from statemachine.errors import InvalidArgument
from tests.cases.launches import LEASE, queue, take
from tests.conftest import START, Capabilities
from tests.raw import Raw

MICROSECOND = timedelta(microseconds=1)
CENTURY = timedelta(days=36_525)
WEST = timezone(timedelta(hours=-14))
CYCLE: list[object] = []
CYCLE.append({"again": CYCLE})

NO_TEXT: tuple[object, ...] = (None, 5, True, b"bytes", ["r"], object())
BAD_TEXT: tuple[object, ...] = (
    "", "a\x00b", "\x1f", "a\n", "a\x7f", "a\ud800", "\udfff", "a" * 513, "é" * 513, "𝄞" * 257,
    "é" * 511 + "𝄞",
)  # fmt: skip
NO_INSTANT: tuple[object, ...] = (
    datetime(2030, 1, 1),  # noqa: DTZ001  # naive on purpose
    START.date(), date(2030, 1, 1), 0, True, 1.5, "2030-01-01T00:00:00Z",
    datetime(1970, 1, 1, tzinfo=UTC) - MICROSECOND,
    datetime(1, 1, 1, tzinfo=UTC),
    datetime.max.replace(tzinfo=WEST),
)  # fmt: skip
NO_DURATION: tuple[object, ...] = (
    None, 5, True, 1.5, "30", START, timedelta(), -MICROSECOND, timedelta(days=-1),
    CENTURY + MICROSECOND, timedelta.max, timedelta.min,
)  # fmt: skip
NO_JSON: tuple[object, ...] = (
    float("nan"), float("inf"), [[[-float("inf")]]], 2**53 + 1, [-(2**53) - 1], {"a": {"b": 2**64}},
    "a\x00", {"a\x00": 1}, ["\ud800"], {"\udfff": 1}, {1: 2}, {None: 1}, {"a": object()}, {1, 2},
    b"bytes", START, CYCLE, complex(1, 2), [float("nan")],
)  # fmt: skip
NO_BOOLEAN: tuple[object, ...] = (None, 0, 1, "true", "", 1.0, [])
NO_CHOICE: tuple[object, ...] = (
    "",
    "no such",
    1,
    True,
    b"failed",
    "Failed",
    "failed\n",
    ["failed"],
)
NO_TOKEN: tuple[object, ...] = (b"", b"t" * 31, b"t" * 33, "t" * 32, bytearray(32), 5, True)


def _count(most: int, least: int = 1) -> tuple[object, ...]:
    return (least - 1, most + 1, -1, True, 1.0, float("nan"), "1", None, 2**64)


BAD: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(
        (
            "workflow", "source_ref", "definition_digest", "expected_source_ref", "runner_id",
            "holder", "error_code", "session_id", "type",
        ),
        NO_TEXT + BAD_TEXT,
    ),
    **dict.fromkeys(("origin_session_id", "affinity_runner_id", "call"), NO_TEXT[1:] + BAD_TEXT),
    "run_id": (
        *NO_TEXT, *BAD_TEXT, "r1\n", "\nr1", "a" * 201, "-a", ".a", "_a", "a b", "é", "a/b", "r1\r",
    ),
    "parent_run_id": (*NO_TEXT[1:], "", "r1\n", "a" * 201, "-a", "a b", "é"),
    "after": (*NO_TEXT[1:], "", "r1\n", "a" * 201, "-a", "a b", "é"),
    "source": (*NO_JSON, "x" * 65_535, "é" * 32_768),
    "launch_options": (*NO_JSON, {"a": "x" * 65_529}),
    "payload": (*NO_JSON, "x" * 65_535),
    "input": (*NO_JSON, "x" * 1_048_575, ["é" * 524_288]),
    "result": (*NO_JSON, "x" * 1_048_575),
    "error_message": (None, 5, True, b"x", "", " \t\n\ufeff", "x" * 2_049, "é" * 1_025, "𝄞" * 513),
    "status_detail": (5, True, b"x"),
    "lease": NO_DURATION,
    "older_than": NO_DURATION,
    "available_at": NO_INSTANT,
    "affinity_until": NO_INSTANT,
    "max_attempts": (0, -1, True, 1.0, float("nan"), "1", 2**53 + 1),
    "after_revision": (-1, True, 1.0, None, "1", 2**53 + 1),
    "execution_mode": NO_CHOICE,
    "holder_kind": (*NO_CHOICE, "control"),
    "outcome": (None, *NO_CHOICE, "cancelled"),
    "waiting": NO_BOOLEAN,
    "newest_first": NO_BOOLEAN,
    "token": NO_TOKEN,
    "exclude": (None, 5, "r1", b"r1", ["r1\n"], [5], [None], ["r"] * 1_001),
    "statuses": (None, 5, "queued", b"queued", ["no such"], [5], [None], ["queued"] * 8),
    "ends": (None, 5, "r", [5], [None], [object()]),
    "claim": (None, 5, "r", object()),
    "actor": (
        5, "someone", "", ("host", "name"), Actor("", "name"), Actor("host", ""),
        Actor("host", "a\n"), Actor("a" * 513, "name"), Actor(5, "name"),  # type: ignore[arg-type]  # wrong on purpose
    ),
}  # fmt: skip
"""What each argument must not be, by its name."""

LIMITS = {
    "claim_many": 100,
    "history": 1_000,
    "list": 1_000,
    "prune": 1_000,
    "reap_due": 1_000,
}

OPTIONAL_FIRST = {
    ("reserve", "run_id"), ("enqueue", "run_id"), ("enqueue", "holder_kind"),
    ("claim_next", "session_id"),
}  # fmt: skip
"""Where None means that none is given."""

NARROWER: dict[tuple[str, str], tuple[object, ...]] = {
    ("fail", "outcome"): ("completed", "checkpointed"),
    ("reject", "outcome"): ("completed", "checkpointed"),
}


def calls() -> dict[str, list[str]]:
    """Return the public calls of the face, each with its arguments."""
    return {
        name: list(inspect.signature(function).parameters)[1:]
        for name, function in inspect.getmembers(Runs, inspect.isfunction)
        if not name.startswith("_")
    }


def valid(claim: Claim) -> dict[str, object]:
    """Return a valid value for every argument."""
    return {
        "run_id": "r",
        "workflow": "demo",
        "source_ref": "demo.py",
        "source": None,
        "definition_digest": "sha256:0",
        "expected_source_ref": "demo.py",
        "runner_id": "w",
        "holder": "w",
        "lease": LEASE,
        "older_than": LEASE,
        "error_code": "code",
        "error_message": "message",
        "session_id": "session",
        "type": "noted",
        "claim": claim,
        "ends": [],
    }


def bad(call: str, argument: str) -> tuple[object, ...]:
    """Return what an argument of a call must not be."""
    if argument == "limit":
        return _count(LIMITS[call])
    values = BAD[argument] + NARROWER.get((call, argument), ())
    return values[1:] if (call, argument) in OPTIONAL_FIRST and values[0] is None else values


def required(call: str) -> list[str]:
    """Return the arguments that a call must be given."""
    parameters = list(inspect.signature(getattr(Runs, call)).parameters.values())[1:]
    return [p.name for p in parameters if p.default is inspect.Parameter.empty]


@pytest.fixture(name="raw")
def _raw(store: Store, database: str, capabilities: Capabilities) -> Raw:
    return Raw(store, database, capabilities)


def test_every_argument_out_of_its_bounds_is_named_and_changes_nothing(
    store: Store, raw: Raw
) -> None:
    """All calls, all arguments, on all backends alike: `InvalidArgument` before any SQL."""
    queue(store)
    claim = take(store)
    before = raw.content()
    wrong: list[tuple[str, str, str, str]] = []
    for call, arguments in calls().items():
        base = {name: valid(claim).get(name) for name in required(call)}
        base |= {"limit": 1} if "limit" in base else {}
        for argument in arguments:
            for value in bad(call, argument):
                said = _refused(store.runs, call, {**base, argument: value})
                if said is None or said.split(".")[0] != argument:
                    wrong.append((call, argument, repr(value)[:60], str(said)))

    assert wrong == []
    assert raw.content() == before


def _refused(runs: Runs, call: str, arguments: Mapping[str, object]) -> str | None:
    """Make a call; return the field that was refused."""
    function: Callable[..., object] = getattr(runs, call)
    try:
        answer = function(**arguments)
    except InvalidArgument as error:
        return error.field if f"{error.field} must be " in str(error) else str(error)
    return f"not refused: {answer!r}"[:200]


def test_a_batch_names_what_is_wrong_in_one_of_its_ends(store: Store, raw: Raw) -> None:
    """One bad end, and none of the batch is made."""
    for run_id in ("good", "bad"):
        queue(store, run_id)
    good, bad_one = take(store, "good"), take(store, "bad")
    before = raw.content()

    for field, end in (
        ("outcome", Finish(bad_one, outcome="cancelled")),
        ("result", Finish(bad_one, result=float("nan"))),
        ("call", Finish(bad_one, call="a\n")),
        ("claim", Finish(None)),  # type: ignore[arg-type]  # wrong on purpose
    ):
        with pytest.raises(InvalidArgument) as error:
            store.runs.finish_many([Finish(good), end])

        assert error.value.field == field
    with pytest.raises(InvalidArgument, match="ends"):
        store.runs.finish_many([Finish(good)] * 1_001)
    assert raw.content() == before


def test_the_store_names_what_is_wrong_with_its_own_arguments(store: Store) -> None:
    """The feed's cursor and limit, and how long to wait."""
    for cursor in ("", "1", "1.2.3", "a.b", 5, "-1.0", "1.-2", f"0.{2**63}", "1.1\n", "٣.٣"):
        with pytest.raises(InvalidArgument, match="cursor"):
            store.events_after(cursor)  # type: ignore[arg-type]  # wrong on purpose
    for limit in _count(1_000):
        with pytest.raises(InvalidArgument, match="limit"):
            store.events_after(limit=limit)  # type: ignore[arg-type]  # wrong on purpose
    for timeout in NO_DURATION:
        with pytest.raises(InvalidArgument, match="timeout"):
            store.wait_for_change(timeout)  # type: ignore[arg-type]  # wrong on purpose


def test_what_is_never_given_is_never_taken_for_something_else(store: Store) -> None:
    """A misspelt argument is an error of Python's own, and writes nothing."""
    queue(store)
    runs: Any = store.runs

    with pytest.raises(TypeError):
        runs.claim("r", runner="w", lease=LEASE)

    assert [event.transition for event in store.runs.history("r")] == ["reserve"]
