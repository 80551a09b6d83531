"""Graceful shutdown: finish what is in flight, deliver the results, say goodbye."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tickwheel_executor.attempts.in_flight import InFlightAttempts
from tickwheel_executor.link.links import AdminLinks
from tickwheel_executor.logs.shipper import LogShipper
from tickwheel_executor.run.context import Stop
from tickwheel_executor.spool.delivery import ResultDelivery
from tickwheel_shared.protocol import Draining, Goodbye, Outcome

_logger = logging.getLogger("tickwheel.node")

STOP_SECONDS = 5.0  # cancelled handlers may take this long to end
_KILL_SECONDS = 4.0  # then its process is killed, early enough to report that
RECEIPT_SECONDS = 5.0  # how long to wait for receipts


class Shutdown:
    """Waits until the parts of a node have nothing left; they call `changed` on progress.

    The order: first the admins stop sending runs. Then handlers end, by themselves or cancelled.
    Then their results and logs reach an admin. Only then `goodbye` may end the lease at once.
    """

    def __init__(self, links: AdminLinks, delivery: ResultDelivery, shipper: LogShipper) -> None:
        self._loop = asyncio.get_running_loop()
        self._links = links
        self._delivery = delivery
        self._shipper = shipper
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """An attempt has ended, or something was delivered."""
        self._changed.set()

    async def finish(self, in_flight: InFlightAttempts, grace_seconds: float) -> bool:
        """Let all attempts in flight end and be delivered; nothing new may begin meanwhile.

        Handlers that still run after `grace_seconds` are cancelled and reported as failed. Returns
        whether nothing was left behind: no handler that did not end, no result only in memory.
        """
        deadline = self._loop.time() + grace_seconds
        self._links.broadcast(Draining())
        await self._until(lambda: not len(in_flight), deadline)
        for attempt in in_flight:
            text = f"the node was shut down, and the run did not end within {grace_seconds:g} s"
            stop = Stop(outcome=Outcome.FAILED, message=text, grace_seconds=_KILL_SECONDS)
            in_flight.stop(attempt, stop)
        await self._until(lambda: not len(in_flight), self._loop.time() + STOP_SECONDS)
        await self._until(
            lambda: self._delivery.idle and self._shipper.idle,
            max(self._loop.time() + RECEIPT_SECONDS, deadline if self._links.any_open else 0),
        )
        if not len(in_flight) and self._delivery.idle:
            self._links.broadcast(Goodbye())
        self._report_left_behind(in_flight)
        return not len(in_flight) and not self._delivery.unsafe

    async def _until(self, done: Callable[[], bool], deadline: float) -> None:
        while not done():
            self._changed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _report_left_behind(self, in_flight: InFlightAttempts) -> None:
        if len(in_flight):
            _logger.warning(
                "%d runs did not end and are left behind: %s",
                len(in_flight),
                ", ".join(str(attempt.request.run) for attempt in list(in_flight)[:10]),
            )
        if not self._delivery.idle:
            _logger.warning(
                "%d results have no receipt; the next process with this spool delivers those that "
                "are on disk",
                len(self._delivery),
            )
        if not self._shipper.idle:
            _logger.warning("%d log lines have no receipt", self._shipper.unconfirmed_lines)
