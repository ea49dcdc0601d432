"""What runs on a store: leases and their keeper, the worker, commands under guard."""

from persistence.hosts.keeper import LeaseKeeper
from persistence.hosts.launched import is_command, run_command
from persistence.hosts.lease import Lease, LeaseTerms
from persistence.hosts.safe_error import SafeCode, SafeError, safe_error
from persistence.hosts.verdict import Done, Failed, Handler, Park, Verdict
from persistence.hosts.worker import Worker

__all__ = [
    "Done",
    "Failed",
    "Handler",
    "Lease",
    "LeaseKeeper",
    "LeaseTerms",
    "Park",
    "SafeCode",
    "SafeError",
    "Verdict",
    "Worker",
    "is_command",
    "run_command",
    "safe_error",
]
