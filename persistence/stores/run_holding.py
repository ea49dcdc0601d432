"""What the holder of a run does with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from persistence.batching import apply_many
from persistence.engine import actor_of
from persistence.stores.claims import Claim, claim_of, proven
from persistence.stores.face import MAX_LISTED, items_of
from persistence.stores.run_steps import RunSteps, failing
from statemachine.errors import InvalidArgument
from statemachine.machines import RunOutcome
from statemachine.outcome import Actor, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from persistence.operation import Operation
    from statemachine.kinds import JsonValue
    from statemachine.machines import Run


@frozen
class Finish:
    """One end of a batch.

    Attributes:
        claim: Held; its lease may have expired, as long as nobody has taken it.

        outcome: As for `finish`.

        result: JSON of at most 1,048,576 bytes; kept.

        call: The call's id; minted when None.
    """

    claim: Claim
    outcome: RunOutcome | str = RunOutcome.COMPLETED
    result: JsonValue = None
    call: str | None = None


class RunHolding(RunSteps):
    """Calls that need the claim."""

    def mark_running(
        self, claim: Claim, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Say that the first step is about to run; needs the lease live."""
        return self.held("mark_running", claim, {}, call, actor)

    def renew(
        self, claim: Claim, *, lease: timedelta, actor: Actor | None = None
    ) -> Operation[Claim | Refused]:
        """Extend the lease; the expiry never moves back. The record tells of a cancellation.

        Args:
            claim: Held and live.

            lease: How long it lasts from now, 1 ms to 100 years.

            actor: Who calls; None: the store's.
        """
        held, moved = claim_of(claim), self.program.moved
        return self.held(
            "renew",
            held,
            {"lease": lease},
            None,
            actor,
            tell=lambda cells: proven(moved(cells), held.token, held.proof),
        )

    def release_control(
        self, claim: Claim, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """Give a control lease back."""
        return self.held("release_control", claim, {}, call, actor)

    def park(
        self,
        claim: Claim,
        *,
        waiting: bool = False,
        available_at: datetime | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Run | Refused]:
        """Lay the run aside, until it is woken (waiting) or until `available_at` (None: now)."""
        values = {"waiting": waiting, "available_at": available_at}
        return self.held("park", claim, values, call, actor)

    def park_source_changed(
        self,
        claim: Claim,
        *,
        error_message: str,
        status_detail: str | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Run | Refused]:
        """Lay the run aside because its source is no longer what it was."""
        values = {"error_message": error_message, "status_detail": status_detail}
        return self.held("park_source_changed", claim, values, call, actor)

    def park_effect_ambiguous(
        self,
        claim: Claim,
        *,
        error_message: str,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Run | Refused]:
        """Lay the run aside because nobody knows whether an effect happened."""
        values = {"error_message": error_message}
        return self.held("park_effect_ambiguous", claim, values, call, actor)

    def finish(
        self,
        claim: Claim,
        *,
        outcome: RunOutcome | str = RunOutcome.COMPLETED,
        result: JsonValue = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Run | Refused]:
        """End the run as done: `completed`, `checkpointed`, `failed` or `timed_out`.

        Args:
            claim: Held; its lease may have expired, as long as nobody has taken it.

            outcome: How it ended.

            result: JSON of at most 1,048,576 bytes; kept.

            call: The call's id; minted when None.

            actor: Who calls; None: the store's.
        """
        values = {"outcome": outcome, "result": result}
        return self.held("finish", claim, values, call, actor)

    def finish_many(
        self, ends: Sequence[Finish], *, actor: Actor | None = None
    ) -> Operation[list[Run | Refused]]:
        """End several runs as done, in one transaction.

        Args:
            ends: At most 1,000, of different runs.

            actor: Who calls; None: the store's.

        Returns:
            Each one's own outcome, in the order given.

        Raises:
            InvalidArgument: Nothing was written.
        """
        admission = self.program.machine.transition("finish").admission
        who = None if actor is None else actor_of(actor)
        calls = []
        for end in items_of(ends, "ends", MAX_LISTED):
            if not isinstance(end, Finish):
                raise InvalidArgument("ends", "of Finish")
            key, shown = claim_of(end.claim).proof
            values = {"outcome": end.outcome, "result": end.result}
            calls.append(self.engine.call_of(admission(values, shown), key, end.call, who))
        rows = yield from apply_many(self.program, "finish", calls)
        return [row if isinstance(row, Refused) else self.program.moved(row.cells) for row in rows]

    def fail(
        self,
        claim: Claim,
        *,
        error_code: str,
        error_message: str,
        outcome: RunOutcome | str = RunOutcome.FAILED,
        result: JsonValue = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Run | Refused]:
        """End the run as failed.

        Args:
            claim: Held; its lease may have expired, as long as nobody has taken it.

            error_code: A key; `neverStarted`: nothing of the run exists.

            error_message: 1 to 2,048 bytes once trimmed.

            outcome: `failed` or `timed_out`.

            result: JSON of at most 1,048,576 bytes; kept.

            call: The call's id; minted when None.

            actor: Who calls; None: the store's.
        """
        values = failing(error_code, error_message, outcome, result)
        return self.held("fail", claim, values, call, actor)

    def abort(
        self, claim: Claim, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Run | Refused]:
        """End the run as cancelled, as its holder."""
        return self.held("abort", claim, {}, call, actor)
