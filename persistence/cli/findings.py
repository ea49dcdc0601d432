"""What `doctor` found: each with what to do about it."""

from __future__ import annotations

from attrs import frozen


@frozen
class Finding:
    """One thing that was looked at.

    Attributes:
        about: What.

        told: What was seen there.

        advice: What to do; empty: all is well.
    """

    about: str
    told: str
    advice: str = ""

    @property
    def well(self) -> bool:
        """Whether nothing is to be done."""
        return not self.advice
