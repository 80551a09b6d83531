"""All ways to nodes that this admin has, as the engine sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tickwheel_admin.domain.executors.node import NodeTargets
from tickwheel_admin.engine.ports import ClaimTime, NodeSocket
from tickwheel_admin.links.frame_budget import FrameBudget
from tickwheel_shared.protocol import Admins, Drain, HeartbeatAck, Message, RunRequest, SetSlots


class LinkHub:
    """Node id → its newest session here. Used from the event loop's thread only."""

    def __init__(self) -> None:
        self._sessions: dict[int, NodeSocket] = {}
        # Executor by node, of open sessions: read with every claim, so not collected from
        # thousands of sessions each time.
        self._connected: dict[int, int] = {}
        self._limited: dict[int, NodeSocket] = {}  # those of the connected that have a `room`
        self.frames = FrameBudget()

    def add(self, session: NodeSocket) -> NodeSocket | None:
        """Make this the node's session; returns the one it replaces."""
        replaced = self._sessions.get(session.node_id)
        self._sessions[session.node_id] = session
        self.update(session)
        return replaced

    def remove(self, session: NodeSocket) -> None:
        """Forget the session, unless a newer one replaced it."""
        if self._sessions.get(session.node_id) is session:
            del self._sessions[session.node_id]
            self._connected.pop(session.node_id, None)
            self._limited.pop(session.node_id, None)

    def update(self, session: NodeSocket) -> None:
        """`is_open` of the session has changed, or whether it has a `room`."""
        if self._sessions.get(session.node_id) is not session:
            return
        if session.is_open:
            self._connected[session.node_id] = session.executor_id
        else:
            self._connected.pop(session.node_id, None)
        if session.is_open and session.room is not None:
            self._limited[session.node_id] = session
        else:
            self._limited.pop(session.node_id, None)

    def connected(self) -> Mapping[int, int]:
        return MappingProxyType(self._connected)

    def rooms(self) -> Mapping[int, int]:
        return {
            node_id: session.room
            for node_id, session in self._limited.items()
            if session.room is not None
        }

    def heartbeats(self) -> Mapping[int, int]:
        return {
            node_id: session.heartbeat
            for node_id, session in self._sessions.items()
            if session.heard
        }

    def tokens(self) -> Mapping[int, str]:
        return {node_id: session.token_hash for node_id, session in self._sessions.items()}

    def send(self, node_id: int, messages: Sequence[Message]) -> bool:
        session = self._sessions.get(node_id)
        if session is None or not session.is_open:
            return False
        session.send(messages)
        return True

    def start(self, node_id: int, requests: Sequence[RunRequest], claim: ClaimTime) -> bool:
        session = self._sessions.get(node_id)
        if session is None or not session.is_open:
            return False
        session.start(requests, claim)
        return True

    def set_targets(self, targets: Mapping[int, NodeTargets]) -> None:
        for node_id, wanted in targets.items():
            session = self._sessions.get(node_id)
            if session is None or not session.is_open or session.sent_targets == wanted:
                continue
            messages: list[Message] = []
            if wanted.slots is not None and wanted.slots != session.sent_targets.slots:
                messages.append(SetSlots(slots=wanted.slots))
            if wanted.drain is not None and wanted.drain != session.sent_targets.drain:
                messages.append(Drain(on=wanted.drain))
            session.sent_targets = wanted
            session.send(messages)

    def announce_admins(self, urls: Sequence[str]) -> None:
        for session in self._sessions.values():
            if session.admins != urls:
                session.admins = urls
                session.send([Admins(urls=list(urls))])

    def acknowledge(self, renewed: Mapping[int, int]) -> None:
        for node_id, seq in renewed.items():
            session = self._sessions.get(node_id)
            if session is not None:
                session.heard = session.heartbeat > seq
                session.send([HeartbeatAck(seq=seq)])

    def disconnect(self, node_id: int, reason: str) -> None:
        session = self._sessions.get(node_id)
        if session is not None:
            session.close(1001, reason)

    async def close_all(self, reason: str) -> None:
        """Flush and close every socket; the nodes keep their runs and connect elsewhere."""
        sessions = list(self._sessions.values())
        for session in sessions:
            session.close(1001, reason)
        await asyncio.gather(*(session.ended.wait() for session in sessions))
