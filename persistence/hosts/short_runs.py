"""How many runs a worker takes at a time, by how long the last ones took."""

from __future__ import annotations

import threading
from collections import deque

LAST, LONGER = 20, 2
"""Of so many of the last runs, so many may have been longer than short."""

SHORT_S = 0.005
"""Seconds in its handler that a short run takes at most."""

_TOGETHER_S = 0.05


class ShortRuns:
    """Judges the last 20 runs: short, where all but two were 5 ms or less in their handlers.

    So many are then taken together as take 50 ms, judged by the longest of those eighteen.

    Args:
        most: Most that are taken together; 1: never more than one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._seconds: deque[float] = deque(maxlen=LAST)

    def note(self, seconds: float) -> None:
        """Remember how long a handler took."""
        with self._lock:
            self._seconds.append(seconds)

    def forget(self) -> None:
        """Judge anew: one at a time until so many have been short again."""
        with self._lock:
            self._seconds.clear()

    def together(self) -> int:
        """Return how many to take at a time."""
        with self._lock:
            if len(self._seconds) < LAST:
                return 1
            longest = sorted(self._seconds)[-1 - LONGER]
        if longest > SHORT_S:
            return 1
        return min(self._most, int(_TOGETHER_S / longest)) if longest > 0 else self._most
