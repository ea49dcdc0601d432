"""Creating runs: reserve, enqueue."""

from __future__ import annotations

import hashlib
import re
import secrets
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from persistence.clock import SystemClock
from persistence.execute import create, created_before
from persistence.stores.claims import Claim, mint
from persistence.stores.face import Operations
from persistence.stores.taking import holding
from statemachine.admission import Admission
from statemachine.canonical import canonical_row
from statemachine.errors import InvalidArgument
from statemachine.kinds import Text, admit
from statemachine.machines import RUN_LAUNCH, ExecutionMode, HolderKind
from statemachine.outcome import Actor, Reason, Refused

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from persistence.call import Call
    from persistence.operation import Cells, Operation, Tell
    from statemachine.kinds import JsonValue, Plain, Row
    from statemachine.machines import Run


_T = TypeVar("_T")

_RESERVED = RUN_LAUNCH.creation("reserve").params
_FACTS = Admission(tuple(p for p in _RESERVED if p.name != "facts_digest"))
_LEASE = Admission(tuple(p for p in RUN_LAUNCH.creation("enqueue").params if p not in _RESERVED))
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9.-]+")


class RunCreations(Operations):
    """How runs come to be."""

    def reserve(
        self,
        *,
        workflow: str,
        source_ref: str,
        source: JsonValue,
        definition_digest: str,
        run_id: str | None = None,
        input: JsonValue = None,  # noqa: A002 - the field's name
        launch_options: JsonValue = None,
        execution_mode: ExecutionMode | str | None = None,
        origin_session_id: str | None = None,
        affinity_runner_id: str | None = None,
        affinity_until: datetime | None = None,
        parent_run_id: str | None = None,
        available_at: datetime | None = None,
        max_attempts: int | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Run]:
        """Queue a run, before the caller's turn ends.

        Args:
            workflow, source_ref, definition_digest: Keys.

            source: JSON of at most 65,536 bytes.

            run_id: Minted when None; once for all calls of a given `call`.

            input: JSON of at most 1,048,576 bytes.

            launch_options: JSON of at most 65,536 bytes; None: `{}`.

            execution_mode: None: interactive with an origin session, headless without.

            origin_session_id, affinity_runner_id: Keys.

            affinity_until: Until then a queued run is served to its affinity runner alone.

            parent_run_id: The checkpointed run that this one continues.

            available_at: Not taken by `claim_next` before; None: at once.

            max_attempts: Claims that it may use up, at least 1; None: unlimited.

            call: The call's id, kept over retries; minted when None.

            actor: Who calls; None: the store's.

        Returns:
            The record. The same run id with the same facts answers the stored one, whatever
            became of it.

        Raises:
            InvalidArgument, IdentityConflict, UniquenessConflict: Nothing was written.
        """
        return self._create(
            "reserve",
            {
                "workflow": workflow,
                "source_ref": source_ref,
                "source": source,
                "definition_digest": definition_digest,
                "run_id": run_id,
                "input": input,
                "launch_options": launch_options,
                "execution_mode": execution_mode,
                "origin_session_id": origin_session_id,
                "affinity_runner_id": affinity_runner_id,
                "affinity_until": affinity_until,
                "parent_run_id": parent_run_id,
                "available_at": available_at,
                "max_attempts": max_attempts,
            },
            {},
            self.program.moved,
            call=call,
            actor=actor,
        )

    def enqueue(
        self,
        *,
        workflow: str,
        source_ref: str,
        runner_id: str,
        lease: timedelta,
        source: JsonValue = None,
        definition_digest: str = "unavailable",
        run_id: str | None = None,
        input: JsonValue = None,  # noqa: A002 - the field's name
        launch_options: JsonValue = None,
        execution_mode: ExecutionMode | str | None = None,
        origin_session_id: str | None = None,
        affinity_runner_id: str | None = None,
        affinity_until: datetime | None = None,
        parent_run_id: str | None = None,
        available_at: datetime | None = None,
        max_attempts: int | None = None,
        holder_kind: HolderKind | str | None = None,
        token: bytes | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Claim | Refused]:
        """Create a run that is starting already, its lease taken at birth.

        Args:
            workflow, source_ref, definition_digest, run_id, input, launch_options, execution_mode,
            origin_session_id, affinity_runner_id, affinity_until, parent_run_id, available_at,
            max_attempts, call, actor: As for `reserve`.

            runner_id: The holder.

            lease: How long the lease lasts, 1 ms to 100 years.

            source: None: `{"ref": source_ref}`.

            holder_kind: None: `session` with an origin session, `host` without.

            token: 32 bytes; minted when None.

        Returns:
            The claim. The same facts and the same token again: the stored record and claim; another
            token: `Refused` (exists), never a lease.

        Raises:
            InvalidArgument, IdentityConflict, UniquenessConflict: Nothing was written.
        """
        by_session = HolderKind.HOST if origin_session_id is None else HolderKind.SESSION
        token = mint(token)
        taken = self.admitted(
            _LEASE,
            {
                **holding(runner_id, by_session if holder_kind is None else holder_kind).plain,
                "token": token,
                "lease": lease,
            },
        )
        return self._create(
            "enqueue",
            {
                "workflow": workflow,
                "source_ref": source_ref,
                "source": {"ref": source_ref} if source is None else source,
                "definition_digest": definition_digest,
                "run_id": run_id,
                "input": input,
                "launch_options": launch_options,
                "execution_mode": execution_mode,
                "origin_session_id": origin_session_id,
                "affinity_runner_id": affinity_runner_id,
                "affinity_until": affinity_until,
                "parent_run_id": parent_run_id,
                "available_at": available_at,
                "max_attempts": max_attempts,
            },
            taken,
            partial(self._enqueued, token, taken),
            call=call,
            actor=actor,
        )

    def _enqueued(self, token: bytes, taken: Row, cells: Cells) -> Claim | Refused:
        """Return the claim of a run that is there now, where it has the token that was given."""
        row = self.program.row(cells)
        if row["lease_token_hash"] == taken["token"]:
            return Claim(self.program.moved(cells), token)
        return Refused(
            transition="enqueue",
            reason=Reason.EXISTS,
            key=str(row["run_id"]),
            state=str(row["status"]),
        )

    def _create(
        self,
        name: str,
        given: dict[str, object],
        taken: Row,
        tell: Tell[_T],
        *,
        call: str | None,
        actor: Actor | None,
    ) -> Operation[_T]:
        """Validate the facts of a run, and create it with their digest and what else it takes."""
        minted = given["run_id"] is None
        facts = self._judged(given)
        made = self._made(facts, taken, call, actor)
        if minted and made.given:
            return self._create_once(name, facts, taken, tell, made)
        return create(self.program, name, made, tell)

    def _create_once(
        self,
        name: str,
        facts: Row,
        taken: Row,
        tell: Tell[_T],
        made: Call,
    ) -> Operation[_T]:
        """Create a run whose id is, for a call that is repeated, the one that was minted before."""
        before = yield from created_before(self.program, name, made.id)
        if before is not None:
            made = self._made({**facts, "run_id": before}, taken, made.id, made.actor)
        return (yield from create(self.program, name, made, tell))

    def _made(self, facts: Row, taken: Row, call: str | None, actor: Actor | None) -> Call:
        """Return the call that creates a run of these facts, with their digest."""
        whole = {**facts, **taken, "facts_digest": digest_of(facts)}
        return self.engine.call_of(whole, "", call, actor)

    def _judged(self, given: dict[str, object]) -> dict[str, Plain]:
        """Return the plain facts of a creation; what was left out is filled in."""
        if self.engine.project is None:
            raise InvalidArgument("project", "one: this store is opened for all projects")
        if given["run_id"] is None:
            given["run_id"] = self._mint(given["workflow"])
        if given["execution_mode"] is None:
            headless = given["origin_session_id"] is None
            given["execution_mode"] = (
                ExecutionMode.HEADLESS if headless else ExecutionMode.INTERACTIVE
            )
        known = {"project": self.engine.project}
        if given["launch_options"] is None:
            del given["launch_options"]
            known["launch_options"] = "{}"
        facts = _FACTS(given, known)
        if facts["execution_mode"] == "interactive" and facts["origin_session_id"] is None:
            raise InvalidArgument("origin_session_id", "given for an interactive run")
        if facts["parent_run_id"] == facts["run_id"]:
            raise InvalidArgument("parent_run_id", "another run: no run is its own parent")
        return facts

    def _mint(self, workflow: object) -> str:
        """Return `<UTC time>-<workflow>-<8 hex>`."""
        name = str(admit(Text(), workflow, "workflow"))
        plain = _UNNAMEABLE.sub("-", name)[:170]
        at = (self.engine.clock or SystemClock()).now()
        return f"{at:%Y%m%dT%H%M%SZ}-{plain}-{secrets.token_hex(4)}"


def digest_of(facts: Row) -> str:
    """Return the SHA-256 of a creation's facts in canonical form, in hexadecimal."""
    return hashlib.sha256(canonical_row(facts).encode()).hexdigest()
