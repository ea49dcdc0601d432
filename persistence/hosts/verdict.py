"""What a handler may answer: how its run goes on or ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from attrs import frozen

from persistence.hosts.lease import Lease
from statemachine.kinds import JsonValue
from statemachine.machines.run_launch import Run, RunOutcome


@frozen
class Done:
    """The run is done. A handler may also return the bare result.

    Attributes:
        result: Kept with the run; at most 1 MiB of canonical JSON.

        outcome: How it ended; not `cancelled`.
    """

    result: JsonValue = None
    outcome: RunOutcome = RunOutcome.COMPLETED


@frozen(kw_only=True)
class Park(Exception):
    """The run is laid aside, to be claimed again later. Returned or raised.

    Attributes:
        waiting: Until somebody answers or wakes it. A `wake` that comes before the park is refused:
            who wakes comes again, or whoever parks looks once more at what it waits for.

        available_at: Not before; None: at once.
    """

    waiting: bool = False
    available_at: datetime | None = None


@frozen(kw_only=True)
class Failed(Exception):
    """The run has failed. Returned or raised.

    Attributes:
        code: What kind of failure; a key.

        message: What happened, 1 to 2,048 bytes, fit to be shown to anybody.

        outcome: `failed` or `timed_out`.

        result: Kept with the run.
    """

    code: str
    message: str
    outcome: RunOutcome = RunOutcome.FAILED
    result: JsonValue = None


Verdict: TypeAlias = Done | Park | Failed
Handler: TypeAlias = Callable[[Run, Lease], JsonValue | Verdict]
