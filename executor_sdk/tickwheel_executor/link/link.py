"""The connection to one admin: hello and welcome, heartbeats, frames, reconnecting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from random import Random
from typing import Protocol

from tickwheel_executor.errors import ConnectError, UnauthorizedError
from tickwheel_executor.version import SDK
from tickwheel_shared.protocol import (
    SPOKEN_VERSIONS,
    FrameError,
    FromAdmin,
    Heartbeat,
    HeartbeatAck,
    Hello,
    Message,
    Rejected,
    Welcome,
    decode_from_admin,
    encode_frames,
)

from .channel import AdminChannel, Connect

_logger = logging.getLogger("tickwheel.link")

CONNECT_SECONDS = 10.0
WELCOME_SECONDS = 10.0
MIN_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 15.0
FATAL_BACKOFF_SECONDS = 60.0  # after 401 or a fatal rejection, which only an operator can resolve
STABLE_SECONDS = 10.0  # after a socket that lived this long, the backoff starts again
_TWIN_POLL_SECONDS = 5.0
# Acceptances of several runs wait so long for messages to send with them, above all the results of
# runs that end at once: then the admin writes one change per run instead of two.
LINGER_SECONDS = 0.005
FEW = 16  # up to so many messages are sent at once


class LinkOwner(Protocol):
    """What a link needs from its node."""

    @property
    def in_use(self) -> int:
        """Number of attempts in flight, for heartbeats."""

    def hello(self) -> Hello:
        """The first message on every socket."""

    def successor_of(self, link: Link) -> Link | None:
        """A link to the same admin by another URL, which has just replaced this one."""

    def opening(self, link: Link, welcome: Welcome) -> Iterable[Message]:
        """The first messages on the new socket: results, then held."""

    def opened(self, link: Link) -> None:
        """The link accepts messages from now on."""

    def closed(self, link: Link) -> None:
        """The link is down; what was sent on it may not have arrived."""

    def acknowledged(self, sent_at: float) -> None:
        """An admin has committed a renewal of the lease, after a heartbeat sent at this time."""

    def receive(self, link: Link, message: FromAdmin) -> None:
        """Handle a message that the link does not handle itself."""


class _SocketEnd(Exception):
    """This socket has ended; `wait_seconds` until the next one, None: the usual backoff."""

    def __init__(self, reason: str, *, wait_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.wait_seconds = wait_seconds


class Link:
    """One admin, by URL. `run` connects, serves and reconnects until it is cancelled or closed."""

    def __init__(
        self, url: str, owner: LinkOwner, *, token: str, connect: Connect, random: Random
    ) -> None:
        self.url = url
        self.admin = ""  # name of the admin, known from its welcome
        self.welcomed_at = 0.0  # loop time
        self.hello_sent_at = 0.0  # loop time, of the newest socket
        self.is_open = False  # welcomed, and messages may be sent
        self.down_since: float | None = None  # loop time; None while it is up
        self.trouble = ""  # why the last attempt to connect, or the last socket, ended
        self.refused = False  # the admin refused, and only an operator can resolve that
        self.reported_at: float | None = None  # loop time when it was last logged as down
        self._owner = owner
        self._token = token
        self._connect = connect
        self._random = random
        self._channel: AdminChannel | None = None
        self._outbox: list[Message] = []
        self._patient = 0  # messages in the outbox that may wait for others
        self._lingers = False  # the writer is waiting for others
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._closing = False
        self._dead = False  # aborted: the channel must not be touched
        self._beats = 0
        self._beats_sent_at: dict[int, float] = {}  # heartbeats without acknowledgement
        self._beat_timer: asyncio.TimerHandle | None = None
        self._failures = 0
        self._twin: Link | None = None

    @property
    def complaint(self) -> str:
        """Why the admin cannot be reached; empty when it is open, or something else reports it."""
        return "" if self.is_open or self.refused or self._twin is not None else self.trouble

    def send(self, message: Message) -> None:
        """Queue a message; all messages of one turn of the loop are sent as one frame."""
        self._outbox.append(message)
        self._wake.set()

    def send_patiently(self, message: Message) -> None:
        """Queue a message that may wait up to 5 ms for others, if there are many like it."""
        self._outbox.append(message)
        self._patient += 1
        if not self._lingers:
            self._wake.set()

    def drop(self, reason: str) -> None:
        """Break the socket off, with everything buffered in it, and reconnect."""
        if self._channel is not None:
            _logger.warning("breaking off the connection to %s: %s", self.url, reason)
            self._channel.abort()

    async def close(self) -> None:
        """Send what is queued, close the socket gracefully, and do not reconnect."""
        self._closing = True
        if self._beat_timer is not None:
            self._beat_timer.cancel()  # nothing comes after goodbye
        self._wake.set()
        channel = self._channel
        if channel is not None and not self.is_open:
            await channel.close()

    def abort(self, *, break_channel: bool) -> None:
        """Stop at once: send nothing, not even what is queued, and call nobody."""
        if break_channel and self._channel is not None:
            self._channel.abort()
        self._dead = self._closing = True
        self.is_open = False
        self._went_down()

    async def run(self) -> None:
        """Keep a socket to the admin open until `close`."""
        loop = asyncio.get_running_loop()
        self.down_since = loop.time()
        while not self._closing:
            started_at = loop.time()
            wait: float | None = None
            try:
                await self._wait_for_twin()
                await self._serve(await self._open_channel())
            except _SocketEnd as end:
                reason, wait = str(end), end.wait_seconds
            except UnauthorizedError as error:
                reason, wait = str(error), FATAL_BACKOFF_SECONDS
                self._log_unauthorized(error)
            except ConnectError as error:
                reason = str(error)
            except Exception as error:
                # A bug in the handling of one message must not end the link for ever.
                _logger.exception("the link to %s failed", self.url)
                reason = f"{type(error).__name__}: {error}"
            if self._closing:
                return
            if loop.time() - started_at >= STABLE_SECONDS:
                self._failures = 0
            self.trouble, self.refused = reason, wait is not None
            self._log_down(loop.time())
            await asyncio.sleep(self._backoff() if wait is None else wait)

    # --- one socket -------------------------------------------------------------------------------

    async def _open_channel(self) -> AdminChannel:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._connect(self.url, self._token)
        except TimeoutError:
            raise ConnectError(f"no connection within {CONNECT_SECONDS:.0f} s") from None

    async def _serve(self, channel: AdminChannel) -> None:
        self._channel = channel
        try:
            rest = await self._greet(channel)
            self._writer = asyncio.get_running_loop().create_task(
                self._write(channel), name=f"tickwheel writer {self.url}"
            )
            self._owner.opened(self)
            for message in rest:
                self._handle(message)
            while (frame := await channel.receive()) is not None:
                for message in decode_from_admin(frame):
                    self._handle(message)
            raise ConnectError(channel.close_reason or "the connection broke")
        except FrameError as error:
            _logger.error("a frame from %s breaks the protocol: %s", self.url, error)
            self._went_down()
            await channel.close(1008, str(error))
            raise ConnectError(f"a frame breaks the protocol: {error}") from error
        except asyncio.CancelledError:
            if not self._dead:
                channel.abort()
            raise
        except _SocketEnd as end:
            self._went_down()
            await channel.close(1000, str(end))
            raise
        finally:
            self._went_down()

    async def _greet(self, channel: AdminChannel) -> list[FromAdmin]:
        """Send hello, wait for welcome, queue the opening; returns what came after welcome."""
        self.hello_sent_at = asyncio.get_running_loop().time()
        for frame in encode_frames([self._owner.hello()]):
            await channel.send(frame)
        try:
            async with asyncio.timeout(WELCOME_SECONDS):
                frame_in = await channel.receive()
        except TimeoutError:
            raise _SocketEnd(f"no welcome within {WELCOME_SECONDS:.0f} s") from None
        if frame_in is None:
            raise ConnectError(channel.close_reason or "closed before welcome")
        messages = decode_from_admin(frame_in)
        first = messages[0] if messages else None
        if isinstance(first, Rejected):
            self._rejected(first)
        if not isinstance(first, Welcome):
            raise FrameError("the first message is not welcome")
        self._welcomed(first)
        return messages[1:]

    def _welcomed(self, welcome: Welcome) -> None:
        if welcome.version not in SPOKEN_VERSIONS:
            raise FrameError(f"welcome names version {welcome.version}, which was not offered")
        if welcome.heartbeat_ms <= 0 or welcome.lease_ms <= 0:
            raise FrameError("welcome: heartbeat_ms and lease_ms must be positive")
        self.admin = welcome.admin
        self.welcomed_at = asyncio.get_running_loop().time()
        self._outbox, self._patient = list(self._owner.opening(self, welcome)), 0
        self._wake.set()
        self.is_open = True
        self.down_since = self.reported_at = None
        self.trouble, self.refused = "", False
        self._beats = 0
        self._beats_sent_at = {}
        self._beat(welcome.heartbeat_ms / 1000)
        _logger.info("connected to admin %s at %s", welcome.admin, self.url)

    def _rejected(self, message: Rejected) -> None:
        if message.fatal:
            _logger.error(
                "admin %s rejects this node (%s): %s [%s]",
                self.url,
                message.code,
                message.message,
                SDK,
            )
        raise _SocketEnd(
            f"rejected ({message.code}): {message.message}",
            wait_seconds=FATAL_BACKOFF_SECONDS if message.fatal else None,
        )

    def _handle(self, message: FromAdmin) -> None:
        if isinstance(message, HeartbeatAck):
            self._acknowledged(message.seq)
        elif isinstance(message, Rejected):
            self._rejected(message)
        elif isinstance(message, Welcome):
            raise FrameError("a second welcome")
        else:
            self._owner.receive(self, message)

    def _acknowledged(self, seq: int) -> None:
        # The time of sending counts: an acknowledgement that waited in a buffer while this process
        # was suspended says nothing about now.
        sent_at = self._beats_sent_at.get(seq)
        if sent_at is not None:
            for older in [beat for beat in self._beats_sent_at if beat <= seq]:
                del self._beats_sent_at[older]
            self._owner.acknowledged(sent_at)

    def _beat(self, every_seconds: float) -> None:
        self._beats += 1
        self.send(Heartbeat(seq=self._beats, in_use=self._owner.in_use))
        loop = asyncio.get_running_loop()
        self._beats_sent_at[self._beats] = loop.time()
        self._beat_timer = loop.call_later(every_seconds, self._beat, every_seconds)

    async def _write(self, channel: AdminChannel) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if len(self._outbox) == self._patient > FEW and not self._closing:
                    await self._linger()
                messages, self._outbox, self._patient = self._outbox, [], 0
                for frame in encode_frames(messages):
                    await channel.send(frame)
                if self._closing and not self._outbox:
                    await channel.close(1000, "the node is going away")
                    return
        except ConnectError:
            channel.abort()  # so that the reader ends too, and `run` reconnects

    async def _linger(self) -> None:
        """Wait a moment for a message that cannot wait itself."""
        self._lingers = True
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            self._lingers = False
        self._wake.clear()

    def _went_down(self) -> None:
        """Forget the socket, once. Sends and awaits nothing, so it also works when cancelled."""
        was_open, self.is_open = self.is_open, False
        self._channel = None
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        if self._writer is not None:
            self._writer.cancel()
        self._outbox, self._patient = [], 0
        if was_open:
            self.down_since = asyncio.get_running_loop().time()
            self._twin = self._owner.successor_of(self)
            self._owner.closed(self)

    # --- between sockets --------------------------------------------------------------------------

    async def _wait_for_twin(self) -> None:
        """Two URLs of one admin: it keeps only the newer socket, so do not compete for it."""
        while self._twin is not None and self._twin.is_open:  # noqa: ASYNC110 (rare and slow)
            await asyncio.sleep(_TWIN_POLL_SECONDS)
        self._twin = None

    def _backoff(self) -> float:
        """Half to all of 1, 2, 4, 8, 15 seconds, so that nodes do not reconnect in step."""
        ceiling = min(MAX_BACKOFF_SECONDS, 2 * MIN_BACKOFF_SECONDS * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        return self._random.uniform(max(MIN_BACKOFF_SECONDS, ceiling / 2), ceiling)

    def _log_unauthorized(self, error: UnauthorizedError) -> None:
        _logger.error(
            "admin %s does not accept the executor token (%s). Check that the token (argument "
            "`token` or TICKWHEEL_TOKEN) is the one shown when the executor was made, that it was "
            "not revoked, and that this is the right admin",
            self.url,
            error,
        )

    def _log_down(self, now: float) -> None:
        if self.reported_at is None and self.complaint:
            self.reported_at = now  # from now on AdminLinks logs it once a minute
            _logger.warning("admin %s: %s; trying again until it answers", self.url, self.trouble)
        else:
            _logger.debug("admin %s: %s; trying again", self.url, self.trouble)
