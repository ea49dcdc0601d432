"""Notifications: the recorded operations as calls of ours, and what is expected of the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from persistence import Store
from persistence.stores.notifications import NotificationClaim
from statemachine.kinds import EPOCH, trimmed
from statemachine.machines import Notification, NotificationKind, NotificationStatus
from tests.conformance.answers import Answer, Difference, Row, of
from tests.conformance.bounds import refused_by_us
from tests.conformance.terms import Tokens, lease, milliseconds, token
from tests.conformance.traces import Step, same

Args = Mapping[str, Any]

DELIVERER = "deliverer"
FACTS = (
    "run_id", "node_id", "attempt_id", "notification_index", "target_session_id", "kind", "content",
)  # fmt: skip
NO_NOTIFICATION = Notification(
    notification_id="none",
    run_id="none",
    node_id="none",
    attempt_id="none",
    notification_index=1,
    target_session_id="none",
    kind=NotificationKind.PROGRESS,
    content="none",
    status=NotificationStatus.PENDING,
    created_at=EPOCH,
    revision=1,
    last_transition="enqueue",
    last_actor_kind="test",
    last_actor="none",
    last_call="none",
    updated_at=EPOCH,
)


def ours(note: Notification) -> dict[str, Any]:
    """Return a notification in the recorded shape, its token as the hash."""
    return {
        "notification_id": note.notification_id,
        "run_id": note.run_id,
        "node_id": note.node_id,
        "attempt_id": note.attempt_id,
        "notification_index": note.notification_index,
        "target_session_id": note.target_session_id,
        "kind": str(note.kind),
        "content": note.content,
        "created_at": milliseconds(note.created_at),
        "claim_token": note.lease_token_hash,
        "claim_expires_at": milliseconds(note.lease_expires_at),
        "delivered_at": milliseconds(note.delivered_at),
    }


class NotificationOps:
    """The kind `notifications`.

    Attributes:
        rows: Our notifications, as they were last read.
    """

    kind = "notifications"
    rests_on = ()

    def __init__(self, store: Store) -> None:
        self._notes = store.notifications
        self._tokens = Tokens()
        self._claims: dict[tuple[str, str], NotificationClaim] = {}
        self.rows: dict[str, Notification] = {}
        self.ops: Mapping[str, Callable[[Args], Answer]] = {
            "notification_enqueue": self._enqueue,
            "notification_claim": self._claim,
            "notification_ack": lambda args: of(self._notes.mark_delivered(self._held(args))),
        }

    def keys(self, step: Step) -> tuple[str, ...]:
        """Name the notification that a step addresses."""
        key = step.args.get("notification_id")
        return (key,) if isinstance(key, str) and key in self.rows else ()

    def difference(self, step: Step) -> Difference | None:
        """Tell which deliberate difference a step falls under."""
        if step.verdict == "invalid_argument" or not isinstance(step.now, int):
            return None
        outside = refused_by_us(step.args)
        if outside is not None:
            return Difference(outside, "invalid_argument")
        if step.op == "notification_enqueue":
            return self._putting(step)
        return self._taking(step, step.now) if step.op == "notification_claim" else None

    def _putting(self, step: Step) -> Difference | None:
        """A notification is the attempt's, by index; whatever else it says belongs to it."""
        given = {**step.args, "content": trimmed(step.args["content"])}
        slot = ("run_id", "attempt_id", "notification_index")
        stored = [ours(note) for note in self.rows.values()]
        held = [row for row in stored if row["notification_id"] == given["notification_id"]]
        held += [row for row in stored if all(row[name] == given[name] for name in slot)]
        if not held:
            taken = "notifications" not in step.delta
            return Difference("D16", "yes", given) if taken else None
        if any(held[0][name] != given[name] for name in FACTS):
            return Difference("D16", "identity_conflict")
        key = step.returned and step.returned["notification_id"]
        same_row = same(key, held[0]["notification_id"]) and not step.delta
        return None if same_row else Difference("D16", "yes")

    def _taking(self, step: Step, now: int) -> Difference | None:
        due = [
            (milliseconds(note.created_at) or 0, note.notification_id)
            for note in self.rows.values()
            if note.status is NotificationStatus.PENDING
            and note.target_session_id == step.args["target_session_id"]
            and (milliseconds(note.lease_expires_at) or 0) <= now
        ]
        taken = {"ids": [key for _, key in sorted(due)][: step.args.get("limit", 20)]}
        return None if same(step.returned, taken) else Difference("D25", "yes", value=taken)

    def returned(self, step: Step, rows: Mapping[str, Row]) -> Any:  # noqa: ARG002 - the protocol's
        """Return a recorded record or list as ours must be: just so."""
        return step.returned if isinstance(step.returned, dict) else None

    def row(self, step: Step, before: Row | None, recorded: Row) -> tuple[Row, tuple[str, ...]]:  # noqa: ARG002 - likewise
        """Return a recorded row as ours must be: just so, but for the token's hash."""
        return {**recorded, "claim_token": self._tokens.hash(recorded["claim_token"])}, ()

    def settle(self, step: Step, answer: Answer) -> None:  # noqa: ARG002 - likewise
        """Keep the presented token."""
        self._tokens.present(step.args.get("claim_token"))

    def refresh(self, key: str) -> Row | None:
        """Read a notification again; return it in the recorded shape."""
        note = self._notes.get(key)
        if note is None:
            return None
        self.rows[key] = note
        return ours(note)

    def everything(self) -> Mapping[str, Row]:
        """Return all notifications that were ever seen, in the recorded shape."""
        return {key: row for key in tuple(self.rows) if (row := self.refresh(key)) is not None}

    def _enqueue(self, args: Args) -> Answer:
        note = self._notes.enqueue(
            run_id=args["run_id"],
            node_id=args["node_id"],
            attempt_id=args["attempt_id"],
            notification_index=args["notification_index"],
            target_session_id=args["target_session_id"],
            kind=args["kind"],
            content=args["content"],
            notification_id=args["notification_id"],
        )
        row = ours(note)
        del row["claim_token"]
        return Answer("yes", row, (note.notification_id,))

    def _claim(self, args: Args) -> Answer:
        claims = self._notes.claim_batch(
            args["target_session_id"],
            holder=DELIVERER,
            lease=lease(args["lease_ms"]),
            token=token(args["claim_token"]),
            **({"limit": args["limit"]} if "limit" in args else {}),
        )
        for claim in claims:
            self._claims[claim.notification_id, args["claim_token"]] = claim
        ids = [claim.notification_id for claim in claims]
        return Answer("yes", {"ids": ids}, tuple(ids))

    def _held(self, args: Args) -> NotificationClaim:
        """Return the claim last given for the token, else one of the row's present generation."""
        key, text = args["notification_id"], args.get("claim_token")
        claim = self._claims.get((key, str(text)))
        row = self.rows.get(key, NO_NOTIFICATION) if claim is None else claim.notification
        session = args["target_session_id"]
        return NotificationClaim(
            evolve(row, notification_id=key, target_session_id=session), token(text)
        )
