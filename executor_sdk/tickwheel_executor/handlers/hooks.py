"""Hooks around every handler: before, after, and when an attempt no longer counts."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from tickwheel_executor.run.context import Run, running

_logger = logging.getLogger("tickwheel.executor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an attempt ended, for `on_ended`."""

    outcome: str  # succeeded, failed, skipped, timed_out, cancelled, cut_off
    message: str  # why it did not succeed; empty when it did
    seconds: float  # from its start to the end of its handler


StartedHook = Callable[[Run], Any]
EndedHook = Callable[[Run, Ending], Any]
LostHook = Callable[[Run], Any]


@dataclass(slots=True)
class Hooks:
    """All hooks of an executor, in the order of registration."""

    started: list[StartedHook] = field(default_factory=list)
    ended: list[EndedHook] = field(default_factory=list)
    lost: list[LostHook] = field(default_factory=list)
    _background: set[asyncio.Task[Any]] = field(default_factory=set)  # the loop has weak references

    def call_started(self, run: Run) -> None:
        """Before a plain handler, in its thread or process. If a hook raises, the run fails.

        An `async def` hook gets an event loop of its own.
        """
        for hook in self.started:
            value = hook(run)
            if inspect.isawaitable(value):
                asyncio.run(_awaited(value))

    async def await_started(self, run: Run) -> None:
        """The same before an async handler, in its task."""
        for hook in self.started:
            value = hook(run)
            if inspect.isawaitable(value):
                await value

    def call_ended(self, run: Run, ending: Ending) -> None:
        """After a plain handler. Exceptions of hooks are only written to the run's log."""
        for hook in self.ended:
            try:
                value = hook(run, ending)
                if inspect.isawaitable(value):
                    asyncio.run(_awaited(value))
            except Exception:  # user code may raise anything
                run.log.exception("the hook %s failed", _name(hook))

    async def await_ended(self, run: Run, ending: Ending) -> None:
        """The same after an async handler."""
        for hook in self.ended:
            try:
                value = hook(run, ending)
                if inspect.isawaitable(value):
                    await value
            except (Exception, asyncio.CancelledError):  # likewise
                run.log.exception("the hook %s failed", _name(hook))

    def call_lost(self, run: Run) -> None:
        """On the loop, when the attempt no longer counts; its handler may still be running."""
        for hook in self.lost:
            context = copy_context()
            context.run(running.set, run)
            try:
                value = context.run(hook, run)
            except Exception:  # likewise
                _logger.exception("the hook %s failed for %r", _name(hook), run)
                continue
            if inspect.isawaitable(value):
                loop = asyncio.get_running_loop()
                task = loop.create_task(_logged(value, hook, run), context=context)
                self._background.add(task)
                task.add_done_callback(self._background.discard)


async def _awaited(value: Any) -> None:
    await value


async def _logged(value: Any, hook: LostHook, run: Run) -> None:
    try:
        await value
    except Exception:  # likewise
        _logger.exception("the hook %s failed for %r", _name(hook), run)


def _name(hook: object) -> str:
    return str(getattr(hook, "__qualname__", hook))
