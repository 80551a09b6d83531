"""Call a handler with its hooks and determine the outcome.

This is the same in a task, a thread and a process. A return value that cannot be stored fails the
run before `on_ended` is called, so the hook gets the final outcome.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from typing import Any

from tickwheel_executor.process import forks
from tickwheel_executor.run.context import Run, stop_of
from tickwheel_executor.run.outcome import AttemptOutcome, Completion, outcome_of

from .handlers import Handler
from .hooks import Ending


class HandlerExitError(Exception):
    """The handler called sys.exit(), which must not end the service."""


def invoke(handler: Handler, run: Run) -> AttemptOutcome:
    """Run a plain handler to its end, in this thread."""
    begun, process = time.monotonic(), os.getpid()
    try:
        handler.hooks.call_started(run)
        completion = Completion(_called(handler, run))
    except SystemExit as error:
        completion = Completion(error=_exit(error))
    except BaseException as error:  # noqa: BLE001 (any error fails only this run)
        completion = Completion(error=error)
    if os.getpid() != process:
        forks.exit_child(completion.error)  # this is a child that the handler forked
    outcome = outcome_of(run, completion)
    if handler.hooks.ended:
        handler.hooks.call_ended(run, _ending(outcome, time.monotonic() - begun))
    return outcome


async def invoke_async(handler: Handler, run: Run) -> AttemptOutcome:
    """Run an async handler to its end, in this task.

    Raises:
        asyncio.CancelledError: the node has ended, and the outcome is not needed.
    """
    loop = asyncio.get_running_loop()
    begun, process = loop.time(), os.getpid()
    try:
        if handler.hooks.started:
            await handler.hooks.await_started(run)
        completion = Completion(await handler.call(run))
    except SystemExit as error:
        completion = Completion(error=_exit(error))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if stop_of(run) is None and task is not None and task.cancelling():
            raise  # cancelled by the end of the node
        completion = Completion(error=error)
    except Exception as error:  # noqa: BLE001 (any error fails only this run)
        completion = Completion(error=error)
    if os.getpid() != process:
        forks.exit_child(completion.error)
    outcome = outcome_of(run, completion)
    if handler.hooks.ended:
        await handler.hooks.await_ended(run, _ending(outcome, loop.time() - begun))
    return outcome


def _called(handler: Handler, run: Run) -> Any:
    value = handler.call(run)
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("the handler returned a coroutine; declare it with `async def`")
    return value


def _exit(error: SystemExit) -> HandlerExitError:
    exit_error = HandlerExitError(f"the handler called sys.exit({error.code!r})")
    exit_error.__cause__ = error
    return exit_error


def _ending(outcome: AttemptOutcome, seconds: float) -> Ending:
    return Ending(outcome=outcome.kind.value, message=outcome.message, seconds=seconds)
