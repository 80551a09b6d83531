"""The core of the SDK: one node, assembled from its parts.

Every dependency is injected, so that the simulator can run several nodes in one process, in virtual
time:

    node = Node(
        NodeSettings(executor="billing", admins=("http://a1",), token="…", name="n1", slots=4),
        handlers,                       # Handlers; only async ones where threads are not available
        connect=connect,                # (base URL, token) → AdminChannel
        spool=spool,                    # Spool; outlives the node, as a disk does
        clock=lambda: wall_ms,          # UTC epoch ms, for display only
        random=random.Random(seed),     # node key, jitter, choice of a link
    )
    await node.start()                  # returns at once; links connect in the background
    await node.drain(grace_seconds)     # as SIGTERM: finish, deliver, say goodbye, end
    node.abort()                        # as kill -9: all tasks are cancelled, nothing is sent

All time is the loop's (`time`, `call_at`, `call_later`, `asyncio.sleep`, `asyncio.timeout`). No
part iterates over a set, and only plain `def` handlers start threads. `abort` does not close the
channels: as with a killed process, the other end notices through the transport. A handler sees the
abort as CancelledError; what it does then counts as done after the death of its process.

The way of a run: a Link reads the request, RunAdmission accepts or refuses it, InFlightAttempts
runs its handler, ResultDelivery writes the result to the spool and sends it until a receipt comes,
and RunAdmission remembers the outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextvars import copy_context
from random import Random
from typing import TYPE_CHECKING, Any

from tickwheel_executor.attempt_key import Key
from tickwheel_executor.attempts.admission import RunAdmission
from tickwheel_executor.attempts.counts import AttemptCounts
from tickwheel_executor.attempts.in_flight import InFlightAttempts
from tickwheel_executor.attempts.slots import Slots
from tickwheel_executor.errors import SpoolError
from tickwheel_executor.handlers.handlers import Handlers
from tickwheel_executor.link.channel import Connect
from tickwheel_executor.link.link import Link
from tickwheel_executor.link.links import AdminLinks
from tickwheel_executor.logs.shipper import LogShipper
from tickwheel_executor.settings import NodeSettings
from tickwheel_executor.spool.delivery import ResultDelivery
from tickwheel_executor.spool.spool import Spool
from tickwheel_executor.version import SDK
from tickwheel_shared.protocol import (
    SPOKEN_VERSIONS,
    Admins,
    Cancel,
    Drain,
    Draining,
    FromAdmin,
    Held,
    Hello,
    LogReceipt,
    Message,
    Notice,
    Progress,
    Query,
    Result,
    ResultReceipt,
    RunRequest,
    SetSlots,
    Welcome,
)

from .metrics import NodeMetrics
from .shutdown import Shutdown

if TYPE_CHECKING:
    from tickwheel_executor.tracing.spans import AttemptTracer

_logger = logging.getLogger("tickwheel.node")

CLOSE_SECONDS = 3.0
_CHECK_SECONDS = 1.0
_ADOPT_SECONDS = 30.0


class Node:
    """One node of an executor. Implements LinkOwner for its links."""

    def __init__(
        self,
        settings: NodeSettings,
        handlers: Handlers,
        *,
        connect: Connect,
        spool: Spool,
        clock: Callable[[], int],
        random: Random,
        on_progress: Callable[[Progress], None] | None = None,
        tracer: AttemptTracer | None = None,
    ) -> None:
        self._tracer = tracer
        self.key = f"{random.getrandbits(128):032x}"
        self._settings = settings
        self._handlers = handlers
        self._spool = spool
        self._clock = clock
        self._on_progress = on_progress
        self._slots = Slots(settings.slots)
        self._counts = AttemptCounts()
        self._started = False
        self._stopped = False
        self._background: list[asyncio.Task[None]] = []
        self._links = AdminLinks(
            settings.admins, self, token=settings.token, connect=connect, random=random
        )

    # --- start and end ----------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the spool and start to connect.

        Raises:
            SpoolError: the spool cannot be used.
        """
        self._handlers.close()
        self._put_together()
        self._started = True
        await self._spool.open()
        await self._delivery.adopt()
        if self._stopped:  # aborted meanwhile
            return
        for part in (self._delivery.run, self._watch):
            self._background.append(
                self._loop.create_task(_forever(part), name=f"tickwheel {part.__name__}")
            )
        name = self._settings.name
        self._in_flight.warm_up(
            self._handlers,
            title=f"node {name}",
            traces_as=None if self._tracer is None else (self._settings.executor, name),
        )
        self._links.start()

    def _put_together(self) -> None:
        """Create the parts that need the running loop."""
        self._loop = asyncio.get_running_loop()
        context = copy_context()
        self._delivery = ResultDelivery(
            self._spool, self._links, on_handled=self._handled, on_receipt=self._receipted
        )
        self._shipper = LogShipper(
            self._links, self._clock, context=context, max_log_mb=self._settings.max_log_mb
        )
        self._shutdown = Shutdown(self._links, self._delivery, self._shipper)
        self._in_flight = InFlightAttempts(
            links=self._links,
            delivery=self._delivery,
            shipper=self._shipper,
            slots=self._slots,
            context=context,
            clock=self._clock,
            on_change=self._shutdown.changed,
            on_progress=self._on_progress,
            tracer=self._tracer,
            counts=self._counts,
        )
        self._admission = RunAdmission(
            handlers=self._handlers,
            in_flight=self._in_flight,
            delivery=self._delivery,
            links=self._links,
            slots=self._slots,
            counts=self._counts,
        )
        self._receivers: dict[type, Callable[[Link, Any], None]] = {
            RunRequest: self._admission.on_run,
            Query: self._admission.on_query,
            Cancel: self._admission.on_cancel,
            Drain: self._admission.on_drain,
            SetSlots: self._admission.on_slots,
            Notice: _on_notice,
            Admins: lambda _, message: self._links.learn(message.urls),
            ResultReceipt: lambda _, message: self._delivery.receipt(message),
            LogReceipt: self._on_log_receipt,
        }

    async def drain(self, grace_seconds: float) -> bool:
        """Accept no more runs, finish those in flight, deliver their results and end.

        Handlers that still run after `grace_seconds` are cancelled and reported as failed. Returns
        whether nothing was left behind: no handler that did not end, no result only in memory.
        """
        self._admission.leaving = True
        clean = await self._shutdown.finish(self._in_flight, grace_seconds)
        self._end()
        await self._links.close(CLOSE_SECONDS)
        await asyncio.gather(*self._background, return_exceptions=True)
        try:
            await self._spool.close()
        except SpoolError as error:
            # Its contents are safe and are adopted by the next process; only the clean-up failed.
            _logger.warning("the spool could not be tidied up: %s", error)
        return clean

    async def until_refused(self) -> str:
        """Wait until every configured admin has refused this node and none welcomed it; why."""
        return await self._links.until_refused()

    def abort(self, *, break_channels: bool = False) -> None:
        """End at once, like a killed process: cancel everything, send nothing.

        The channels stay open unless `break_channels`, for a process that continues.
        """
        self._end()
        self._links.abort(break_channels=break_channels)

    def _end(self) -> None:
        self._stopped = True
        if not self._started:
            return
        for part in self._background:
            part.cancel()
        self._in_flight.abandon()
        self._shipper.release_all()

    async def _watch(self) -> None:
        """Periodic checks: the lease, resending, results of processes that died."""
        adopt_at = self._loop.time() + _ADOPT_SECONDS
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            now = self._loop.time()
            self._links.check(now)
            self._delivery.check(now)
            self._shipper.resend_overdue(now)
            if now >= adopt_at:
                adopt_at = now + _ADOPT_SECONDS
                await self._delivery.adopt()

    def metrics(self) -> NodeMetrics:
        """Numbers of this moment; threads may ask, too."""
        counts = self._counts
        return NodeMetrics(
            started=counts.started,
            ended={str(outcome): number for outcome, number in counts.ended.items()},
            ended_seconds=counts.seconds,
            refused={str(reason): number for reason, number in counts.refused.items()},
            running=self._slots.in_use,
            slots=self._slots.capacity,
            unreported=len(self._delivery) if self._started else 0,
            spool_works=not (self._started and self._delivery.trouble),
            admins=self._links.states(),
        )

    # --- LinkOwner --------------------------------------------------------------------------------

    @property
    def in_use(self) -> int:
        """Slots in use."""
        return self._slots.in_use

    def hello(self) -> Hello:
        """The hello message."""
        settings = self._settings
        return Hello(
            versions=list(SPOKEN_VERSIONS),
            executor=settings.executor,
            node_key=self.key,
            name=settings.name,
            sdk=SDK,
            slots=settings.slots,
            handlers=list(self._handlers),
            unstoppable=self._handlers.unstoppable,
            labels=dict(settings.labels),
            weight=settings.weight,
            schemas=self._handlers.schemas,
            jobs=self._handlers.declared,
            clock=self._clock(),
        )

    def successor_of(self, link: Link) -> Link | None:
        """A link that has just replaced this one."""
        return self._links.successor_of(link, self._loop.time())

    def opening(self, link: Link, welcome: Welcome) -> Iterable[Message]:
        """Results without receipt, then the attempts in flight."""
        self._slots.resize(welcome.slots)
        self._links.welcomed(welcome, link.hello_sent_at)
        self._in_flight.welcomed()
        yield from self._delivery.opening(link)
        yield Held(runs=self._in_flight.names())
        if self._admission.leaving:
            yield Draining()

    def opened(self, link: Link) -> None:
        """Log lines and checkpoints may be sent."""
        self._shipper.opened(link)
        self._in_flight.opened(link)

    def closed(self, link: Link) -> None:
        """Log lines and checkpoints go to another link; results are resent when overdue."""
        if not self._stopped:
            self._shipper.closed(link)
            self._in_flight.closed(link)

    def acknowledged(self, sent_at: float) -> None:
        """The lease was renewed, after a heartbeat sent at this time."""
        self._links.acknowledged(sent_at)
        self._in_flight.acknowledged()

    def receive(self, link: Link, message: FromAdmin) -> None:
        """Handle a message."""
        self._receivers[type(message)](link, message)

    # --- callbacks of the parts -------------------------------------------------------------------

    def _on_log_receipt(self, link: Link, message: LogReceipt) -> None:
        self._shipper.receipt(message)
        self._shutdown.changed()

    def _handled(self, key: Key) -> None:
        self._in_flight.release(key)

    def _receipted(self, result: Result) -> None:
        self._admission.receipted(result)
        self._shutdown.changed()


def _on_notice(link: Link, message: Notice) -> None:
    """A message of an admin for the operators of this node."""
    level = logging.getLevelNamesMapping()[message.level.upper()]
    _logger.log(level, "an admin says: %s", message.text)


async def _forever(part: Callable[[], Awaitable[None]]) -> None:
    """Run a part of the node again when it fails: one error must not end it for good."""
    while True:
        try:
            await part()
        except Exception:
            _logger.exception("a part of the node failed and is started again")
            await asyncio.sleep(_CHECK_SECONDS)
