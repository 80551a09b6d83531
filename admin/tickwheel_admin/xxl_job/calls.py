"""Calls to one address, counted for people; and how its executor speaks, as far as it was seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from tickwheel_admin.domain.xxl_job.bridge import (
    AddressReport,
    ClientKind,
    XxlAddress,
    XxlExecutor,
)
from tickwheel_admin.xxl_job import dialects
from tickwheel_admin.xxl_job.caller import ConnectionRefused, NoAnswer, NodeCaller, NotSent, Reply
from tickwheel_admin.xxl_job.dialects import Answer, BadAnswer, Call, Dialect, LogPage
from tickwheel_shared.protocol import MAX_MESSAGE_CHARS

CALL_SECONDS = 5.0


class NodeCalls:
    """Used from the event loop's thread only."""

    def __init__(
        self,
        address: XxlAddress,
        executor: XxlExecutor,
        caller: NodeCaller,
        *,
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        """`refused` is called each time that nobody listens there."""
        self.address = address
        self.executor = executor
        self.dialect = Dialect(address.dialect) if address.dialect else None  # None: not seen yet
        self._caller = caller
        self._refused = refused
        self.is_silent = False  # its last call was not answered
        self._calls = 0
        self._errors = 0
        self._error: str | None = None
        self._error_at = 0.0
        self._beat_at: float | None = None

    async def ask(self, call: Call, *, seconds: float = CALL_SECONDS) -> Answer:
        """Make a call.

        Raises:
            ConnectionRefused, NotSent: nothing was sent.
            NoAnswer: it may have been.
            BadAnswer: what came is none.
        """
        return self._answer(call, await self.read(call, seconds=seconds))

    async def ask_whether_it_lives(self, *, seconds: float) -> tuple[Answer, bool]:
        """Beat it; returns also whether no connection was left of the beat before.

        Raises as `ask`.
        """
        call = dialects.beat(self.dialect)
        reply = await self.read(call, seconds=seconds)
        return self._answer(call, reply), reply.is_new_connection

    def _answer(self, call: Call, reply: Reply) -> Answer:
        try:
            return dialects.read_answer(reply.status, reply.body)
        except BadAnswer as error:
            self.failed(f"{call.path}: {error}")
            raise

    async def read(
        self, call: Call, *, seconds: float = CALL_SECONDS, max_bytes: int | None = None
    ) -> Reply:
        """Make a call for an answer that may be long; raises as `ask`, but BadAnswer."""
        headers = dialects.headers(self.dialect, self.executor.token, self.executor.app_name)
        limit = {} if max_bytes is None else {"max_bytes": max_bytes}
        self._calls += 1
        try:
            reply = await self._caller.call(
                self.address.address, call, headers, seconds=seconds, **limit
            )
        except (ConnectionRefused, NotSent, NoAnswer) as error:
            self.failed(f"{call.path}: {error}")
            self.is_silent = not isinstance(error, ConnectionRefused)
            if not self.is_silent:
                self._refused()
            raise
        self.is_silent = False
        return reply

    async def log_page(
        self, log_id: int, time_ms: int, from_line: int, *, max_bytes: int
    ) -> LogPage:
        """The log of a run from this line on, as far as it comes; raises as `ask`."""
        call = dialects.log(self.dialect, log_id, time_ms, from_line)
        reply = await self.read(call, max_bytes=max_bytes)
        page = dialects.read_log(
            reply.status,
            reply.body,
            from_line=from_line,
            truncated=reply.truncated,
            whole=self.address.client == ClientKind.NODE,
        )
        # Where it stood in the answer tells dialect B from A.
        if page.key == "data" and self.dialect is Dialect.A:
            self.dialect = Dialect.B
        elif page.key == "content" and self.dialect is Dialect.B:
            self.dialect = Dialect.A
        return replace(page, truncated=reply.truncated)

    def failed(self, error: str) -> None:
        """Something went wrong that people should see."""
        self._errors += 1
        self._error, self._error_at = error[:MAX_MESSAGE_CHARS], _now()

    def beat(self) -> None:
        """It is alive."""
        self._beat_at = _now()

    def report(self, node_id: int | None) -> AddressReport | None:
        """What was seen since the last report; None: nothing."""
        if not self._calls and not self._errors:
            return None
        report = AddressReport(
            executor_id=self.address.executor_id,
            address=self.address.address,
            node_id=node_id,
            dialect=self.dialect.value if self.dialect else None,
            beat_at_ms_ago=None if self._beat_at is None else _ms_since(self._beat_at),
            calls=self._calls,
            errors=self._errors,
            error=self._error,
            error_ms_ago=_ms_since(self._error_at) if self._error else None,
        )
        self._calls, self._errors, self._error, self._beat_at = 0, 0, None, None
        return report


def _ms_since(at: float) -> int:
    return int((_now() - at) * 1000)


def _now() -> float:
    return asyncio.get_running_loop().time()
