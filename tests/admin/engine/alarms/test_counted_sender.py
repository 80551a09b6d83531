"""Attempts to deliver a message are counted by what came of them."""

from __future__ import annotations

import pytest

from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.domain.alarms.message import AlarmMessage
from tickwheel_admin.engine.alarms.counted_sender import CountedSender
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered


class Provider:
    """Answers as it is told."""

    def __init__(self, answer: Delivered | Undelivered) -> None:
        self._answer = answer

    async def send(self, channel: Channel, message: AlarmMessage) -> Delivered | Undelivered:
        return self._answer


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [(Delivered(answer="ok"), "delivered"), (Undelivered(why="away"), "failed")],
)
async def test_an_attempt_is_counted(answer: Delivered | Undelivered, outcome: str) -> None:
    counted: list[str] = []
    sender = CountedSender(Provider(answer), counted.append)

    assert await sender.send(None, None) is answer  # type: ignore[arg-type]
    assert counted == [outcome]
