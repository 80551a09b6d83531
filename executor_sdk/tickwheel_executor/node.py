"""The core of the SDK: one node, its attempts, and its answers to the admins.

A Node is made of parts that take everything from outside, so that the simulator can run several of
them in one process, in virtual time:

    node = Node(
        NodeSettings(executor="billing", admins=("http://a1",), token="…", name="n1", slots=4),
        handlers,                       # Handlers; async ones only where there are no threads
        connect=connect,                # channel.Connect: (base URL, token) → Channel
        spool=spool,                    # spool.Spool: outlives the node, as a disk does
        clock=lambda: wall_ms,          # UTC epoch ms, for log lines only
        random=random.Random(seed),     # node_key, jitter, choice of a link
    )
    await node.start()                  # returns at once; links connect in the background
    await node.drain(grace_seconds)     # as SIGTERM: finish, deliver, say goodbye, end
    node.abort()                        # as kill -9: all tasks are cancelled, nothing is sent

Time is only ever the loop's (`time`, `call_later`, `asyncio.sleep`, `asyncio.timeout`); no part
iterates over a set; a thread is started by plain `def` handlers alone. `abort` leaves the channels
to whoever made them: as with a real death, the other end learns of it from the transport. A handler
sees the abort as CancelledError, and what it does then happens after the death of its process.

The way of a run: `_on_run` answers; `_begin` takes a slot and starts the handler; `_ended` makes
the result; ResultDelivery writes it to the spool, gives the slot back through `_handled`, and
sends it until a receipt comes; EndedAttempts remembers it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextvars import copy_context
from functools import partial
from random import Random
from typing import Any

import msgspec

from tickwheel_shared.protocol import (
    PROTOCOL_VERSION,
    Cancel,
    Drain,
    Draining,
    FromAdmin,
    Goodbye,
    Held,
    Hello,
    LogReceipt,
    Message,
    Outcome,
    Progress,
    Query,
    Refusal,
    Result,
    ResultReceipt,
    RunKey,
    RunRequest,
    Welcome,
)

from . import answers
from .attempt import Attempt, Stop
from .channel import Connect
from .context import Run
from .delivery import Key, ResultDelivery
from .ended import EndedAttempts
from .errors import SpoolError
from .handlers import Handler, Handlers
from .link import Link
from .links import Links
from .log_shipper import LogShipper
from .progress import ProgressReporter
from .run_log import RunLog
from .runner import End
from .runner.async_runner import AsyncRunner
from .runner.thread_runner import ThreadRunner
from .settings import NodeSettings
from .slots import Slots
from .spool import Spool
from .version import SDK

_logger = logging.getLogger("tickwheel.node")

STOP_SECONDS = 5.0  # draining: what is cancelled may take this long to end
RECEIPT_SECONDS = 5.0  # draining: what is sent may take this long to be receipted
CLOSE_SECONDS = 3.0
_CHECK_SECONDS = 1.0
_ADOPT_SECONDS = 30.0

_parameters = msgspec.json.Decoder(dict[str, Any])


class Node:
    """One node of an executor. Implements what its links ask of it (LinkOwner)."""

    def __init__(
        self,
        settings: NodeSettings,
        handlers: Handlers,
        *,
        connect: Connect,
        spool: Spool,
        clock: Callable[[], int],
        random: Random,
    ) -> None:
        self.key = f"{random.getrandbits(128):032x}"
        self._settings = settings
        self._handlers = handlers
        self._spool = spool
        self._clock = clock
        self._slots = Slots(settings.slots)
        self._held: dict[Key, Attempt] = {}
        self._ended_attempts = EndedAttempts()
        self._draining = False  # this process is going away
        self._asked_to_drain = False  # an operator wants no new runs here
        self._started = False
        self._stopped = False
        self._background: list[asyncio.Task[None]] = []
        self._links = Links(
            settings.admins, self, token=settings.token, connect=connect, random=random
        )
        self._delivery = ResultDelivery(
            spool, self._links, on_handled=self._handled, on_receipt=self._receipted
        )
        self._receivers: dict[type, Callable[[Link, Any], None]] = {
            RunRequest: self._on_run,
            Query: self._on_query,
            Cancel: self._on_cancel,
            ResultReceipt: lambda _, message: self._delivery.receipt(message),
            LogReceipt: self._on_log_receipt,
            Drain: self._on_drain,
        }

    # --- beginning and end -----------------------------------------------------------------------

    async def start(self) -> None:
        """Open the spool and begin to connect.

        Raises:
            SpoolError: results could not be kept.
        """
        self._loop = asyncio.get_running_loop()
        context = copy_context()
        self._changed = asyncio.Event()
        self._shipper = LogShipper(self._links, self._clock, context=context)
        self._progress = ProgressReporter(self._links, context=context)
        self._async_runner = AsyncRunner(self._shipper)
        self._thread_runner = ThreadRunner(self._loop)
        self._handlers.close()
        self._started = True
        await self._spool.open()
        await self._delivery.adopt()
        if self._stopped:  # aborted meanwhile
            return
        for part in (self._delivery.run, self._watch):
            self._background.append(
                self._loop.create_task(_forever(part), name=f"tickwheel {part.__name__}")
            )
        self._links.start()

    async def drain(self, grace_seconds: float) -> bool:
        """Take no more runs, finish what is held, deliver it and end.

        What still runs after `grace_seconds` is cancelled and reported as failed. Returns whether
        nothing was left behind: no handler that would not end, no result only in memory.
        """
        self._draining = True
        deadline = self._loop.time() + grace_seconds
        self._links.broadcast(Draining())
        await self._until(lambda: not self._held, deadline)
        for attempt in list(self._held.values()):
            text = f"the node was shut down, and the run did not end within {grace_seconds:g} s"
            attempt.tell_to_stop(Stop(outcome=Outcome.FAILED, message=text))
            self._shipper.hurry(attempt.run.log)
        await self._until(lambda: not self._held, self._loop.time() + STOP_SECONDS)
        await self._until(
            lambda: self._delivery.idle and self._shipper.idle,
            max(self._loop.time() + RECEIPT_SECONDS, deadline if self._links.any_open else 0),
        )
        if not self._held and self._delivery.idle:
            self._links.broadcast(Goodbye())
        self._report_left_behind()
        clean = not self._held and not self._delivery.unsafe
        self._end()
        await self._links.close(CLOSE_SECONDS)
        await asyncio.gather(*self._background, return_exceptions=True)
        try:
            await self._spool.close()
        except SpoolError as error:
            # What lies in it is safe and is adopted by the next process; only the tidying failed.
            _logger.warning("the spool could not be tidied up: %s", error)
        return clean

    def abort(self, *, break_channels: bool = False) -> None:
        """End at once, as a process that dies: cancel everything, send nothing.

        The channels are left alone unless `break_channels`, for a process that lives on.
        """
        self._end()
        self._links.abort(break_channels=break_channels)

    def _end(self) -> None:
        self._stopped = True
        if not self._started:
            return
        for part in self._background:
            part.cancel()
        for attempt in self._held.values():
            if attempt.timer is not None:
                attempt.timer.cancel()
            if attempt.execution is not None:
                attempt.execution.abandon()
        self._shipper.release_all()

    def _report_left_behind(self) -> None:
        if self._held:
            _logger.warning(
                "%d runs did not end and are left behind: %s",
                len(self._held),
                ", ".join(str(run) for run, _ in list(self._held)[:10]),
            )
        if not self._delivery.idle:
            _logger.warning(
                "%d results have no receipt; the next process with this spool delivers those that "
                "are on disk",
                len(self._delivery),
            )
        if not self._shipper.idle:
            _logger.warning("%d log lines have no receipt", self._shipper.unconfirmed_lines)

    async def _until(self, done: Callable[[], bool], deadline: float) -> None:
        while not done():
            self._changed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                return

    async def _watch(self) -> None:
        """What depends on time alone: the lease, resending, results of neighbours that died."""
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

    # --- what links ask --------------------------------------------------------------------------

    @property
    def in_use(self) -> int:
        """Slots in use."""
        return self._slots.in_use

    def hello(self) -> Hello:
        """Who we are and what we offer."""
        settings = self._settings
        return Hello(
            versions=[PROTOCOL_VERSION],
            executor=settings.executor,
            node_key=self.key,
            name=settings.name,
            sdk=SDK,
            slots=settings.slots,
            handlers=list(self._handlers),
            labels=dict(settings.labels),
        )

    def successor_of(self, link: Link) -> Link | None:
        """A link that has just taken the place of this one."""
        return self._links.successor_of(link, self._loop.time())

    def opening(self, link: Link, welcome: Welcome) -> Iterable[Message]:
        """Results without receipt, then what is still held."""
        self._links.welcomed(welcome, link.hello_sent_at)
        yield from self._delivery.opening(link)
        yield Held(
            runs=[
                RunKey(run=run, attempt=number, token=attempt.request.token)
                for (run, number), attempt in self._held.items()
            ]
        )
        if self._draining:
            yield Draining()

    def opened(self, link: Link) -> None:
        """Log lines may leave."""
        self._shipper.opened(link)

    def closed(self, link: Link) -> None:
        """Log lines go elsewhere; results are sent again when their time comes."""
        if not self._stopped:
            self._shipper.closed(link)

    def acknowledged(self, sent_at: float) -> None:
        """The lease was renewed, after a heartbeat sent at this time."""
        self._links.acknowledged(sent_at)

    def receive(self, link: Link, message: FromAdmin) -> None:
        """Handle a message."""
        self._receivers[type(message)](link, message)

    # --- answers ---------------------------------------------------------------------------------

    def _on_run(self, link: Link, message: RunRequest) -> None:
        if self._answer_known(link, message):
            return
        if self._links.lease_is_over(now := self._loop.time()):
            # This process was frozen, and the frame lay in its buffer: the attempt may be lost.
            self._links.check(now)
            return
        handler = self._handlers.get(message.handler)
        refusal, text = self._refusal(message, handler)
        if refusal is not None or handler is None:
            self._refuse(link, message, refusal or Refusal.UNKNOWN_HANDLER, text)
            return
        link.send(answers.accepted(message))
        self._begin(link, message, handler)

    def _on_query(self, link: Link, message: Query | Cancel) -> None:
        if not self._answer_known(link, message):
            self._refuse(link, message, Refusal.NEVER_SEEN)

    def _on_cancel(self, link: Link, message: Cancel) -> None:
        attempt = self._held.get((message.run, message.attempt))
        if attempt is None or attempt.request.token != message.token:
            self._on_query(link, message)
        elif attempt.stop is not None or attempt.finished:
            link.send(answers.accepted(message))
        else:
            attempt.tell_to_stop(answers.STOPS[message.reason])
            self._shipper.hurry(attempt.run.log)

    def _on_log_receipt(self, link: Link, message: LogReceipt) -> None:
        self._shipper.receipt(message)
        self._changed.set()

    def _on_drain(self, link: Link, message: Drain) -> None:
        if message.on != self._asked_to_drain:
            self._asked_to_drain = message.on
            _logger.info("an operator lets this node %s", "drain" if message.on else "work again")

    def _answer_known(self, link: Link, message: answers.Asked) -> bool:
        """Answer for an attempt that this node has met before; False when it has not."""
        key = (message.run, message.attempt)
        attempt = self._held.get(key)
        if attempt is not None:
            if attempt.request.token == message.token:
                link.send(answers.accepted(message))
            else:
                # Two claims with one number: the database went back in time. Ours goes on, and
                # its result will be refused; the other is not started beside it.
                link.send(answers.refused(message, Refusal.NEVER_SEEN, "held for another claim"))
            return True
        if self._delivery.find(key) is not None:
            self._delivery.send_again(key, link)
            return True
        ending = self._ended_attempts.find(*key, self._loop.time())
        if isinstance(ending, Refusal):
            link.send(answers.refused(message, ending))
        elif ending is not None:
            link.send(answers.ended_before(message, ending))
        return ending is not None

    def _refusal(self, message: RunRequest, handler: Handler | None) -> tuple[Refusal | None, str]:
        if self._draining or self._asked_to_drain:
            return Refusal.DRAINING, ""
        if handler is None:
            return Refusal.UNKNOWN_HANDLER, self._handlers.explain_unknown(message.handler)
        if self._delivery.trouble:
            return Refusal.SPOOL_FAILED, self._delivery.trouble
        if not self._slots.take():
            return Refusal.FULL, ""
        return None, ""

    def _refuse(self, link: Link, message: answers.Asked, reason: Refusal, text: str = "") -> None:
        self._ended_attempts.add(message.run, message.attempt, reason, self._loop.time())
        link.send(answers.refused(message, reason, text))

    # --- the way of an attempt -------------------------------------------------------------------

    def _begin(self, link: Link, request: RunRequest, handler: Handler) -> None:
        log = RunLog(
            self._shipper, link, run=request.run, attempt=request.attempt, token=request.token
        )
        report = partial(self._on_progress, link, request)
        problem = ""
        parameters: dict[str, Any] = {}
        try:
            parameters = _parameters.decode(request.parameters)
        except msgspec.DecodeError as error:
            problem = f"the parameters are not a JSON object: {error}"
        run = Run(request, parameters, log=log, report=report)
        attempt = Attempt(request, link, run)
        self._held[attempt.key] = attempt
        if problem:
            self._ended(attempt, End(error=ValueError(problem)))
            return
        runner = self._async_runner if handler.is_async else self._thread_runner
        attempt.execution = runner.start(handler, run, partial(self._ended, attempt))
        if request.timeout_ms is not None:
            attempt.timer = self._loop.call_later(
                request.timeout_ms / 1000, self._timed_out, attempt
            )

    def _timed_out(self, attempt: Attempt) -> None:
        seconds = (attempt.request.timeout_ms or 0) / 1000
        text = f"timed out after {seconds:g} s"
        attempt.tell_to_stop(Stop(outcome=Outcome.TIMED_OUT, message=text))
        self._shipper.hurry(attempt.run.log)

    def _on_progress(self, link: Link, request: RunRequest, fraction: float, text: str) -> None:
        progress = Progress(
            run=request.run,
            attempt=request.attempt,
            token=request.token,
            fraction=fraction,
            text=text,
        )
        self._progress.report(progress, link)

    def _ended(self, attempt: Attempt, end: End) -> None:
        if attempt.timer is not None:
            attempt.timer.cancel()
        result = attempt.conclude(end)
        attempt.finished = True
        self._progress.close(attempt.key)
        lines = self._shipper.close(attempt.run.log)
        if lines:
            result = msgspec.structs.replace(result, log_lines=lines)
        self._delivery.submit(result, attempt.link)

    def _handled(self, key: Key) -> None:
        if self._held.pop(key, None) is not None:
            self._slots.give_back()
            self._changed.set()

    def _receipted(self, result: Result) -> None:
        self._ended_attempts.add(result.run, result.attempt, result.outcome, self._loop.time())
        self._changed.set()


async def _forever(part: Callable[[], Awaitable[None]]) -> None:
    """Keep a part of the node going: a mistake in one pass must not end it for good."""
    while True:
        try:
            await part()
        except Exception:
            _logger.exception("a part of the node failed and is started again")
            await asyncio.sleep(_CHECK_SECONDS)
