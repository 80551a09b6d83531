"""One socket to one node, from hello to the close (PROTOCOL.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import structlog

from tickwheel_admin.domain.errors import Unavailable
from tickwheel_admin.domain.executors.node import HEARTBEAT_MS, LEASE_MS, NodeTargets
from tickwheel_admin.domain.input.node_manifest import NodeManifest
from tickwheel_admin.engine.membership.membership import AdmittedNode, Membership
from tickwheel_admin.engine.ports import ClaimTime
from tickwheel_admin.engine.recorder.loop import Recorder
from tickwheel_admin.links.channel import NodeChannel
from tickwheel_admin.links.cleaning import clean
from tickwheel_admin.links.frame_budget import LOOK_SECONDS
from tickwheel_admin.links.hello import arrival_of, manifest_of, refusal_of
from tickwheel_admin.links.hub import LinkHub
from tickwheel_shared.protocol import (
    MAX_SLOTS,
    PROTOCOL_VERSION,
    Draining,
    FrameError,
    FromNode,
    Goodbye,
    Heartbeat,
    Held,
    Hello,
    Level,
    Message,
    Notice,
    RunRequest,
    Welcome,
    agree_version,
    decode_from_node,
    encode_frames,
    for_version,
)

log = structlog.get_logger(__name__)

HELLO_SECONDS = 10.0
LOOK_AGAIN_SECONDS = 5.0  # after the database did not answer
FLUSH_SECONDS = 2.0  # for what is queued when the socket is closed
MESSAGES_AT_ONCE = 500  # of a frame, before other tasks run
MAX_UNREAD = 5_000  # answers that a node has not read, before its next messages are read
MAX_QUEUED = 50_000  # messages to a node that does not read; then it is cut off


class NodeSession:
    """Passes what the node sends to the recorder, and sends what the engine has for the node."""

    def __init__(
        self,
        channel: NodeChannel,
        *,
        executor_id: int,
        executor_name: str,
        token_hash: str,
        address: str,
        hub: LinkHub,
        membership: Membership,
        recorder: Recorder,
    ) -> None:
        self.node_id = 0  # known after hello
        self.version = PROTOCOL_VERSION  # agreed in hello
        self.executor_id = executor_id
        self.token_hash = token_hash  # a revoked token ends the socket
        self.is_open = False  # may be given runs: what it held is recorded
        self.room: int | None = None  # it tells us itself when it is full
        self.heard = False  # something came since the last renewal of its lease
        self.heartbeat = 0  # sequence of its latest heartbeat
        self.sent_targets = NodeTargets()  # what operators want of it, as last sent
        self.admins: Sequence[str] = ()  # base URLs of live ones, as last sent
        self.ended = asyncio.Event()
        self._executor_name = executor_name
        self._address = address
        self._channel = channel
        self._hub = hub
        self._membership = membership
        self._recorder = recorder
        self._outbox: list[Message] = []
        self._outbox_filled = asyncio.Event()
        self._written = asyncio.Event()  # something left the outbox
        self._write_ended = False
        self._close: tuple[int, str] | None = None
        self._manifest_task: asyncio.Task[None] | None = None  # at what the node says of its code

    def send(self, messages: Sequence[Message]) -> None:
        """Queue messages; all that are queued when the writer runs leave in one frame."""
        if self.version != PROTOCOL_VERSION:
            messages = [for_version(message, self.version) for message in messages]
        self._outbox += messages
        if len(self._outbox) > MAX_QUEUED:
            self._outbox.clear()
            self.close(1013, "the node does not read")
        self._outbox_filled.set()

    def start(self, requests: Sequence[RunRequest], claim: ClaimTime) -> None:
        """Queue the runs of one claim."""
        self.send(requests)

    def opened(self) -> None:
        """The node may be sent runs from now on."""
        if self._close is not None:
            return  # what it held was recorded while it was being closed
        self.is_open = True
        self._hub.update(self)
        self._membership.opened()

    def close(self, code: int, reason: str) -> None:
        """Send what is queued, then close."""
        self._shut()
        if self._close is None:
            self._close = (code, reason)
        self._outbox_filled.set()

    def _shut(self) -> None:
        self.is_open = False
        self._hub.update(self)

    async def serve(self) -> None:
        """Talk to the node until either side closes."""
        writer = asyncio.create_task(self._write(), name="node-writer")
        try:
            await self._converse()
        except FrameError as error:
            log.warning("link.bad_frame", node_id=self.node_id, reason=str(error))
            self.close(1008, str(error))
        except ConnectionResetError as error:
            log.warning("link.gone", node_id=self.node_id, reason=str(error))
        except Unavailable:
            self.close(1013, "the database does not answer")
        finally:
            self._shut()
            if self._close is None:
                self._close = (1000, "")
            self._outbox_filled.set()
            await self._flush(writer)
            self._hub.remove(self)
            self.ended.set()

    async def _converse(self) -> None:
        admitted = await self._greet()
        if admitted is None:
            return
        try:
            while (frame := await self._receive()) is not None:
                self.heard = True
                async with self._room_for(frame):
                    await self._take(decode_from_node(frame))
        finally:
            self._shut()
            self._hub.remove(self)
            self._recorder.disconnected(self)
            if self._manifest_task is not None:
                self._manifest_task.cancel()
                await asyncio.gather(self._manifest_task, return_exceptions=True)
            await self._membership.disconnected(
                node_id=self.node_id, session_id=admitted.session_id
            )
            log.info("node.disconnected", node_id=self.node_id)

    async def _greet(self) -> AdmittedNode | None:
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                frame = await self._receive()
        except TimeoutError:
            self.close(1008, "no hello within 10 s")
            return None
        if frame is None:
            return None
        async with self._room_for(frame):
            return await self._greeted(decode_from_node(frame))

    async def _greeted(self, messages: Sequence[FromNode]) -> AdmittedNode | None:
        if not messages:
            return None
        hello = messages[0]
        if not isinstance(hello, Hello):
            raise FrameError("the first message must be hello")
        refusal = refusal_of(hello, executor_name=self._executor_name)
        if refusal is not None:
            log.warning("node.rejected", code=refusal.code, name=hello.name)
            self.send([refusal])
            self.close(1008, refusal.code)
            return None
        self.version = agree_version(hello.versions) or PROTOCOL_VERSION
        arrival = arrival_of(hello, executor_id=self.executor_id, address=self._address)
        admitted = await self._membership.admit(arrival)
        self.node_id = admitted.node_id
        # The node keeps what any admin sent it last, which may be outdated.
        self.sent_targets = NodeTargets(slots=admitted.slots, drain=None)
        self.admins = admitted.admins
        self.heard = True
        replaced = self._hub.add(self)
        if replaced is not None:
            replaced.close(1001, "a newer socket of the same node")
        log.info("node.connected", node_id=self.node_id, name=hello.name, sdk=hello.sdk)
        self.send([self._welcome(admitted), *admitted.notices])
        if not admitted.manifest_is_read:
            # In a task of its own: an error in it must not keep the node from its work.
            self._manifest_task = asyncio.create_task(
                self._read_manifest(admitted, manifest_of(hello)), name="node-code"
            )
        if len(messages) > 1:
            await self._take(messages[1:])
        return admitted

    def _welcome(self, admitted: AdmittedNode) -> Welcome:
        return Welcome(
            version=self.version,
            node_id=admitted.node_id,
            admin=self._membership.name,
            admins=admitted.admins,
            heartbeat_ms=HEARTBEAT_MS,
            lease_ms=LEASE_MS,
            slots=admitted.slots,
        )

    async def _read_manifest(self, admitted: AdmittedNode, said: NodeManifest) -> None:
        while True:
            try:
                self.send(await self._membership.read_manifest(admitted, said))
                return
            except Unavailable:
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
            except Exception:  # whatever a declaration causes, the node is served
                log.exception("node.code_not_taken", node_id=self.node_id)
                text = "what this node declares in its code was not taken in; see the admin's log"
                self.send([Notice(level=Level.ERROR, text=text)])
                return

    async def _receive(self) -> bytes | str | None:
        frame = await self._channel.receive()
        return None if self._close is not None else frame

    async def _take(self, messages: Sequence[FromNode]) -> None:
        """Hand messages to the recorder in pieces: a frame may hold many thousands."""
        said: set[type[FromNode]] = set()
        for begin in range(0, len(messages), MESSAGES_AT_ONCE):
            if begin:
                await asyncio.sleep(0)  # let other tasks run
            await self._take_some(messages[begin : begin + MESSAGES_AT_ONCE], said)

    async def _take_some(self, messages: Sequence[FromNode], said: set[type[FromNode]]) -> None:
        for_recorder: list[FromNode] = []
        for message in messages:
            match message:
                case Hello():
                    raise FrameError("hello came twice")
                case Heartbeat():
                    self.heartbeat = message.seq
                case Draining() | Goodbye() if type(message) in said:
                    pass  # each costs a transaction; a second one in the same frame is redundant
                case Draining():
                    said.add(Draining)
                    await self._membership.drain(node_id=self.node_id, draining=True)
                case Goodbye():
                    said.add(Goodbye)
                    await self._membership.goodbye(node_id=self.node_id)
                case Held() if len(message.runs) > MAX_SLOTS:
                    # Not the slots of this hello: they may have been lowered while runs go on.
                    raise FrameError(f"held: no node has more than {MAX_SLOTS} slots")
                case _:
                    cleaned = clean(message)
                    if cleaned is not None:
                        for_recorder.append(cleaned)
                    elif type(message) not in said:
                        # If this closed the socket, the node would send it again on the next one.
                        said.add(type(message))
                        name = type(message).__name__
                        log.warning("report.unstorable", type=name, node_id=self.node_id)
        while len(self._outbox) > MAX_UNREAD and not self._write_ended:
            # It does not read its answers: then its messages are not read either.
            self._written.clear()
            await self._written.wait()
        if for_recorder:
            # If the recorder cannot keep up, the node waits, and the memory does not fill.
            await self._recorders_room()
            self._recorder.receive(self, for_recorder)

    def _room_for(self, frame: bytes | str) -> AbstractAsyncContextManager[None]:
        return self._hub.frames.reserved(self.executor_id, len(frame), is_gone=self._is_gone)

    async def _recorders_room(self) -> None:
        """Wait for room, but not once the socket is closed: the node sends it again on the next.

        A node that sends more than is recorded, and reconnects, must not fill the memory.
        """
        while not self._recorder.has_room(self):
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._recorder.room(self)
            except TimeoutError:
                if self._is_gone():
                    raise ConnectionResetError("gone while it waited to be recorded") from None

    def _is_gone(self) -> bool:
        return self._channel.is_gone

    async def _write(self) -> None:
        try:
            while True:
                await self._outbox_filled.wait()
                self._outbox_filled.clear()
                messages, self._outbox = self._outbox, []
                for frame in encode_frames(messages):
                    await self._channel.send(frame)
                self._written.set()
                if self._close is not None and not self._outbox:
                    await self._channel.close(*self._close)
                    return
        except (ConnectionError, RuntimeError):
            return  # closed by the other end; the reader notices it too
        finally:
            self._write_ended = True
            self._written.set()

    async def _flush(self, writer: asyncio.Task[None]) -> None:
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await asyncio.shield(writer)
        except TimeoutError:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
