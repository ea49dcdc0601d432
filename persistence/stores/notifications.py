"""The face of notifications: `store.notifications`."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from attrs import field, frozen

from persistence.binds import LIMIT_BIND
from persistence.execute import create
from persistence.operation import Query
from persistence.reading import AFTER_BIND, STATES_BIND, Listing, listing
from persistence.refusal import read
from persistence.stores.claims import mint
from persistence.stores.deliveries import DEFAULT_LIMIT, MAX_BATCH, delivering, is_live, take_batch
from persistence.stores.face import Face, Operations, limit_of, single, whole
from statemachine.errors import IdentityConflict, InvalidArgument, UniquenessConflict
from statemachine.kinds import Text, admit, canonical_json
from statemachine.machines import HolderKind, Notification, NotificationKind, NotificationStatus
from statemachine.machines.notification import FACTS, INDEX
from statemachine.outcome import Actor, Event, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from persistence.operation import Operation
    from statemachine.kinds import Row

_KEY = Text()


@frozen
class NotificationClaim:
    """A notification with the lease that lets its holder deliver it.

    Attributes:
        notification: The record when the lease was taken.

        token: The clear token, 32 bytes; only in memory, never in `repr`.
    """

    notification: Notification
    token: bytes = field(repr=False)

    @property
    def notification_id(self) -> str:
        """The notification's id."""
        return self.notification.notification_id

    @property
    def generation(self) -> int:
        """The fencing generation that the claim was given."""
        return self.notification.lease_generation

    @property
    def expires_at(self) -> datetime:
        """From this instant on, others may take it."""
        assert self.notification.lease_expires_at is not None, "a claim is of a leased record"
        return self.notification.lease_expires_at


