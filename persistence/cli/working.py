"""`work`: one worker of the commands in the queue."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import uuid
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from persistence.cli.database import DEFAULT_DB, Db, Project, open_database
from persistence.cli.exits import INTERRUPTED, SOME_FAILED, Ended
from persistence.cli.printing import one_line
from statemachine.machines import Run, RunStatus
from statemachine.outcome import Actor

if TYPE_CHECKING:
    from types import FrameType

    from persistence.hosts import Worker

DEFAULT_LEASE_S = 10.0
MIN_LEASE_S, MAX_LEASE_S = 0.5, 86_400.0
RENEWALS_PER_LEASE = 3
POLL_S = 1.0

LeaseSeconds = Annotated[
    float,
    typer.Option(
        "--lease",
        metavar="SECONDS",
        min=MIN_LEASE_S,
        max=MAX_LEASE_S,
        help="How long a run stays with a worker that has died.",
    ),
]


def work(
    *,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Exit when the queue is empty.")
    ] = False,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Commands at a time.")] = 1,
    lease: LeaseSeconds = DEFAULT_LEASE_S,
    runner: Annotated[
        str | None, typer.Option(help="Name of this worker; unique among all that run.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing of the runs.")] = False,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
    db: Db = DEFAULT_DB,
    project: Project = "default",
) -> None:
    """Run the commands in the queue, one worker of as many as are started on as many hosts.

    Stopped by SIGINT or SIGTERM, it parks what runs, for others to begin again.
    """
    from persistence.hosts import Worker, is_command, run_command  # noqa: PLC0415 - `--help` is quick

    if with_parent:
        _end_with_parent()
    runner_id = runner or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    ended: Counter[RunStatus] = Counter()

    def note(run: Run) -> None:
        ended[run.status] += 1
        if not quiet:
            print(one_line(f"{run.run_id} {run.status} {run.error_message or ''}"), flush=True)

    with open_database(db, create=True, project=project, actor=Actor("host", runner_id)) as store:
        worker = Worker(
            store,
            {},
            fallback=lambda run: run_command if is_command(run) else None,
            runner_id=runner_id,
            lease=timedelta(seconds=lease),
            renew_every=timedelta(seconds=lease / RENEWALS_PER_LEASE),
            poll=timedelta(seconds=min(POLL_S, lease / RENEWALS_PER_LEASE)),
            concurrency=concurrency,
            on_end=note,
        )
        stopped = _stop_on_signals(worker)
        worker.run(until_empty=until_empty)
    if stopped:
        raise Ended(INTERRUPTED)
    if ended[RunStatus.FAILED] or ended[RunStatus.CANCELLED]:
        raise Ended(SOME_FAILED)


def _stop_on_signals(worker: Worker) -> list[int]:
    """Have SIGINT and SIGTERM stop the worker; the answer fills with what came."""
    came: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        came.append(number)
        worker.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return came


def _end_with_parent() -> None:
    """Be stopped (SIGTERM) when the parent dies; only Linux can promise that."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)
