"""Delivery of results: write to the spool, send, and resend until the receipt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tickwheel_executor.attempt_key import Claim, Key, claim_of, key_of
from tickwheel_executor.errors import SpoolError
from tickwheel_executor.link.link import Link
from tickwheel_executor.link.links import AdminLinks
from tickwheel_shared.protocol import ReceiptCode, Result, ResultReceipt

from .spool import Spool

_logger = logging.getLogger("tickwheel.spool")

RESEND_SECONDS = 5.0
_RETRY_WRITE_SECONDS = 5.0


@dataclass(slots=True)
class _PendingResult:
    result: Result
    link: Link | None  # where the run came from, then where it was sent last
    written: bool = False  # safe on disk
    sent_at: float = float("-inf")


class ResultDelivery:
    """Owns every result between the end of its attempt and its receipt."""

    def __init__(
        self,
        spool: Spool,
        links: AdminLinks,
        *,
        on_handled: Callable[[Key], None],
        on_receipt: Callable[[Result], None],
    ) -> None:
        self._spool = spool
        self._links = links
        self._on_handled = on_handled  # the result is safe: the attempt is no longer in flight
        self._on_receipt = on_receipt
        self._unwritten: list[_PendingResult] = []  # since the last write began
        self._writing = False
        self._pending: dict[Claim, _PendingResult] = {}  # may be sent; least recently sent first
        self._keys: dict[Key, int] = {}  # number of claims in `_pending` per attempt
        self._wake = asyncio.Event()
        self._retry_at = 0.0
        self._adopt_trouble = ""  # logged already
        self.trouble = ""  # why the spool does not work; empty while it does

    @property
    def idle(self) -> bool:
        """Whether every result has its receipt."""
        return not (self._pending or self._unwritten or self._writing)

    @property
    def unsafe(self) -> int:
        """How many results are in memory only."""
        return sum(not pending.written for pending in self._pending.values())

    def __len__(self) -> int:
        return len(self._pending)

    def submit(self, result: Result, link: Link | None) -> None:
        """An attempt has ended."""
        self._unwritten.append(_PendingResult(result, link))
        self._wake.set()

    def has(self, claim: Claim) -> bool:
        """Whether the result of this claim waits for its receipt."""
        return claim in self._pending

    def has_any(self, key: Key) -> bool:
        """Whether a result of any claim of this attempt waits for its receipt."""
        return key in self._keys

    async def adopt(self) -> None:
        """Take over what dead processes left in the spool."""
        try:
            results = await self._spool.adopt()
        except SpoolError as error:
            if self._adopt_trouble != str(error):
                _logger.warning("cannot look for results of ended processes: %s", error)
            self._adopt_trouble = str(error)
            return
        self._adopt_trouble = ""
        if results:
            _logger.info("delivering %d results of ended processes", len(results))
        for result in results:
            pending = _PendingResult(result, None, written=True)
            self._add(pending)
            self._send(pending, self._links.pick())

    def _add(self, pending: _PendingResult) -> None:
        claim = claim_of(pending.result)
        if claim not in self._pending:
            key = key_of(pending.result)
            self._keys[key] = self._keys.get(key, 0) + 1
        self._pending[claim] = pending

    def _take(self, claim: Claim) -> _PendingResult | None:
        pending = self._pending.pop(claim, None)
        if pending is not None:
            key = key_of(pending.result)
            others = self._keys.pop(key) - 1
            if others:
                self._keys[key] = others
        return pending

    # --- writing ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write and send results in batches, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch, self._unwritten = self._unwritten, []
            again: list[_PendingResult] = []
            if self.trouble:
                if not batch and loop.time() < self._retry_at:
                    continue
                again = [pending for pending in self._pending.values() if not pending.written]
            await self._write([*again, *batch], loop)
            for pending in batch:
                self._release(pending)

    async def _write(self, batch: list[_PendingResult], loop: asyncio.AbstractEventLoop) -> None:
        self._writing = True
        try:
            await self._spool.write([pending.result for pending in batch])
        except Exception as error:  # noqa: BLE001 (whatever failed, no result may be lost)
            text = str(error) if isinstance(error, SpoolError) else repr(error)
            if self.trouble != text:
                _logger.error("results cannot be saved on disk, new runs are refused: %s", text)
            self.trouble = text
            self._retry_at = loop.time() + _RETRY_WRITE_SECONDS
            return
        finally:
            self._writing = False
        if self.trouble:
            _logger.warning("results can be saved on disk again; runs are accepted")
            self.trouble = ""
        for pending in batch:
            pending.written = True
            if pending.sent_at > float("-inf") and claim_of(pending.result) not in self._pending:
                self._spool.remove(pending.result)  # its receipt came during the write

    def _release(self, pending: _PendingResult) -> None:
        # Also if the write failed: in memory the result is no safer than on the wire, and a full
        # disk must not delay runs that have ended. It is written as soon as possible.
        self._add(pending)
        self._on_handled(key_of(pending.result))
        self._send(pending, self._links.pick(pending.link))

    # --- sending ----------------------------------------------------------------------------------

    def _send(self, pending: _PendingResult, link: Link | None) -> None:
        if link is None:
            return  # `opening` sends it on the next socket
        pending.link, pending.sent_at = link, asyncio.get_running_loop().time()
        claim = claim_of(pending.result)
        self._pending[claim] = self._pending.pop(claim)  # now the most recently sent
        link.send(pending.result)

    def send_again(self, claim: Claim, link: Link) -> None:
        """An admin has asked for this result."""
        self._send(self._pending[claim], link)

    def opening(self, link: Link) -> Iterable[Result]:
        """Everything without receipt, for a new socket."""
        now = asyncio.get_running_loop().time()
        for pending in self._pending.values():
            pending.link, pending.sent_at = link, now
            yield pending.result

    def check(self, now: float) -> None:
        """Resend overdue results and retry the disk. Called about once a second."""
        if self.trouble and now >= self._retry_at:
            self._wake.set()
        overdue: list[_PendingResult] = []
        for pending in self._pending.values():
            if now - pending.sent_at < RESEND_SECONDS:
                break  # the rest was sent later
            overdue.append(pending)
        for pending in overdue:
            self._send(pending, self._links.pick(avoid=pending.link))

    def receipt(self, message: ResultReceipt) -> None:
        """An admin has recorded or refused a result."""
        pending = self._take(claim_of(message))
        if pending is None:
            return
        if message.receipt is ReceiptCode.REFUSED:
            _logger.warning(
                "the result of run %d attempt %d does not count: %s",
                message.run,
                message.attempt,
                message.reason,
            )
        # Also if it is not written yet: a write may be in progress.
        self._spool.remove(pending.result)
        self._on_receipt(pending.result)
