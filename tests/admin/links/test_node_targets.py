"""What operators want of a node is told over each of its sockets: once, and anew on a new one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tickwheel_admin.domain.executors.node import NodeTargets
from tickwheel_admin.links.hub import LinkHub
from tickwheel_shared.protocol import Drain, Message, SetSlots


class Socket:
    def __init__(self, told: NodeTargets) -> None:
        self.node_id, self.executor_id, self.token_hash = 7, 1, ""
        self.room: int | None = None
        self.is_open, self.heard, self.heartbeat = True, True, 1
        self.sent_targets = told
        self.admins: Sequence[str] = ()
        self.ended = asyncio.Event()
        self.sent: list[Message] = []

    def send(self, messages: Sequence[Message]) -> None:
        self.sent += messages

    def close(self, code: int, reason: str) -> None:
        raise AssertionError("nobody asked for that")

    def take(self) -> list[Message]:
        sent, self.sent = self.sent, []
        return sent


def test_a_wish_is_told_when_it_changes() -> None:
    hub, socket = LinkHub(), Socket(NodeTargets(slots=4, drain=None))
    hub.add(socket)
    hub.set_targets({7: NodeTargets(slots=4), 8: NodeTargets(slots=1)})
    assert socket.take() == [Drain(on=False)]  # an earlier socket may have said otherwise
    hub.set_targets({7: NodeTargets(slots=4)})
    assert socket.take() == []
    hub.set_targets({7: NodeTargets(slots=6, drain=True)})
    assert socket.take() == [SetSlots(slots=6), Drain(on=True)]
    hub.set_targets({7: NodeTargets(slots=None, drain=True)})
    assert socket.take() == []  # back to its own number at its next hello
    hub.set_targets({7: NodeTargets(slots=6, drain=False)})
    assert socket.take() == [SetSlots(slots=6), Drain(on=False)]


def test_a_socket_that_is_not_open_is_told_later() -> None:
    hub, socket = LinkHub(), Socket(NodeTargets(drain=None))
    socket.is_open = False
    hub.add(socket)
    hub.set_targets({7: NodeTargets(drain=True)})
    assert socket.take() == []
    socket.is_open = True
    hub.set_targets({7: NodeTargets(drain=True)})
    assert socket.take() == [Drain(on=True)]
