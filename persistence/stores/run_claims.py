"""Taking runs: by id, the next one, many at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from persistence.batching import apply_many, choose_many
from persistence.engine import actor_of, key_of
from persistence.execute import take_next
from persistence.refusal import read
from persistence.stores.claims import (
    Claim,
    Unchanged,
    claim_of,
    derived,
    mint,
    part_of,
    proven,
)
from persistence.stores.face import limit_of
from persistence.stores.run_steps import RunSteps
from persistence.stores.taking import Holder, binding, holding
from statemachine.kinds import Token, admit
from statemachine.machines import HolderKind
from statemachine.outcome import Actor, Refused

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import timedelta

    from persistence.call import Call
    from persistence.operation import Cells, Operation, Tell
    from statemachine.kinds import JsonValue, Kind, Plain, Row

MAX_CLAIMED = 100
_TOKEN = Token()
_HOST, _SESSION = HolderKind.HOST.value, HolderKind.SESSION.value


class RunClaims(RunSteps):
    """Who takes a run, and how."""

    def claim(
        self,
        run_id: str,
        *,
        runner_id: str,
        lease: timedelta,
        holder_kind: HolderKind | str = HolderKind.HOST,
        token: bytes | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Claim | Refused]:
        """Take a run that is free; says nothing of pins, sessions or availability.

        Args:
            run_id: Which.

            runner_id: The holder.

            lease: How long the lease lasts, 1 ms to 100 years.

            holder_kind: `session` or `host`.

            token: 32 bytes; minted when None.

            call: The call's id; repeated with the same token it answers the same claim.

            actor: Who calls; None: the runner.

        Returns:
            The claim, or why not; `unique`: the session has another reservation.

        Raises:
            InvalidArgument: Nothing was written.
        """
        token, who = mint(token), holding(runner_id, holder_kind)
        values = {**who.plain, "lease": lease, "token": token}
        tell = self._with(token)
        return self.call("claim", run_id, values, tell, call=call, actor=actor, otherwise=who.actor)

    def claim_for_control(
        self,
        run_id: str,
        *,
        holder: str,
        lease: timedelta,
        token: bytes | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Claim | Refused]:
        """Hold a queued or parked run where it is, without beginning it."""
        token = mint(token)
        values = {"holder": holder, "lease": lease, "token": token}
        itself = Actor(HolderKind.CONTROL.value, key_of(holder, "holder"))
        tell = self._with(token)
        return self.call(
            "claim_for_control", run_id, values, tell, call=call, actor=actor, otherwise=itself
        )

    def rebind(
        self,
        run_id: str,
        *,
        workflow: str,
        source_ref: str,
        source: JsonValue,
        definition_digest: str,
        expected_source_ref: str,
        runner_id: str,
        lease: timedelta,
        holder_kind: HolderKind | str = HolderKind.HOST,
        token: bytes | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Claim | Unchanged | Refused]:
        """Take a free run with another source.

        Returns:
            The claim; `Unchanged` where a parked run names this very source; or why not.
        """
        token = mint(token)
        bound = binding(workflow, source_ref, source, definition_digest, expected_source_ref)
        who = holding(runner_id, holder_kind)
        values = {**bound, **who.plain, "lease": lease, "token": token}
        params = self.admitted(self.program.machine.transition("rebind").admission, values)
        row, _ = yield from read(self.program, self.key(run_id))
        names = ("source_ref", "source", "definition_digest")
        parked = row if row is not None and row["status"] == "parked" else None
        if parked is not None and all(parked[name] == params[name] for name in names):
            return Unchanged(self.program.record(parked))
        tell, itself = self._with(token), who.actor
        make = self.call("rebind", run_id, values, tell, call=call, actor=actor, otherwise=itself)
        return (yield from make)

    def rebind_held(
        self,
        claim: Claim,
        *,
        workflow: str,
        source_ref: str,
        source: JsonValue,
        definition_digest: str,
        expected_source_ref: str,
        runner_id: str,
        lease: timedelta,
        holder_kind: HolderKind | str = HolderKind.HOST,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Claim | Refused]:
        """Give a run that is held another source; generation and attempts are kept."""
        held = claim_of(claim)
        bound = binding(workflow, source_ref, source, definition_digest, expected_source_ref)
        values = {**bound, **holding(runner_id, holder_kind).plain, "lease": lease}
        return self.held("rebind_held", held, values, call, actor, tell=self._with(held.token))

    def claim_next(
        self,
        runner_id: str,
        lease: timedelta,
        *,
        session_id: str | None = None,
        exclude: Collection[str] = (),
        token: bytes | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Claim | Refused]:
        """Take the next run: own affinity, then expired leases, then the oldest waiting.

        Args:
            runner_id: The holder.

            lease: How long the lease lasts, 1 ms to 100 years.

            session_id: A session takes its own interactive runs; None: a detached host.

            exclude: At most 1,000 run ids that are passed over.

            token: 32 bytes; minted when None.

            call: The call's id; repeated, it does not take a second run.

            actor: Who calls; None: the runner.

        Returns:
            The claim, or `Refused`: `nothing` to take, or all of it `locked` just now.

        Raises:
            InvalidArgument: Nothing was written.
        """
        token = mint(token)
        kind = _HOST if session_id is None else _SESSION
        who = holding(runner_id, kind)
        params = self._taken(who, lease, token)
        if session_id is not None:
            params["session_id"] = admit(self._session, session_id, "session_id")
        made = self.engine.call_of(params, "", call, actor, who.actor)
        return self._next(f"claim_next_{kind}", made, token, exclude)

    def claim_many(
        self,
        runner_id: str,
        lease: timedelta,
        *,
        limit: int,
        exclude: Collection[str] = (),
        token: bytes | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[list[Claim]]:
        """Take up to `limit` headless runs, in the order of `claim_next`, in one transaction.

        Args:
            runner_id: The holder.

            lease: How long each lease lasts, 1 ms to 100 years.

            limit: 1 to 100.

            exclude: At most 1,000 run ids that are passed over.

            token: 32 bytes from which each run's own token is derived; minted when None.

            call: The call's id; repeated with the same token it answers the same claims.

            actor: Who calls; None: the runner.

        Raises:
            InvalidArgument: Nothing was written.
        """
        most, seed = limit_of(limit, MAX_CLAIMED), mint(token)
        holder = holding(runner_id, _HOST)
        shared = self._taken(holder, lease, seed)
        tokens = [derived(seed, number) for number in range(most)]
        who = holder.actor if actor is None else actor_of(actor)
        takes = [{**shared, "token": admit(_TOKEN, own, "token")} for own in tokens]
        passed = self.excluded(exclude)
        if call is None:
            return (yield from self._at_once(takes, tokens, who, passed))
        claims: list[Claim] = []
        for number, (own, params) in enumerate(zip(tokens, takes, strict=True)):
            one = self.engine.call_of(params, "", part_of(call, number), who)
            claim = yield from self._next("claim_headless", one, own, passed)
            if isinstance(claim, Refused):
                break
            claims.append(claim)
        return claims

    def _at_once(
        self,
        takes: Sequence[dict[str, Plain]],
        tokens: Sequence[bytes],
        who: Actor,
        passed: Sequence[str],
    ) -> Operation[list[Claim]]:
        """Choose all, then take all: two statements an arm, not one a run."""
        name = self._scoped("claim_headless")
        keys = yield from choose_many(self.program, name, takes[0], len(tokens), passed)
        made = self.engine.call_of
        calls = [made(params, key, None, who) for key, params in zip(keys, takes, strict=False)]
        rows = yield from apply_many(self.program, "claim", calls)
        return [
            self._claim(token, params, row.cells)
            for row, token, params in zip(rows, tokens, takes, strict=False)
            if not isinstance(row, Refused)
        ]

    def _next(
        self, name: str, call: Call, token: bytes, exclude: Collection[str]
    ) -> Operation[Claim | Refused]:
        passed = self.excluded(exclude) if exclude != () else ()
        tell = partial(self._claim, token, call.params)
        return take_next(self.program, self._scoped(name), call, tell, passed)

    def _claim(self, token: bytes, params: Row, cells: Cells) -> Claim:
        """Return the claim on a row that was just taken, with what proves it."""
        program = self.program
        place = program.places
        shown = {"token": params["token"], "generation": cells[place["lease_generation"]]}
        return proven(program.moved(cells), token, (cells[place["run_id"]], shown))

    def _with(self, token: bytes) -> Tell[Claim]:
        """Return how a claim is told that this token proves."""
        moved = self.program.moved
        return lambda cells: Claim(moved(cells), token)

    def _taken(self, who: Holder, lease: timedelta, token: bytes) -> dict[str, Plain]:
        """Return the plain values of `claim`, and the project that a selection is asked for."""
        known = {**who.plain, "project": self.engine.project}
        return self.admitted(self.program.given["claim"], {"lease": lease, "token": token}, known)

    @property
    def _session(self) -> Kind:
        return self.program.machine.fields["origin_session_id"].kind

    def _scoped(self, name: str) -> str:
        """Return the selection of the store's project, or that of all projects."""
        return f"{name}_anywhere" if self.engine.project is None else name
