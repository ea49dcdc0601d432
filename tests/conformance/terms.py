"""Recorded tokens, durations, instants and free texts in our terms."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta
from typing import Any

from statemachine.kinds import EPOCH, MILLISECOND
from tests.conformance.traces import long

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def milliseconds(at: datetime | None) -> int | None:
    """Return an instant in milliseconds since the Unix epoch."""
    return None if at is None else (at - EPOCH) // MILLISECOND


def lease(ms: Any) -> Any:
    """Return whole milliseconds as a duration; anything else stays as it is."""
    return timedelta(milliseconds=ms) if isinstance(ms, int) else ms


def has_surrogate(text: str) -> bool:
    """Tell whether a text holds a lone surrogate."""
    return any("\ud800" <= c <= "\udfff" for c in text)


def recorded_key(value: Any) -> bool:
    """Tell whether the recorded implementation took a value for a key."""
    if not isinstance(value, str):
        return False
    units = len(value.encode("utf-16-le", "surrogatepass")) // 2
    return 1 <= units <= 512 and not any(c < " " or c == "\x7f" for c in value)


def token(text: Any) -> Any:
    """Return 32 bytes for a recorded token; what is none, or cannot be encoded, stays as it is."""
    return _clear(text) if recorded_key(text) and not has_surrogate(text) else text


def token_hash(text: str | None) -> str | None:
    """Return what our row holds of a recorded token."""
    return None if text is None else hashlib.sha256(_clear(text)).hexdigest()


def _clear(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class Tokens:
    """The recorded tokens that were presented so far; rows may hold them abbreviated."""

    def __init__(self) -> None:
        self._texts: dict[tuple[object, ...], str] = {}

    def present(self, text: object) -> None:
        """Remember a presented token."""
        if isinstance(text, str) and not has_surrogate(text):
            self._texts[tuple(long(text))] = text

    def hash(self, recorded: Any) -> str | None:
        """Return what our row holds of a recorded row's token."""
        if isinstance(recorded, dict):
            return token_hash(self._texts[tuple(recorded["$long"])])
        return None if recorded is None else token_hash(str(recorded))
