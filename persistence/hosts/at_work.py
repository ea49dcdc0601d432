"""Which runs this process works on: a run whose lease was lost is not taken up beside its copy."""

from __future__ import annotations

import threading


class AtWork:
    """The runs whose handlers have not returned, whatever became of their leases."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run_ids: list[str] = []

    def enter(self, run_id: str) -> bool:
        """Note that work on the run begins; return False where it goes on already."""
        with self._lock:
            if run_id in self._run_ids:
                return False
            self._run_ids.append(run_id)
            return True

    def leave(self, run_id: str) -> None:
        """Note that nothing of the run is at work here any more."""
        with self._lock:
            self._run_ids.remove(run_id)

    def run_ids(self) -> tuple[str, ...]:
        """Return the runs at work, oldest first."""
        with self._lock:
            return tuple(self._run_ids)


THIS_PROCESS = AtWork()
"""Shared by all workers of the process, unless they are given another."""
