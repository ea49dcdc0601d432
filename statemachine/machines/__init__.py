"""The catalogue: one file per lifecycle, one line each in `ALL`."""

from __future__ import annotations

from statemachine.machines._lease import HolderKind
from statemachine.machines.run_launch import RUN_LAUNCH, ExecutionMode, Run, RunOutcome, RunStatus

ALL = (RUN_LAUNCH,)

__all__ = ["ALL", "RUN_LAUNCH", "ExecutionMode", "HolderKind", "Run", "RunOutcome", "RunStatus"]
