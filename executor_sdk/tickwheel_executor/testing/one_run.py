"""Run one handler as a node does, without admin, network or disk."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Unpack

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
from .requests import RunFields, make_request
from .session import FakeAdminState

_URL = "http://run-handler.invalid"
_GRACE_SECONDS = 5.0  # the handler has ended by then; what it started may not have


def run_handler(
    handler: Callable[..., Any] | Executor,
    name: str | None = None,
    *,
    parameters: Mapping[str, Any] | None = None,
    cancel_after: float | None = None,
    **fields: Unpack[RunFields],
) -> Call[HandlerEnd]:
    """Run a handler once, in this process, and return how it ended.

    It runs as on a node: parameters, result, state and checkpoint pass through JSON and its limits,
    the signature is checked, an `async def` runs on the loop, a `def` in a thread, and exceptions
    have the same meaning as in production. There are no retries.

        end = await run_handler(send_invoices, parameters={"month": "2026-03"})
        end = run_handler(send_invoices, parameters={"month": "2026-03"}).result()  # without a loop

    Args:
        handler: A function as for `@executor.handler`, or an Executor that has it.
        name: Name of the handler; required with an Executor.
        cancel_after: Seconds after which the run is cancelled.
        fields: `state` (None: the job has no state), `checkpoint`, `try_number`, `max_tries`,
            `shard_index`, `shard_total`, `scheduled_at` and `due_at` (aware datetimes), `origin`,
            `recovering`, `timeout` (seconds), `job`, `job_id` and `script`.

    Raises:
        HandlerError: it cannot be registered, or there is no such handler.
        ValueError: parameters, state, checkpoint or instants that an admin would refuse.
    """
    handlers, name = _only(handler, name)
    request = make_request(1, name, parameters or {}, **fields)
    return Call(_run(handlers, request, cancel_after))


def _only(handler: Callable[..., Any] | Executor, name: str | None) -> tuple[Handlers, str]:
    """Only this handler: the executor under test stays open for more."""
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
        channel.session.dispatch(attempt)
        if cancel_after is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(cancel_after, channel.session.cancel, request)
        end = await attempt.end()
        await node.drain(_GRACE_SECONDS)
    except BaseException:  # cancelled or refused: nothing may continue after the test
        node.abort(break_channels=True)
        raise
    finally:
        capture.end()
    return replace(end, progress=progress)  # all reports: a node sends only some of them
