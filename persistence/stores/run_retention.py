"""Forgetting runs that ended long ago."""

from __future__ import annotations

from typing import TYPE_CHECKING

from persistence.retention import prune
from persistence.stores.face import Operations, limit_of
from statemachine.kinds import Duration, admit

if TYPE_CHECKING:
    from datetime import timedelta

    from persistence.operation import Operation


class RunRetention(Operations):
    """What becomes of runs in the end."""

    def prune(self, older_than: timedelta, *, limit: int = 100) -> Operation[int]:
        """Delete the store's project's final runs that ended first, with their histories.

        One call is one short transaction, so that claimers hardly wait: repeat it until it answers
        0. A run goes before those that continue it. Its id can be reserved anew afterwards.

        Args:
            older_than: How long ago a run must have ended, 1 ms to 100 years.

            limit: Most runs of this call, 1 to 1,000.

        Returns:
            How many runs were deleted.

        Raises:
            InvalidArgument: Nothing was deleted.
        """
        age = int(admit(Duration(), older_than, "older_than") or 0)
        project = self.engine.project
        scope = {} if project is None else {"project": project}
        return (yield from prune(self.program, age, limit_of(limit), scope))
