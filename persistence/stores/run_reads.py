"""Reading runs: one, lists, a session's reservation, history; and events of hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from persistence import history
from persistence.binds import LIMIT_BIND
from persistence.operation import Clash, Query
from persistence.reading import (
    AFTER_BIND,
    EVENT_BIND,
    PAYLOAD_BIND,
    STATES_BIND,
    Listing,
    append,
    listing,
)
from persistence.refusal import read
from persistence.stores.claims import Claim, claim_of
from persistence.stores.face import Operations, items_of, limit_of
from statemachine.errors import IdentityConflict
from statemachine.kinds import Boolean, Choice, Text, admit, canonical_json
from statemachine.machines import RunStatus
from statemachine.outcome import Actor, Event, HostEvent, Moved, Reason, Refused
from statemachine.simulate import decide

if TYPE_CHECKING:
    from collections.abc import Collection

    from persistence.operation import Operation
    from statemachine.kinds import JsonValue
    from statemachine.machines import Run

MAX_PAYLOAD = 65_536


class RunReads(Operations):
    """What can be known of runs."""

    def get(self, run_id: str) -> Operation[Run | None]:
        """Return a run, or None."""
        row, _ = yield from read(self.program, self.key(run_id))
        run: Run | None = None if row is None else self.program.record(row)
        return run

    def verify(self, claim: Claim) -> Operation[bool]:
        """Tell whether the run is not final, and held and live by this claim."""
        held = claim_of(claim)
        run_id, shown = held.proof
        row, now = yield from read(self.program, run_id)
        params = {**shown, "lease": 1}
        verdict = decide(self.program.machine, row, "renew", params, now)
        return isinstance(verdict, Moved)

    def find_reservation(self, session_id: str) -> Operation[Run | None]:
        """Return the interactive run of a session that is queued, starting or running."""
        wanted = {"origin_session_id": admit(Text(), session_id, "session_id")}
        answer = yield Query(self.program.blocker("session reservation"), wanted)
        if not answer.rows:
            return None
        run: Run = self.program.record(self.program.row(answer.rows[0]))
        return run

    def history(
        self, run_id: str, *, after_revision: int = 0, limit: int = 100
    ) -> Operation[list[Event]]:
        """Return a run's steps behind a revision, oldest first; `limit` 1 to 1,000."""
        return (yield from self.steps(run_id, after_revision=after_revision, limit=limit))

    def append_event(
        self,
        run_id: str,
        *,
        type: str,  # noqa: A002 - the field's name
        payload: JsonValue = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[HostEvent | Refused]:
        """Append a host's event to the audit feed; it carries the run's revision.

        Args:
            run_id: Which run.

            type: A key.

            payload: JSON of at most 65,536 bytes.

            call: The call's id; repeated, nothing is appended again.

            actor: Who calls; None: the store's.

        Returns:
            The event, or `Refused` (missing).

        Raises:
            InvalidArgument: Nothing was written.

            IdentityConflict: The call id was used for something else.
        """
        machine, key = self.program.machine, self.key(run_id)
        kind = str(admit(Text(), type, "type"))
        text = canonical_json(payload, "payload", MAX_PAYLOAD)
        made = self.engine.call_of({EVENT_BIND: kind, PAYLOAD_BIND: text}, key, call, actor)
        try:
            answer = yield Query(append(self.program), made.params, fragile=made.given)
        except Clash as clash:
            return (yield from self._appended(key, kind, made.id, clash))
        if not answer.rows:
            return Refused(transition="append_event", reason=Reason.MISSING, key=key)
        revision, at = answer.rows[0]
        return HostEvent(
            machine=machine.name,
            key=key,
            revision=revision,
            type=kind,
            payload=payload,
            actor=made.actor,
            call=made.id,
            at=at,
        )

    def _appended(
        self, key: str, kind: str, call: str, clash: Clash
    ) -> Operation[HostEvent | Refused]:
        machine = self.program.machine.name
        answer = yield Query(
            history.feed_of_call(self.program.dialect), {"machine": machine, "call": call}
        )
        for entry in (history.entry_of(row) for row in answer.rows):
            if isinstance(entry, HostEvent) and (entry.key, entry.type) == (key, kind):
                return entry
        raise IdentityConflict(machine, call, ("call id of something else",)) from clash

    def list(
        self,
        *,
        statuses: Collection[RunStatus | str] = (),
        origin_session_id: str | None = None,
        limit: int = 100,
        newest_first: bool = False,
        after: str | None = None,
    ) -> Operation[list[Run]]:
        """List the store's project's runs by creation (then run id).

        Args:
            statuses: Only these; empty: all.

            origin_session_id: Only this session's.

            limit: 1 to 1,000.

            newest_first: Turn the order round.

            after: Continue behind this run.
        """
        params: dict[str, object] = {LIMIT_BIND: limit_of(limit)}
        equal = []
        if self.engine.project is not None:
            equal.append("project")
            params["project"] = self.engine.project
        if origin_session_id is not None:
            equal.append("origin_session_id")
            params["origin_session_id"] = admit(Text(), origin_session_id, "origin_session_id")
        known = Choice(RunStatus)
        states = [
            str(admit(known, s, "statuses")) for s in items_of(statuses, "statuses", len(RunStatus))
        ]
        params[STATES_BIND] = self.program.dialect.as_list(states)
        if after is not None:
            params[AFTER_BIND] = self.key(after, "after")
        wanted = Listing(
            tuple(equal),
            states=bool(states),
            after=after is not None,
            newest_first=bool(admit(Boolean(), newest_first, "newest_first")),
        )
        answer = yield Query(listing(self.program, wanted), params)
        return [self.program.record(self.program.row(row)) for row in answer.rows]

    def counts(self) -> Operation[dict[RunStatus, int]]:
        """Count the store's project's runs in each state; it reads every run once."""
        project = self.engine.project
        rows = yield from self.counted({} if project is None else {"project": project})
        return {RunStatus(status): number for status, number in rows.items()}
