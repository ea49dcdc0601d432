"""Preparing a launch: all that can be wrong is found before there is a row."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from persistence.hosts.keeper import TROUBLE
from persistence.hosts.launch_terms import LaunchHost, LaunchRefused, Prepared, Resolved
from persistence.hosts.safe_error import SafeCode, SafeError, safe_error
from statemachine.errors import CommitUnknown, UniquenessConflict
from statemachine.machines import Run, RunOutcome, RunStatus

if TYPE_CHECKING:
    from persistence import Store
    from statemachine.kinds import JsonValue

_log = logging.getLogger(__name__)


class Preparation:
    """Reserves the runs of one session.

    Args:
        store: The store.

        host: What the session's host can do.

        session_id, runner_id: Who; keys.
    """

    def __init__(self, store: Store, host: LaunchHost, *, session_id: str, runner_id: str) -> None:
        self._store = store
        self._host = host
        self._session_id = session_id
        self._runner_id = runner_id

    def prepare(
        self,
        ref: str,
        *,
        input: JsonValue = None,  # noqa: A002 - the field's name
        launch_options: JsonValue = None,
        parent_run_id: str | None = None,
        run_id: str | None = None,
    ) -> Prepared:
        """Reserve a run before the caller's turn ends.

        Args:
            ref: Which workflow.

            input, launch_options: JSON.

            parent_run_id: The checkpointed run that it carries on.

            run_id: Minted when None.

        Raises:
            LaunchRefused: Something stands in the way; there is no row.

            CommitUnknown: There may be one, which is activated like any other.
        """
        try:
            resolved = self._host.resolve(ref)
            self._nothing_in_the_way()
            if parent_run_id is not None:
                self._parent_is_ready(parent_run_id, resolved)
            run = self._store.runs.reserve(
                workflow=resolved.workflow,
                source_ref=resolved.source_ref,
                source=resolved.source,
                definition_digest=resolved.digest,
                input=input,
                launch_options=launch_options,
                origin_session_id=self._session_id,
                affinity_runner_id=self._runner_id,
                parent_run_id=parent_run_id,
                run_id=run_id,
            )
        except UniquenessConflict as conflict:
            raise _in_the_way(conflict.blocker) from conflict
        except (LaunchRefused, CommitUnknown):
            raise
        except Exception as error:
            raise LaunchRefused(safe_error(error)) from error
        note(
            self._store,
            run.run_id,
            "queued",
            {"parentRunId": parent_run_id} if parent_run_id else {},
        )
        return Prepared(run=run, message=f"Workflow {run.workflow} queued (run {run.run_id}).")

    def _nothing_in_the_way(self) -> None:
        if self._host.presenting():
            message = "The previous workflow result is still being presented."
            raise LaunchRefused(SafeError(SafeCode.ACTIVATION_FAILED, message))
        reserved = self._store.runs.find_reservation(self._session_id)
        if reserved is not None:
            raise _in_the_way(reserved)

    def _parent_is_ready(self, parent_run_id: str, resolved: Resolved) -> None:
        parent = self._store.runs.get(parent_run_id)
        if parent is None or parent.outcome is not RunOutcome.CHECKPOINTED:
            message = f"Workflow run {parent_run_id} did not end at a checkpoint"
            raise LaunchRefused(SafeError(SafeCode.INPUT_INVALID, message))
        if parent.source != resolved.source:
            message = f"Workflow source changed since run {parent_run_id} started"
            raise LaunchRefused(SafeError(SafeCode.SOURCE_CHANGED, message))


def note(store: Store, run_id: str, kind: str, payload: JsonValue) -> None:
    """Append a run event; the audit feed holds up nothing."""
    try:
        store.runs.append_event(run_id, type=kind, payload=payload)
    except TROUBLE as error:
        _log.warning("the event %s of %s is not recorded: %s", kind, run_id, error)


def _in_the_way(blocker: object) -> LaunchRefused:
    if not isinstance(blocker, Run):
        message = "Another workflow launch came first; try again."
        return LaunchRefused(SafeError(SafeCode.ACTIVATION_FAILED, message))
    status = "waiting to start" if blocker.status is RunStatus.QUEUED else str(blocker.status)
    message = f"Workflow {blocker.workflow} is already {status} (run {blocker.run_id})."
    return LaunchRefused(SafeError(SafeCode.ACTIVATION_FAILED, message), blocker)
