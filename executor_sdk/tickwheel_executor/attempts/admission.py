"""Decides what a node answers when an admin sends, queries or cancels an attempt.

An attempt starts at most once, even if messages arrive late, twice or out of order. The node looks
for it among the attempts in flight, the results that wait for a receipt, and the recent claims.
Only an attempt found in none of them may start, and one that was refused never starts later.
"""

from __future__ import annotations

import asyncio
import logging

from tickwheel_executor.attempt_key import claim_of, key_of
from tickwheel_executor.handlers.handlers import Handler, Handlers
from tickwheel_executor.link.link import Link
from tickwheel_executor.link.links import AdminLinks
from tickwheel_executor.run.context import Stop
from tickwheel_executor.spool.delivery import ResultDelivery
from tickwheel_shared.protocol import (
    Accepted,
    Cancel,
    CancelReason,
    Drain,
    Outcome,
    Query,
    Refusal,
    Refused,
    Result,
    RunRequest,
    SetSlots,
)
from tickwheel_shared.secret_mask import hidden, mask_of

from .counts import AttemptCounts
from .in_flight import InFlightAttempts
from .recent_claims import RecentClaims
from .slots import Slots

_logger = logging.getLogger("tickwheel.node")

AttemptMessage = RunRequest | Query | Cancel

STOPS = {
    CancelReason.OPERATOR: Stop(outcome=Outcome.CANCELLED, message="cancelled by an operator"),
    CancelReason.TIMEOUT: Stop(outcome=Outcome.TIMED_OUT, message="past its timeout"),
    CancelReason.COVERED: Stop(
        outcome=Outcome.CANCELLED, message="cancelled: a newer run takes its place"
    ),
    CancelReason.STALE: Stop(
        outcome=Outcome.CANCELLED, message="cancelled: this attempt is no longer current"
    ),
}


class RunAdmission:
    """Decides what starts here. Made on the running loop."""

    def __init__(
        self,
        *,
        handlers: Handlers,
        in_flight: InFlightAttempts,
        delivery: ResultDelivery,
        links: AdminLinks,
        slots: Slots,
        counts: AttemptCounts,
    ) -> None:
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._handlers = handlers
        self._in_flight = in_flight
        self._delivery = delivery
        self._links = links
        self._slots = slots
        self._ended = RecentClaims()
        self._asked_to_drain = False  # by an operator
        self.leaving = False  # this process is shutting down

    def on_run(self, link: Link, message: RunRequest) -> None:
        """Start it, unless it is known or has to be refused."""
        if self.answer_known(link, message):
            return
        now = self._loop.time()
        if self._links.lease_is_over(now):
            # This process was suspended, and the frame waited in a buffer: the attempt may be lost.
            self._links.check(now)
            return
        handler = self._handlers.get(message.handler)
        if (
            message.stop_when_cut_off
            and handler is not None
            and handler.stoppable
            and now >= self._links.cut_off_at
        ):
            return  # it would have to end at once; the admin queries it when the node is back
        refusal, text = self._refusal(message, handler)
        if refusal is not None or handler is None:
            self._refuse(link, message, refusal or Refusal.UNKNOWN_HANDLER, text)
            return
        self._in_flight.begin(link, message, handler)  # before the socket's writer is woken
        link.send_patiently(_accepted(message))

    def on_query(self, link: Link, message: Query | Cancel) -> None:
        """Report what became of it; an attempt that was never seen never starts."""
        if not self.answer_known(link, message):
            self._refuse(link, message, Refusal.NEVER_SEEN)

    def on_cancel(self, link: Link, message: Cancel) -> None:
        """Stop it, or report what became of it."""
        attempt = self._in_flight.find(key_of(message))
        if attempt is None or attempt.request.token != message.token:
            self.on_query(link, message)
            return
        if message.reason is CancelReason.STALE:
            attempt.mark_lost()
        if attempt.stop is None and not attempt.finished:
            self._in_flight.stop(attempt, STOPS[message.reason])
        elif message.reason is not CancelReason.STALE:
            link.send(_accepted(message))
        # A stale cancel is the answer to "accepted": sending that again would never stop.

    def on_drain(self, link: Link, message: Drain) -> None:
        """An operator drains the node, or puts it back to work; running attempts continue."""
        if message.on != self._asked_to_drain:
            self._asked_to_drain = message.on
            _logger.info("an operator lets this node %s", "drain" if message.on else "work again")

    def on_slots(self, link: Link, message: SetSlots) -> None:
        """An operator changed the number of slots; running attempts continue."""
        self._slots.resize(message.slots)

    def receipted(self, result: Result) -> None:
        """An admin has this result: from now on only its outcome is remembered."""
        self._ended.add(claim_of(result), result.outcome, self._loop.time())

    def answer_known(self, link: Link, message: AttemptMessage) -> bool:
        """Answer for an attempt that this node knows; False when it does not."""
        key, now = key_of(message), self._loop.time()
        attempt = self._in_flight.find(key)
        if attempt is None and not self._delivery.has_any(key) and not self._ended.renew(key, now):
            return False  # nearly always
        claim = claim_of(message)
        if attempt is not None and attempt.request.token == message.token:
            link.send(_accepted(message))
        elif self._delivery.has(claim):
            self._delivery.send_again(claim, link)
        elif (ending := self._ended.find(claim, now)) is not None:
            link.send(
                _refused(message, ending)
                if isinstance(ending, Refusal)
                else _ended_before(message, ending)
            )
        else:
            # Two claims with one number: the database was restored from a backup. Nobody executed
            # this claim, so the outcome of the other is no answer: it has to be claimed again.
            link.send(_refused(message, Refusal.NEVER_SEEN, "known here by another claim"))
        return True

    def _refusal(self, message: RunRequest, handler: Handler | None) -> tuple[Refusal | None, str]:
        if self.leaving or self._asked_to_drain:
            return Refusal.DRAINING, ""
        if handler is None:
            return Refusal.UNKNOWN_HANDLER, self._handlers.explain_unknown(message.handler)
        if self._delivery.trouble:
            return Refusal.SPOOL_FAILED, self._delivery.trouble
        if not self._slots.take():
            return Refusal.FULL, ""
        return None, ""

    def _refuse(self, link: Link, message: AttemptMessage, reason: Refusal, text: str = "") -> None:
        self._ended.add(claim_of(message), reason, self._loop.time())
        self._counts.refused[reason] += 1
        if text and isinstance(message, RunRequest):
            text = hidden(mask_of(message), text)
        link.send(_refused(message, reason, text))


def _accepted(message: AttemptMessage) -> Accepted:
    """The attempt is in flight here."""
    return Accepted(run=message.run, attempt=message.attempt, token=message.token)


def _refused(message: AttemptMessage, reason: Refusal, text: str = "") -> Refused:
    """It was not started here and never will be."""
    return Refused(
        run=message.run,
        attempt=message.attempt,
        token=message.token,
        reason=reason,
        message=text,
    )


def _ended_before(message: AttemptMessage, outcome: Outcome) -> Result:
    """It ended, and an admin has its result: only its outcome is remembered."""
    return Result(
        run=message.run,
        attempt=message.attempt,
        token=message.token,
        outcome=outcome,
        duration_ms=0,
        message="delivered before",
    )