class NotificationOperations(Operations):
    """Every operation of notifications, without I/O."""

    def enqueue(
        self,
        *,
        run_id: str,
        node_id: str,
        attempt_id: str,
        notification_index: int,
        target_session_id: str,
        kind: NotificationKind | str,
        content: str,
        notification_id: str | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[Notification]:
        """Put a message into a session's outbox.

        Args:
            run_id: A run id.

            node_id, attempt_id, target_session_id: Keys.

            notification_index: Counts the notifications of the attempt, from 1.

            kind: `progress` or `final`.

            content: 1 to 65,536 characters, once trimmed; without U+0000 and lone surrogates.

            notification_id: A key; None: derived from run, attempt and index.

            call: The call's id, kept over retries; minted when None.

            actor: Who calls; None: the store's.

        Returns:
            The record; the stored one where this index has this very notification already.

        Raises:
            InvalidArgument: Nothing was written.

            IdentityConflict: The index, or the id, has another notification; nothing was written.
        """
        given = {
            "notification_id": notification_id,
            "run_id": run_id,
            "node_id": node_id,
            "attempt_id": attempt_id,
            "notification_index": notification_index,
            "target_session_id": target_session_id,
            "kind": kind,
            "content": content,
        }
        if notification_id is None:
            given["notification_id"] = _derived(run_id, attempt_id, notification_index)
        params = self.program.machine.creation("enqueue").admission(given)
        made = self.engine.call_of(params, "", call, actor)
        row: Row
        try:
            row = yield from create(self.program, "enqueue", made, self.program.row)
        except UniquenessConflict as conflict:
            if not isinstance(conflict.blocker, Notification):
                raise
            row = yield from self._same(conflict.blocker.notification_id, params)
        return self._record(row)

    def _same(self, key: str, params: Row) -> Operation[Row]:
        """Return the notification that has the index, where it is the given one but for its id."""
        row, _ = yield from read(self.program, key)
        assert row is not None, "notifications are not deleted before they are delivered"
        differs = [c.name for c in FACTS if row[c.name] != params[c.name]]
        if differs:
            raise IdentityConflict(self.program.machine.name, key, differs)
        return row

    def claim_batch(
        self,
        session_id: str,
        *,
        holder: str,
        lease: timedelta,
        limit: int = DEFAULT_LIMIT,
        holder_kind: HolderKind | str = HolderKind.SESSION,
        token: bytes | None = None,
        call: str | None = None,
        actor: Actor | None = None,
    ) -> Operation[list[NotificationClaim]]:
        """Take the delivery of a session's oldest pending notifications, in one transaction.

        Args:
            session_id: Whose outbox.

            holder: Who delivers; a key.

            lease: How long the lease lasts, 1 ms to 100 years.

            limit: 1 to 100.

            holder_kind: `session` or `host`.

            token: 32 bytes, one for all of them; minted when None.

            call: The call's id; repeated with the same token, it takes nothing more.

            actor: Who calls; None: the holder.

        Returns:
            What this call took, by (created_at, notification_id).
        """
        token = mint(token)
        values = {**delivering(holder, lease, holder_kind, token), "session_id": session_id}
        rows = yield from take_batch(
            self.program,
            "claim_batch",
            self.admitted(self.program.machine.transition("claim").admission, values),
            engine=self.engine,
            actor=Actor(str(holder_kind), str(holder)) if actor is None else actor,
            call=call,
            limit=limit_of(limit, MAX_BATCH),
        )
        rows.sort(key=lambda row: (row["created_at"], row["notification_id"]))
        return [NotificationClaim(self._record(row), token) for row in rows]

    def mark_delivered(
        self, claim: NotificationClaim, *, call: str | None = None, actor: Actor | None = None
    ) -> Operation[Notification | Refused]:
        """Say that the notification reached its session.

        Args:
            claim: Held; its lease may have expired, as long as nobody has taken it.

            call: The call's id.

            actor: Who calls; None: the holder.
        """
        held = _claim(claim)
        values = _presented(held)
        key = held.notification_id
        return self.call("mark_delivered", key, values, self.program.moved, call=call, actor=actor)

    def verify(self, claim: NotificationClaim) -> Operation[bool]:
        """Tell whether the notification is pending, and held and live by this claim."""
        held = _claim(claim)
        key, shown = held.notification_id, _presented(held)
        return (yield from is_live(self.program, "mark_delivered", key, shown))

    def get(self, notification_id: str) -> Operation[Notification | None]:
        """Return a notification, or None."""
        row, _ = yield from read(self.program, self.key(notification_id))
        return None if row is None else self._record(row)

    def pending(
        self, session_id: str, *, limit: int = DEFAULT_LIMIT, after: str | None = None
    ) -> Operation[list[Notification]]:
        """List a session's pending notifications, oldest first, without claiming them.

        Args:
            session_id: Whose outbox.

            limit: 1 to 100.

            after: Continue behind this notification.
        """
        params: dict[str, object] = {
            "target_session_id": admit(_KEY, session_id, "session_id"),
            STATES_BIND: self.program.dialect.as_list([NotificationStatus.PENDING.value]),
            LIMIT_BIND: limit_of(limit, MAX_BATCH),
        }
        if after is not None:
            params[AFTER_BIND] = self.key(after, "after")
        wanted = Listing(("target_session_id",), states=True, after=after is not None)
        answer = yield Query(listing(self.program, wanted), params)
        return [self._record(self.program.row(row)) for row in answer.rows]

    def history(
        self, notification_id: str, *, after_revision: int = 0, limit: int = 100
    ) -> Operation[list[Event]]:
        """Return a notification's steps behind a revision, oldest first; `limit` 1 to 1,000."""
        return (yield from self.steps(notification_id, after_revision=after_revision, limit=limit))

    def _record(self, row: Row) -> Notification:
        record: Notification = self.program.record(row)
        return record


class Notifications(Face[NotificationOperations]):
    """A passive outbox: messages for a session, each delivered under a lease; it starts no turn."""

    enqueue = single(NotificationOperations.enqueue)
    claim_batch = whole(NotificationOperations.claim_batch)
    mark_delivered = single(NotificationOperations.mark_delivered)
    verify = single(NotificationOperations.verify)
    get = single(NotificationOperations.get)
    pending = single(NotificationOperations.pending)
    history = single(NotificationOperations.history)


def _derived(run_id: object, attempt_id: object, index: object) -> str:
    """Return the id of an attempt's notification; by id, those of one attempt follow its index."""
    count = admit(INDEX, index, "notification_index")
    text = canonical_json([run_id, attempt_id], "notification", 2**16)
    return f"notification:{hashlib.sha256(text.encode()).hexdigest()}:{count:016}"


def _claim(claim: object) -> NotificationClaim:
    if not isinstance(claim, NotificationClaim):
        raise InvalidArgument("claim", "a NotificationClaim, as a claiming call answered it")
    return claim


def _presented(claim: NotificationClaim) -> Mapping[str, object]:
    session = claim.notification.target_session_id
    return {"token": claim.token, "generation": claim.generation, "session_id": session}
