"""What runs on a store: leases and their keeper, the worker, commands under guard."""

from persistence.hosts.command import CommandEnd, CommandTask, run_guarded
from persistence.hosts.keeper import LeaseKeeper
from persistence.hosts.lease import Lease, LeaseTerms
from persistence.hosts.safe_error import SafeCode, SafeError, safe_error

__all__ = [
    "CommandEnd",
    "CommandTask",
    "Lease",
    "LeaseKeeper",
    "LeaseTerms",
    "SafeCode",
    "SafeError",
    "run_guarded",
    "safe_error",
]
