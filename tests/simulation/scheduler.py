"""An event loop in virtual time that knows which simulated process each step belongs to.

So a process can be frozen or killed between any two steps, as SIGSTOP and SIGKILL do: a frozen one
takes its steps when it is thawed, a dead one never does, and none of its `finally` blocks run.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from enum import Enum, auto
from math import inf
from typing import Any

_process: ContextVar[Process | None] = ContextVar("simulated_process", default=None)

STEPS_WITHOUT_TIME = 200_000  # more than this at one instant is a loop that never waits


def current_process() -> Process | None:
    """The simulated process this code runs in; None for the world around them."""
    return _process.get()


class Life(Enum):
    """What happens with the steps of a process."""

    RUNNING = auto()
    FROZEN = auto()  # they wait
    DEAD = auto()  # they are kept, and only ever taken when the world is dismantled


class Process:
    """All steps that were set off, directly or not, by what was spawned here."""

    def __init__(self, loop: SimLoop, name: str) -> None:
        self.name = name
        self.life = Life.RUNNING
        self.fuse: int | None = None  # steps until `on_fuse` is called
        self.on_fuse: Callable[[], None] | None = None
        self.on_death: Callable[[Process], None] | None = None
        self.died_at: float | None = None  # virtual seconds
        self.freezes = 0
        self.frozen: list[tuple[float, float]] = []  # from when to when; virtual seconds
        self._loop = loop
        self._context = Context()
        self._context.run(_process.set, self)
        self._parked: list[asyncio.Handle] = []
        self._spawned: list[asyncio.Task[Any]] = []
        loop.processes.append(self)

    @property
    def is_dead(self) -> bool:
        return self.life is Life.DEAD

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Start a coroutine in this process; an error that ends it is reported at once."""
        task = self._loop.create_task(coroutine, name=name, context=self._context.copy())
        task.add_done_callback(self._report, context=Context())
        return task

    def freeze(self) -> None:
        if self.life is Life.RUNNING:
            self.life = Life.FROZEN
            self.freezes += 1
            self.frozen.append((self._loop.now, inf))

    def thaw(self) -> None:
        if self.life is Life.FROZEN:
            self.life = Life.RUNNING
            self.frozen[-1] = (self.frozen[-1][0], self._loop.now)
            self._release()

    def kill(self) -> None:
        if self.life is not Life.DEAD:
            self.died_at = self._loop.now
        self.life = Life.DEAD
        self.fuse = None
        if self.on_death is not None:
            self.on_death(self)

    def dismantle(self) -> list[asyncio.Task[Any]]:
        """Let even the dead take steps again, and cancel everything; returns what has not ended."""
        self.life = Life.RUNNING
        self.fuse = None
        self._release()
        left = [task for task in self._spawned if not task.done()]
        for task in left:
            task.cancel()
        return left

    def owns(self, task: asyncio.Task[Any]) -> None:
        """Keep the task: one that is collected as garbage would run its `finally` blocks."""
        self._spawned.append(task)
        if len(self._spawned) > 2_000:
            self._spawned = [task for task in self._spawned if not task.done()]

    def admits(self, handle: asyncio.Handle) -> bool:
        """Whether the step may be taken now; if not, it is kept."""
        if self.fuse is not None and self.life is Life.RUNNING:
            self.fuse -= 1
            if self.fuse <= 0 and self.on_fuse is not None:
                self.fuse = None
                Context().run(self.on_fuse)
        if self.life is Life.RUNNING:
            return True
        self._parked.append(handle)
        return False

    def _report(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            told = {"message": f"{task.get_name()} of {self.name}", "exception": error}
            self._loop.call_exception_handler(told)

    def _release(self) -> None:
        parked, self._parked = self._parked, []
        self._loop.take_back(parked)


class SimLoop(asyncio.BaseEventLoop):
    """Jumps to the next timer when nothing is left to do. Has no sockets, pipes or threads.

    `_ready`, `_scheduled` and `_run_once` are asyncio's own, unchanged since Python 3.4.
    """

    _ready: Any
    _scheduled: Any

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.processes: list[Process] = []
        self._steps = 0

    def time(self) -> float:
        return self.now

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task = super().create_task(coro, **options)
        context = options.get("context") or copy_context()
        process = context.get(_process)
        if process is not None:
            process.owns(task)
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """There are no threads: what poses as an executor does the work in virtual time."""
        return self.create_task(executor.later(func, *args))

    def world_at(self, when: float, action: Callable[..., None], *args: Any) -> None:
        """Do something at a time, outside of every process."""
        self.call_at(when, action, *args, context=Context())

    def world_later(self, seconds: float, action: Callable[..., None], *args: Any) -> None:
        """Do something after a while, outside of every process."""
        self.world_at(self.now + seconds, action, *args)

    def world_soon(self, action: Callable[..., None], *args: Any) -> None:
        """Do something before time goes on, outside of every process."""
        self.call_soon(action, *args, context=Context())

    def take_back(self, handles: list[asyncio.Handle]) -> None:
        """Steps that were kept from running are due again."""
        self._ready.extend(handles)

    def _run_once(self) -> None:
        scheduled, ready = self._scheduled, self._ready
        while scheduled and scheduled[0].cancelled():
            heapq.heappop(scheduled)._scheduled = False
        if not ready:
            if not scheduled:
                raise AssertionError("the simulation waits for something that nothing sets off")
            if scheduled[0].when() > self.now:
                self.now = scheduled[0].when()
                self._steps = 0
        while scheduled and scheduled[0].when() <= self.now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            ready.append(handle)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle.cancelled():
                continue
            process = handle._context.get(_process)
            if process is None or process.admits(handle):
                handle._run()
        self._steps += 1
        if self._steps > STEPS_WITHOUT_TIME:
            raise AssertionError(f"the simulation does not get past {self.now:.6f} s")

    def _process_events(self, event_list: Any) -> None:
        raise AssertionError("there is nothing to select on")

    def _write_to_self(self) -> None:
        pass  # only other threads would need to wake this loop
