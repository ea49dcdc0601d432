"""When a worker looks for work, and how long it bears with a database out of reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemachine.errors import InvalidArgument, StoreClosed

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from datetime import timedelta

    from statemachine.errors import SqlatchError

_SLICE_S = 0.2
_TROUBLED_S = 0.5


class Pace:
    """Spends a worker's time between looks for work.

    Args:
        poll: Longest wait between two looks.

        jitter: By which share of it a look may come earlier or later.

        patience: How long database trouble is borne.

        now: The steady clock, in seconds.

        rest: Waits at most the given seconds; returns whether the store has changed.

        sleep: Waits the given seconds.

        chance: Draws the jitter.
    """

    def __init__(
        self,
        poll: timedelta,
        jitter: float,
        patience: timedelta,
        *,
        now: Callable[[], float],
        rest: Callable[[float], bool],
        sleep: Callable[[float], None],
        chance: random.Random,
    ) -> None:
        if poll.total_seconds() <= 0:
            raise InvalidArgument("poll", "a positive timedelta")
        self._poll_s = poll.total_seconds()
        self._jitter = jitter
        self._patience_s = patience.total_seconds()
        self._now = now
        self._rest = rest
        self._sleep = sleep
        self._chance = chance
        self._due_at = now()
        self._troubled_since: float | None = None

    def due(self) -> bool:
        """Tell whether a poll is due, and set the next one if so."""
        now = self._now()
        if now < self._due_at:
            return False
        self._due_at = now + self._poll_s * (1 + self._jitter * self._chance.uniform(-1, 1))
        return True

    def idle(self, enough: Callable[[], bool], *, at_most_s: float = float("inf")) -> None:
        """Wait for the next poll, a change of the store, or until it is enough."""
        until = min(self._due_at, self._now() + at_most_s)
        while not enough() and (left := until - self._now()) > 0:
            if self._rest(min(left, _SLICE_S)):
                return

    def bear(self, error: SqlatchError) -> None:
        """Wait a little after database trouble.

        Raises:
            SqlatchError: The trouble, once it has lasted for longer than the patience; at once
                where it never ends.
        """
        now = self._now()
        if self._troubled_since is None:
            self._troubled_since = now
        if isinstance(error, StoreClosed) or now - self._troubled_since > self._patience_s:
            raise error
        self._sleep(_TROUBLED_S)

    def all_is_well(self) -> None:
        """Forget the trouble: the database has answered."""
        self._troubled_since = None
