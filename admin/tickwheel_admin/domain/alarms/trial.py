"""The message by which somebody tries a channel."""

from __future__ import annotations

from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.message import AlarmEntry, AlarmMessage, Occasion


def trial_message(
    message_id: str, *, installation: str, link: str, now: int, by: str
) -> AlarmMessage:
    """A message that tells of no alarm.

    Args:
        message_id: as of every message.
        link: absolute URL of the page about the channel.
        now: UTC ms.
        by: who tries it.
    """
    return AlarmMessage(
        id=message_id,
        written_at=now,
        installation=installation,
        entries=(
            AlarmEntry(
                alarm_id=0,
                occasion=Occasion.TEST,
                kind=AlarmKind.FAILED,
                severity=Severity.WARNING,
                template="%(user)s tries this channel. Alarms will look like this message.",
                params={"user": by},
                since=now,
                last_at=now,
            ),
        ),
        covered=1,
        link=link,
    )
