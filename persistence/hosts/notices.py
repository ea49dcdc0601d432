"""Delivering notifications to a session; they start no turn."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from persistence.stores.notifications import Notifications
    from statemachine.machines import Notification

LEASE = timedelta(seconds=30)


class Notices:
    """Delivers a session's notifications, oldest first.

    Args:
        notifications: The store's notifications.

        arrived: Tells whether the conversation shows a notification already.

        holder: Name of this host; a key.

        lease: How long the delivery of a batch may take.
    """

    def __init__(
        self,
        notifications: Notifications,
        arrived: Callable[[str], bool],
        *,
        holder: str,
        lease: timedelta = LEASE,
    ) -> None:
        self._notifications = notifications
        self._arrived = arrived
        self._holder = holder
        self._lease = lease

    def deliver(self, session_id: str, send: Callable[[Notification], None]) -> int:
        """Send what is pending, at most 20; return how many were sent.

        What a send did not take, and what was lost to another host meanwhile, is not sent here;
        it is pending again once the lease has run out.

        Args:
            session_id: Whose outbox.

            send: Puts a notification into the conversation before it returns.

        Raises:
            Exception: What `send` or `arrived` raised, or the store.
        """
        sent = 0
        for claim in self._notifications.claim_batch(
            session_id, holder=self._holder, lease=self._lease
        ):
            if not self._arrived(claim.notification_id):
                if not self._notifications.verify(claim):
                    continue
                send(claim.notification)
                sent += 1
            # Where this is refused, whoever holds it now finds it in the conversation.
            self._notifications.mark_delivered(claim)
        return sent
