"""Turn intents as records: how they come to be, become eligible, and are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from persistence.binds import LIMIT_BIND
from persistence.execute import create
from persistence.operation import Query
from persistence.reading import AFTER_BIND, STATES_BIND, Listing, listing
from persistence.refusal import read
from persistence.stores.deliveries import DEFAULT_LIMIT, MAX_BATCH
from persistence.stores.face import Operations, items_of, limit_of
from persistence.stores.turn_facts import own_facts
from statemachine.admission import admit_params
from statemachine.errors import InvalidArgument
from statemachine.kinds import Choice, Text, admit
from statemachine.machines import TurnCause, TurnIntent, TurnStatus
from statemachine.machines.run_launch import RUN_ID

if TYPE_CHECKING:
    from collections.abc import Collection

    from persistence.operation import Operation
    from persistence.stores.turn_facts import TurnFacts
    from statemachine.kinds import JsonValue, Row
    from statemachine.outcome import Actor, Event, Refused

_KEY = Text()


class IntentRecords(Operations):
    """What is obliged, and what can be known of it."""

    def ensure(
        self,
        *,
        intent_id: str,
        source_event_id: str,
        run_id: str,
        workflow: str,
        target_session_id: str,
        cause: TurnCause | str,
        fallback_facts: TurnFacts | JsonValue,
        node_id: str | None = None,
        attempt_id: str | None = None,
        eligible: bool = False,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[TurnIntent]:
        """Oblige a session to one successor turn, before its present turn is aborted.

        Args:
            intent_id, source_event_id, workflow, target_session_id, node_id, attempt_id: Keys.

            run_id: A run id.

            cause: What stopped the turn.

            fallback_facts: What the fallback message may say; about this very run, cause, node,
                attempt and workflow.

            eligible: Whether a fallback may be sent at once.

            call: The call's id, kept over retries; minted when None.

            actor: Who calls; None: the store's.

        Returns:
            The record. The same id with the same facts of identity answers the stored one, which
            stays as it is (`make_eligible` makes a pending one eligible).

        Raises:
            InvalidArgument, IdentityConflict, UniquenessConflict: Nothing was written; the last
                carries the unresolved intent of this run and session.
        """
        if not isinstance(eligible, bool):
            raise InvalidArgument("eligible", "True or False")
        name = "ensure_eligible" if eligible else "ensure"
        given = {
            "intent_id": intent_id,
            "source_event_id": source_event_id,
            "run_id": run_id,
            "workflow": workflow,
            "target_session_id": target_session_id,
            "cause": cause,
            "node_id": node_id,
            "attempt_id": attempt_id,
        }
        declared = self.program.machine.creation(name).params
        row = admit_params([p for p in declared if p.name in given], given)
        facts = own_facts(fallback_facts, row)
        params = admit_params(declared, {**given, "fallback_facts": facts})
        made = self.engine.call_of(params, "", call, actor)
        answered = self.program.row
        return create(self.program, name, made, lambda cells: self.record(answered(cells)))

    def make_eligible(
        self,
        intent_id: str,
        *,
        fallback_facts: TurnFacts | JsonValue,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[TurnIntent | Refused]:
        """Let a fallback be sent, with new facts; an intent that is eligible stays so since then.

        Needs no claim, and leaves the present one alone: who delivers the intent just now does so
        with the facts of its own record.
        """
        row, _ = yield from read(self.program, self.key(intent_id))
        values = {"fallback_facts": own_facts(fallback_facts, row)}
        moved = self.program.moved
        make = self.call("make_eligible", intent_id, values, moved, call=call, actor=actor)
        return (yield from make)

    def get(self, intent_id: str) -> Operation[TurnIntent | None]:
        """Return an intent, or None."""
        row, _ = yield from read(self.program, self.key(intent_id))
        return None if row is None else self.record(row)

    def find_pending(self, run_id: str, session_id: str) -> Operation[TurnIntent | None]:
        """Return the unresolved intent of a run and session, claimed or not, or None."""
        wanted = {
            "run_id": admit(RUN_ID, run_id, "run_id"),
            "target_session_id": admit(_KEY, session_id, "session_id"),
        }
        answer = yield Query(self.program.blocker("one unresolved intent"), wanted)
        return self.record(self.program.row(answer.rows[0])) if answer.rows else None

    def history(
        self, intent_id: str, *, after_revision: int = 0, limit: int = 100
    ) -> Operation[list[Event]]:
        """Return an intent's steps behind a revision, oldest first; `limit` 1 to 1,000."""
        return (yield from self.steps(intent_id, after_revision=after_revision, limit=limit))

    def record(self, row: Row) -> TurnIntent:
        """Return a row as its record."""
        record: TurnIntent = self.program.record(row)
        return record

    def list(
        self,
        *,
        session_id: str | None = None,
        run_id: str | None = None,
        statuses: Collection[TurnStatus | str] = (),
        limit: int = DEFAULT_LIMIT,
        after: str | None = None,
    ) -> Operation[list[TurnIntent]]:
        """List intents, the newest requested first.

        Args:
            session_id, run_id: Only these.

            statuses: Only these; empty: all.

            limit: 1 to 100.

            after: Continue behind this intent.
        """
        params: dict[str, object] = {LIMIT_BIND: limit_of(limit, MAX_BATCH)}
        if session_id is not None:
            params["target_session_id"] = admit(_KEY, session_id, "session_id")
        if run_id is not None:
            params["run_id"] = admit(RUN_ID, run_id, "run_id")
        equal = tuple(name for name in ("target_session_id", "run_id") if name in params)
        known = Choice(TurnStatus)
        given = items_of(statuses, "statuses", len(TurnStatus))
        states = [str(admit(known, status, "statuses")) for status in given]
        params[STATES_BIND] = self.program.dialect.as_list(states)
        if after is not None:
            params[AFTER_BIND] = self.key(after, "after")
        wanted = Listing(equal, states=bool(states), after=after is not None, newest_first=True)
        answer = yield Query(listing(self.program, wanted), params)
        return [self.record(self.program.row(row)) for row in answer.rows]
