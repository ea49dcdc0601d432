"""Reading recorded traces: files, steps, macros; and comparing with what they abbreviate."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import frozen

GIVEN = "SQLATCH_TRACES"
REQUIRED = "SQLATCH_REQUIRE_TRACES"
HERE = Path(__file__).resolve().parent
SELECTION = HERE / "traces"
SHARED = HERE.parents[2] / "shared" / "conformance" / "traces"


@frozen(kw_only=True)
class Step:
    """One recorded call with its answer.

    Attributes:
        index: Its number in the trace.

        op: The recorded operation.

        now: Milliseconds since the Unix epoch; text where the recorded one was malformed.

        args: The arguments, macros expanded; an absent one was not given.

        error: `invalid_argument`, `unique_conflict`, `identity_conflict`, or None.

        returned: What it answered; None with an error.

        tags: Rules of the recorded implementation that decided the step.

        delta: The rows that changed, whole: kind → id → row (None: deleted); `events` is a list.
    """

    index: int
    op: str
    now: int | str
    args: Mapping[str, Any]
    error: str | None
    returned: Any
    tags: tuple[str, ...]
    delta: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """The error class; else `no` for false and null, `unchanged`, or `yes`."""
        if self.error is not None:
            return self.error
        if self.returned is None or self.returned is False:
            return "no"
        return "unchanged" if self.returned == "unchanged" else "yes"


@frozen
class Trace:
    """A recorded trace.

    Attributes:
        name, family: What the header says.

        steps: In order.

        final: The whole recorded state after the last step, by kind.
    """

    name: str
    family: str
    steps: tuple[Step, ...]
    final: Mapping[str, Any]


def directory() -> Path | None:
    """Return where the whole set lies: as SQLATCH_TRACES says, else beside the repository."""
    given = os.environ.get(GIVEN)
    found = SHARED if given is None else Path(given)
    return found if found.is_dir() else None


def traces(where: Path, family: str) -> Iterator[Trace]:
    """Read a family's traces, in the order of their names."""
    for path in sorted(where.glob(f"{family}-*.jsonl.gz")):
        yield read(path)


def families(where: Path) -> tuple[str, ...]:
    """Return the families that a directory holds, sorted."""
    return tuple(sorted({path.name.rsplit("-", 1)[0] for path in where.glob("*.jsonl.gz")}))


def read(path: Path) -> Trace:
    """Read one trace."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        header, *steps, end = (json.loads(line) for line in lines)
    assert (header["trace"], len(steps), end["end"]) == (1, header["steps"], True)
    return Trace(header["name"], header["family"], tuple(map(_step, steps)), end["final"])


def _step(line: Mapping[str, Any]) -> Step:
    args = {
        name: expand(value) for name, value in line["args"].items() if value != {"$js": "undefined"}
    }
    now = line["now"]
    return Step(
        index=line["i"],
        op=line["op"],
        now=now["$raw"] if isinstance(now, dict) else now,
        args=args,
        error=line.get("error"),
        returned=line.get("returned"),
        tags=tuple(line.get("tags", ())),
        delta=line.get("delta", {}),
    )


def expand(value: Any) -> Any:
    """Return an argument with its macros expanded."""
    match value:
        case {"$rep": [unit, count, *ends]} if len(value) == 1:
            prefix, suffix = ends or ("", "")
            return f"{prefix}{unit * count}{suffix}"
        case {"$num": text} if len(value) == 1:
            return int(text) if text.isdecimal() else float(text)
        case {"$js": name} if len(value) == 1:
            return _no_json(name)
        case dict():
            return {name: expand(item) for name, item in value.items()}
        case list():
            return [expand(item) for item in value]
        case _:
            return value


def _no_json(name: str) -> object:
    """Return a value that JSON has no form for."""
    cycle: list[object] = []
    cycle.append(cycle)
    return {
        "undefined": object(),
        "date": datetime(2026, 8, 4, tzinfo=UTC),
        "cycle": cycle,
        "function": len,
        "bigint": Decimal(1),
        "symbol": object(),
        "map": MappingProxyType({}),
    }[name]


def same(recorded: Any, ours: Any) -> bool:
    """Tell whether a recorded value, perhaps abbreviated, is ours."""
    match recorded:
        case {"$long": list(measures)} if len(recorded) == 1:
            return isinstance(ours, str) and measures == long(ours)
        case dict():
            return (
                isinstance(ours, Mapping)
                and recorded.keys() == ours.keys()
                and all(same(item, ours[name]) for name, item in recorded.items())
            )
        case list():
            return (
                isinstance(ours, list)
                and len(recorded) == len(ours)
                and all(map(same, recorded, ours))
            )
        case bool() | None:
            return recorded is ours
        case _:
            return not isinstance(ours, bool) and bool(recorded == ours)


def long(text: str) -> list[object]:
    """Return the measures that stand for a long text: UTF-16 units, bytes, SHA-256."""
    encoded = text.encode()
    return [len(text.encode("utf-16-le")) // 2, len(encoded), hashlib.sha256(encoded).hexdigest()]
