"""A notification: a message of the outbox, its states, and when it is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tickwheel_admin.domain.alarms.message import Occasion

LEASE_MS = 120_000  # longer than a sender may take, with room for a slow commit
FIRST_PAUSE_MS = 1_000
MAX_PAUSE_MS = 3_600_000
GIVE_UP_MS = 86_400_000  # after the first attempt


class NotificationState(StrEnum):
    """Where a notification stands. The values are stored, and part of the API."""

    WAITING = "waiting"  # for its time, or for the next attempt
    SENDING = "sending"  # an admin claimed it under a lease
    DELIVERED = "delivered"
    DEAD = "dead"  # given up; a person can send it again


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A row of the outbox."""

    id: int
    channel_id: int
    executor_id: int  # whose alarms it groups; 0: of no executor
    message_id: str  # the same at each attempt
    state: NotificationState
    items: int
    due_at: int  # UTC ms, as all instants here
    attempts: int
    written_at: int
    first_at: int | None = None
    ended_at: int | None = None
    answer: str | None = None
    error: str | None = None
    claim_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationItem:
    """What a notification tells of one alarm."""

    channel_id: int
    alarm_id: int
    occasion: Occasion
    number: int  # counts repeats; 0 of all else
    notification_id: int


def pause_ms(attempts: int, *, asked_seconds: float | None = None) -> int:
    """How long to wait after an attempt that failed: 1 s, doubled up to an hour.

    Args:
        attempts: so far, at least 1.
        asked_seconds: the provider wants no message before that.
    """
    pause = min(FIRST_PAUSE_MS << min(attempts - 1, 30), MAX_PAUSE_MS)
    if asked_seconds is None:
        return pause
    return max(pause, min(round(max(asked_seconds, 0) * 1000), MAX_PAUSE_MS))
