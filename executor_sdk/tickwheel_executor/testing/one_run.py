"""Run one handler as a node does, without admin, network or disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from tickwheel_executor.client.call import Call
from tickwheel_executor.errors import HandlerError
from tickwheel_executor.executor import Executor
from tickwheel_executor.handlers.handlers import Handlers
from tickwheel_shared.protocol import RunRequest

from .handler_end import HandlerEnd
from .memory_node import MemoryNode
from .requests import RequestFields, make_request


def run_handler(
    handler: Callable[..., Any] | Executor,
    name: str | None = None,
    *,
    parameters: Mapping[str, Any] | None = None,
    cancel_after: float | None = None,
    **fields: Unpack[RequestFields],
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
        fields: `state` (None: the job has no state), `checkpoint`, `run_id` and `attempt` (the same
            id with a higher attempt: the run is delivered again), `try_number`, `max_tries`,
            `shard_index`, `shard_total`, `scheduled_at`, `due_at` and `interval_start` (aware
            datetimes), `origin`, `recovering`, `timeout` (seconds), `job`, `job_id`,
            `traceparent`, `script`, and of a workflow's step `may_spawn` and `item`.

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
    async with MemoryNode(handlers, name="run_handler") as node:
        return await node.run(request, cancel_after=cancel_after)
