"""Whose time it is: the process's, the database server's, or a given one."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from attrs import define, field

from statemachine.errors import InvalidArgument
from statemachine.kinds import EPOCH, MILLISECOND, Instant, Plain, admit

NANOSECONDS = 1_000_000
"""Of a millisecond."""


class Clock(Protocol):
    """A source of the present instant."""

    def now(self) -> datetime:
        """Return the present instant, aware."""


class SystemClock:
    """The process's clock."""

    def now(self) -> datetime:
        """Return the present instant, in UTC, to the microsecond."""
        return EPOCH + timedelta(microseconds=time.time_ns() // 1000)


def _aware(_: ManualClock, __: object, value: datetime) -> None:
    admit(Instant(), value, "instant")


def _in_utc(value: datetime) -> datetime:
    """A zone's wall clock is no clock: a day added to it lasts 23 to 25 hours."""
    given: object = value
    aware = isinstance(given, datetime) and given.utcoffset() is not None
    return value.astimezone(UTC) if aware else value


@define
class ManualClock:
    """A clock that stands still until it is moved: for tests, simulation and replay.

    Attributes:
        instant: The present instant; aware, 1970 to 9999; kept in UTC.
    """

    instant: datetime = field(
        default=datetime(2030, 1, 1, tzinfo=UTC), converter=_in_utc, validator=_aware
    )

    def now(self) -> datetime:
        """Return the instant that it was last set to."""
        return self.instant

    def advance(self, by: timedelta) -> None:
        """Move the clock; a negative duration moves it back.

        Raises:
            InvalidArgument: Out of 1970 to 9999; the clock stands where it stood.
        """
        try:
            self.instant += by
        except OverflowError as error:
            raise InvalidArgument("instant", "an aware datetime from 1970 to 9999") from error


def milliseconds(clock: Clock) -> int:
    """Return a clock's instant in milliseconds since the Unix epoch, rounded down.

    Raises:
        InvalidArgument: A naive datetime, or one out of range.
    """
    if isinstance(clock, SystemClock):
        return time.time_ns() // NANOSECONDS
    plain: Plain = admit(Instant(), clock.now(), "clock")
    return int(plain or 0)


__all__ = ["MILLISECOND", "NANOSECONDS", "Clock", "ManualClock", "SystemClock", "milliseconds"]
