"""Run one handler as a node does, without admin, network and disk."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from tickwheel_executor.client.call import Call
from tickwheel_executor.errors import HandlerError
from tickwheel_executor.executor import Executor
from tickwheel_executor.handlers.handlers import Handlers
from tickwheel_executor.logs.capture import capture
from tickwheel_executor.node.node import Node
from tickwheel_executor.settings import NodeSettings
from tickwheel_shared.protocol import Progress, RunRequest

from .attempts import FakeAttempt
from .handler_end import HandlerEnd, ReportedProgress
from .memory import MemoryChannel, MemorySpool
from .requests import make_request
from .session import FakeAdminState

_URL = "http://run-handler.invalid"
_GRACE_SECONDS = 5.0  # the handler is over by then; what it started may not be


def run_handler(
    handler: Callable[..., Any] | Executor,
    name: str | None = None,
    *,
    parameters: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    checkpoint: Any = None,
    try_number: int = 1,
    max_tries: int = 1,
    shard_index: int = 0,
    shard_total: int = 1,
    scheduled_at: datetime | None = None,
    due_at: datetime | None = None,
    origin: str = "manual",
    recovering: bool = False,
    timeout: float | None = None,
    cancel_after: float | None = None,
) -> Call[HandlerEnd]:
    """Run a handler once, in this process, and tell how it ended.

    It is what a node does with a run: parameters, result, state and checkpoint pass through JSON
    and its limits, the signature is checked, an `async def` runs on the loop, a `def` in a thread,
    and what the handler raises has the meaning that it has in production. No retry follows.

        end = await run_handler(send_invoices, parameters={"month": "2026-03"})
        end = run_handler(send_invoices, parameters={"month": "2026-03"}).result()  # without a loop

    Args:
        handler: A function as `@executor.handler` takes it, or an Executor that has it.
        name: Of the handler; needed with an Executor.
        state: What the job's last run left; None: the job keeps no state.
        checkpoint: What an earlier try of the run left.
        scheduled_at: An aware datetime; now when omitted.
        due_at: An aware datetime; `scheduled_at` when omitted.
        timeout: In seconds; ends the run as `timed_out`.
        cancel_after: Seconds after which somebody cancels the run.

    Raises:
        HandlerError: it cannot be registered, or there is none of that name.
        ValueError: parameters, state, checkpoint or instants that no admin would send.
    """
    handlers, name = _only(handler, name)
    request = make_request(
        1,
        name,
        parameters or {},
        state=state,
        checkpoint=checkpoint,
        try_number=try_number,
        max_tries=max_tries,
        shard_index=shard_index,
        shard_total=shard_total,
        scheduled_at=scheduled_at,
        due_at=due_at,
        origin=origin,
        recovering=recovering,
        timeout=timeout,
    )
    return Call(_run(handlers, request, cancel_after))


def _only(handler: Callable[..., Any] | Executor, name: str | None) -> tuple[Handlers, str]:
    """Just this one: the executor of the program under test stays open for more."""
    if not isinstance(handler, Executor):
        handlers = Handlers()
        name = name or getattr(handler, "__name__", "") or "handler"
        handlers.add(name, handler)
        return handlers, name
    if name is None:
        raise HandlerError("run_handler(executor, name): which of its handlers?")
    return handler.handlers.only(name), name


async def _run(handlers: Handlers, request: RunRequest, cancel_after: float | None) -> HandlerEnd:
    progress: list[ReportedProgress] = []

    def on_progress(report: Progress) -> None:
        progress.append(ReportedProgress(report.fraction, report.text))

    ready = asyncio.Event()
    channel = MemoryChannel(FakeAdminState(), on_change=ready.set)

    async def connect(url: str, token: str) -> MemoryChannel:
        return channel

    settings = NodeSettings(
        executor="test", admins=(_URL,), token="", name="run_handler", slots=1, labels={}
    )
    node = Node(
        settings,
        handlers,
        connect=connect,
        spool=MemorySpool(),
        clock=lambda: time.time_ns() // 1_000_000,
        random=random.Random(),
        on_progress=on_progress,
    )
    attempt = FakeAttempt(request)
    capture.begin()
    try:
        await node.start()
        await ready.wait()
        channel.session.give(attempt)
        if cancel_after is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(cancel_after, channel.session.cancel, request)
        end = await attempt.end()
        await node.drain(_GRACE_SECONDS)
    except BaseException:  # cancelled, or refused: nothing goes on behind the test's back
        node.abort(break_channels=True)
        raise
    finally:
        capture.end()
    return replace(end, progress=progress)  # all of it: a node sends the newest once a second
