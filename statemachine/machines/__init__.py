"""The catalogue: one file per lifecycle, one line each in `ALL`."""

from __future__ import annotations

from statemachine.machines._lease import HolderKind
from statemachine.machines._run import ExecutionMode, Run, RunOutcome, RunStatus
from statemachine.machines.notification import (
    NOTIFICATION,
    Notification,
    NotificationKind,
    NotificationStatus,
)
from statemachine.machines.run_launch import RUN_LAUNCH
from statemachine.machines.turn_intent import (
    TURN_INTENT,
    TurnCause,
    TurnIntent,
    TurnResolution,
    TurnStatus,
)

ALL = (RUN_LAUNCH, TURN_INTENT, NOTIFICATION)

__all__ = [
    "ALL",
    "NOTIFICATION",
    "RUN_LAUNCH",
    "TURN_INTENT",
    "ExecutionMode",
    "HolderKind",
    "Notification",
    "NotificationKind",
    "NotificationStatus",
    "Run",
    "RunOutcome",
    "RunStatus",
    "TurnCause",
    "TurnIntent",
    "TurnResolution",
    "TurnStatus",
]
