"""What runs on a store: leases and their keeper, the worker, and a session's coordinators."""

from persistence.hosts.at_work import AtWork
from persistence.hosts.control import ActiveRun, Answer, Control, Level, Origin
from persistence.hosts.deferred_turns import Arrival, DeferredTurns, Delivery, NaturalTurn
from persistence.hosts.endings import Endings
from persistence.hosts.keeper import LeaseKeeper
from persistence.hosts.launch_terms import (
    Activation,
    Begun,
    Closed,
    Existing,
    HasEnded,
    LaidAside,
    LaunchFailed,
    LaunchHost,
    LaunchRefused,
    NotHere,
    Nothing,
    Prepared,
    Resolved,
    Started,
    Waits,
)
from persistence.hosts.launched import is_command, run_command
from persistence.hosts.launches import Launches
from persistence.hosts.lease import Lease, LeaseTerms
from persistence.hosts.notices import Notices
from persistence.hosts.safe_error import SafeCode, SafeError, safe_error
from persistence.hosts.successor_turns import SuccessorTurns
from persistence.hosts.turn_events import End, Quiet, WorkflowTurn
from persistence.hosts.turn_message import TurnMessage, fallback_message, message_id
from persistence.hosts.verdict import Done, Failed, Handler, Park, Verdict
from persistence.hosts.worker import Worker

__all__ = [
    "Activation",
    "ActiveRun",
    "Answer",
    "Arrival",
    "AtWork",
    "Begun",
    "Closed",
    "Control",
    "DeferredTurns",
    "Delivery",
    "Done",
    "End",
    "Endings",
    "Existing",
    "Failed",
    "Handler",
    "HasEnded",
    "LaidAside",
    "LaunchFailed",
    "LaunchHost",
    "LaunchRefused",
    "Launches",
    "Lease",
    "LeaseKeeper",
    "LeaseTerms",
    "Level",
    "NaturalTurn",
    "NotHere",
    "Nothing",
    "Notices",
    "Origin",
    "Park",
    "Prepared",
    "Quiet",
    "Resolved",
    "SafeCode",
    "SafeError",
    "Started",
    "SuccessorTurns",
    "TurnMessage",
    "Verdict",
    "Waits",
    "Worker",
    "WorkflowTurn",
    "fallback_message",
    "is_command",
    "message_id",
    "run_command",
    "safe_error",
]
