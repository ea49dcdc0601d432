"""One claimed run, from its start to the call that ends or parks it."""

from __future__ import annotations

import logging
import time
import uuid
from typing import TYPE_CHECKING, TypeVar, assert_never

from persistence.hosts.keeper import TROUBLE
from persistence.hosts.safe_error import safe_error
from persistence.hosts.verdict import Done, Failed, Park, Verdict
from statemachine.errors import InvalidArgument, LeaseLost, StoreClosed
from statemachine.outcome import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from persistence.hosts.lease import Lease
    from persistence.hosts.tasks import Task
    from persistence.hosts.verdict import Handler
    from persistence.stores.runs import Runs
    from statemachine.machines.run_launch import Run

T = TypeVar("T")

_RETRY_S = 0.25
_log = logging.getLogger(__name__)


class Carrier:
    """Carries claimed runs out, each by its handler.

    Args:
        runs: `store.runs`.

        sleep: Waits the given seconds before a call is tried again.
    """

    def __init__(self, runs: Runs, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._runs = runs
        self._sleep = sleep

    def carry_out(self, task: Task) -> Run | None:
        """Mark the run running, hand it to its handler, and record the handler's verdict.

        Returns:
            The run as it stands then; None where the lease was lost, the run was called off before
            it began, or the database was out of reach for too long: then others take it up.
        """
        try:
            return self._carried_out(task.lease, task.handler)
        finally:
            task.close()

    def _carried_out(self, lease: Lease, handler: Handler) -> Run | None:
        if lease.stop_requested:
            return self.conclude(lease, Park())
        run = self._call(lease, lambda call: self._runs.mark_running(lease.claim, call=call))
        if run is None:
            return None
        try:
            verdict = verdict_of(handler, run, lease)
        except (KeyboardInterrupt, SystemExit):
            self.conclude(lease, Park())
            raise
        return None if verdict is None else self.conclude(lease, verdict)

    def conclude(self, lease: Lease, verdict: Verdict) -> Run | None:
        """Record the verdict; one on a lost lease is dropped, unless the work was done in time."""
        lease.settle()
        runs, claim = self._runs, lease.claim
        match verdict:
            case Done(result, outcome):
                try:
                    return self._call(
                        lease,
                        lambda call: runs.finish(claim, outcome=outcome, result=result, call=call),
                    )
                except InvalidArgument as error:
                    told = safe_error(error)
                    return self.conclude(lease, Failed(code=told.code, message=told.message))
            case Park(waiting=waiting, available_at=available_at):
                if not lease.held:
                    return None
                if self._cancelling(lease):
                    return self._abort(lease)
                parked = self._call(
                    lease,
                    lambda call: runs.park(
                        claim, waiting=waiting, available_at=available_at, call=call
                    ),
                )
                # A cancellation may have come in between; then it is the only way out.
                return self._abort(lease) if parked is None and self._cancelling(lease) else parked
            case Failed(code=code, message=message, outcome=outcome, result=result):
                if not lease.held:
                    return None
                if self._cancelling(lease):
                    return self._abort(lease)
                return self._call(
                    lease,
                    lambda call: runs.fail(
                        claim,
                        error_code=code,
                        error_message=message,
                        outcome=outcome,
                        result=result,
                        call=call,
                    ),
                )
        assert_never(verdict)

    def _abort(self, lease: Lease) -> Run | None:
        return self._call(lease, lambda call: self._runs.abort(lease.claim, call=call))

    def _cancelling(self, lease: Lease) -> bool:
        if lease.cancel_requested:
            return True
        run = self.retried((lease,), lambda: self._runs.get(lease.run_id))
        return run is not None and run.cancel_requested_at is not None

    def _call(self, lease: Lease, move: Callable[[str], Run | Refused]) -> Run | None:
        """Make one call, repeated under the same id after database trouble."""
        call = uuid.uuid4().hex
        answer = self.retried((lease,), lambda: move(call))
        if isinstance(answer, Refused):
            _log.info("%s", answer)
            return None
        return answer

    def retried(self, leases: Collection[Lease], ask: Callable[[], T]) -> T | None:
        """Ask again after database trouble; None once no lease is held, or the store is closed."""
        while True:
            try:
                return ask()
            except StoreClosed as error:
                _log.warning("run %s: %s", ", ".join(lease.run_id for lease in leases), error)
                return None
            except TROUBLE as error:
                _log.warning("run %s: %s", ", ".join(lease.run_id for lease in leases), error)
                if not any(lease.held for lease in leases):
                    return None
            self._sleep(_RETRY_S)


def verdict_of(handler: Handler, run: Run, lease: Lease) -> Verdict | None:
    """Return what the handler makes of the run; None when it found its lease lost."""
    try:
        answer = handler(run, lease)
    except LeaseLost as lost:
        _log.warning("%s", lost)
        return None
    except (Park, Failed) as verdict:
        return verdict
    except Exception as error:  # noqa: BLE001 - whatever a handler raises fails its run
        _log.info("run %s failed", run.run_id, exc_info=error)
        told = safe_error(error)
        return Failed(code=told.code, message=told.message)
    return answer if isinstance(answer, Done | Park | Failed) else Done(answer)
