"""Call a handler with the hooks around it, and say what its end means.

It is the same in a task, a thread and a process: the hooks run where the handler does, and what
cannot be kept of its return value fails the run before `on_ended` is told how it ended.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from typing import Any

from tickwheel_executor.process import forks
from tickwheel_executor.run.context import Run, stop_of
from tickwheel_executor.run.outcome import End, Verdict, judge

from .handlers import Handler
from .hooks import Ending


class HandlerExitError(Exception):
    """The handler called sys.exit(); it must not end the whole service."""


def perform(handler: Handler, run: Run) -> Verdict:
    """Run a plain handler to its end, in this thread."""
    begun, process = time.monotonic(), os.getpid()
    try:
        handler.hooks.call_started(run)
        end = End(_called(handler, run))
    except SystemExit as error:
        end = End(error=_exit(error))
    except BaseException as error:  # noqa: BLE001 (whatever it is, it ends the run only)
        end = End(error=error)
    if os.getpid() != process:
        forks.leave(end.error)  # the handler forked, and this is the child: it returns to nobody
    verdict = judge(run, end)
    if handler.hooks.ended:
        handler.hooks.call_ended(run, _ending(verdict, time.monotonic() - begun))
    return verdict


async def perform_async(handler: Handler, run: Run) -> Verdict:
    """Run an async handler to its end, in this task.

    Raises:
        asyncio.CancelledError: the node is gone, and nobody wants to know.
    """
    loop = asyncio.get_running_loop()
    begun, process = loop.time(), os.getpid()
    try:
        if handler.hooks.started:
            await handler.hooks.await_started(run)
        end = End(await handler.call(run))
    except SystemExit as error:
        end = End(error=_exit(error))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if stop_of(run) is None and task is not None and task.cancelling():
            raise  # by the node, without a word: it is gone
        end = End(error=error)
    except Exception as error:  # noqa: BLE001 (whatever it is, it ends the run only)
        end = End(error=error)
    if os.getpid() != process:
        forks.leave(end.error)
    verdict = judge(run, end)
    if handler.hooks.ended:
        await handler.hooks.await_ended(run, _ending(verdict, loop.time() - begun))
    return verdict


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


def _ending(verdict: Verdict, seconds: float) -> Ending:
    return Ending(outcome=verdict.outcome.value, message=verdict.message, seconds=seconds)
