"""What was measured, and how it is told."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_GROWTH = 1.3


@frozen(kw_only=True)
class Figure:
    """One comparison.

    Attributes:
        work: What was done.

        unit: What `ours` and `hand` count.

        ours: Median over the rounds of the store.

        hand: Median over the same rounds of the hand-written code.

        ratio: Speed of the store as a part of that of the hand-written code.

        target: What `ratio` is to be at least; None: nothing was promised.

        growth: The store's time as a multiple of the same with little in the table.
    """

    work: str
    unit: str
    ours: float
    hand: float
    ratio: float
    target: float | None = None
    growth: float | None = None

    @property
    def reached(self) -> bool:
        """Whether it is as promised."""
        fast = self.target is None or self.ratio >= self.target
        return fast and (self.growth is None or self.growth <= MAX_GROWTH)

    @property
    def cells(self) -> tuple[str, ...]:
        """The figure as a line of a table."""
        return (
            self.work,
            f"{self.ours:,.0f}",
            f"{self.hand:,.0f}",
            self.unit,
            f"{self.ratio:.2f}",
            "" if self.target is None else f"≥ {self.target:.2f}",
            "" if self.growth is None else f"{self.growth:.2f} (≤ {MAX_GROWTH})",
            "" if self.reached else "missed",
        )


COLUMNS = ("work", "sqlatch", "by hand", "", "ratio", "target", "growth", "")


def rates(
    work: str, unit: str, ours: Sequence[float], hand: Sequence[float], target: float | None
) -> Figure:
    """Return a comparison of rates: more is better."""
    mine, theirs = statistics.median(ours), statistics.median(hand)
    return Figure(work=work, unit=unit, ours=mine, hand=theirs, ratio=mine / theirs, target=target)


def times(
    work: str, ours: Sequence[float], hand: Sequence[float], *, least: float | None
) -> Figure:
    """Return a comparison of times of one call, in seconds: less is better.

    Args:
        work: What was done.

        ours, hand: Seconds.

        least: The store's median with little in the table, in seconds; None: this is it.
    """
    mine, theirs = statistics.median(ours), statistics.median(hand)
    return Figure(
        work=work,
        unit="µs p50",
        ours=mine * 1e6,
        hand=theirs * 1e6,
        ratio=theirs / mine,
        growth=None if least is None else mine / least,
    )
