"""The front door of the SDK: name handlers, run, go away in good order."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar, Unpack

from .handlers.handlers import HandlerFunction, Handlers, limits_of
from .handlers.job_fields import JobFields
from .logs.capture import set_up_logging
from .node.embedding import EmbeddedNode
from .node.lifecycle import NodeLifecycle
from .process.loop_thread import cancel_leftovers
from .process.pool import PoolProcessReached, in_pool_process
from .process.signals import ShutdownSignals
from .settings import NodeSettings, check, default_name

_logger = logging.getLogger("tickwheel.executor")
_Function = TypeVar("_Function", bound=HandlerFunction)
_Hook = TypeVar("_Hook", bound=Callable[..., Any])

REFUSED_EXIT_CODE = 78  # EX_CONFIG of sysexits.h: for supervisors that are not to try again


class Executor:
    """One node of an executor: connects to the admins and runs what they send.

    Args:
        executor: Name of the executor, as it was made in the console. TICKWHEEL_EXECUTOR when
            omitted.
        admins: Base URLs of the admins; one is enough, the others are learned from it.
            TICKWHEEL_ADMINS (with commas) when omitted.
        token: The executor's token. TICKWHEEL_TOKEN when omitted.
        slots: How many runs this process executes at once, 1 to 10,000.
        name: How the console shows this process; "<hostname>-<pid>" when omitted.
        labels: Anything worth knowing about this process, for routing and for people.
        weight: Its share of the runs of jobs that are spread by weight, 1 to 1,000.
        spool_dir: Where results wait until an admin has them; must outlive the process.
            $XDG_STATE_HOME/tickwheel/<executor> or ~/.local/state/… when omitted.
        shutdown_grace_seconds: How long running handlers may take to finish at shutdown.
        max_log_mb: How much one attempt may write to its log, in MiB, 1 to 100,000; what it writes
            beyond that is dropped and counted.

    Raises:
        ConfigurationError: naming every setting that cannot work.
    """

    def __init__(
        self,
        executor: str | None = None,
        *,
        admins: Sequence[str] | None = None,
        token: str | None = None,
        slots: int = 16,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        weight: int = 1,
        spool_dir: str | os.PathLike[str] | None = None,
        shutdown_grace_seconds: float = 30.0,
        max_log_mb: int = 100,
    ) -> None:
        self._settings = check(
            executor=executor,
            admins=admins,
            token=token,
            name=name,
            slots=slots,
            labels=labels or {},
            weight=weight,
            max_log_mb=max_log_mb,
            shutdown_grace_seconds=shutdown_grace_seconds,
        )
        self._has_name = bool(name)
        self._grace_seconds = shutdown_grace_seconds
        self._handlers = Handlers()
        self._lifecycle = NodeLifecycle(
            lambda: self.settings,
            self._handlers,
            spool_dir=Path(spool_dir) if spool_dir is not None else None,
            grace_seconds=shutdown_grace_seconds,
        )
        self._embedded = EmbeddedNode(self._lifecycle, grace_seconds=shutdown_grace_seconds)

    @property
    def settings(self) -> NodeSettings:
        """The settings in force, the environment included."""
        if self._has_name:
            return self._settings
        return replace(self._settings, name=default_name())  # a forked process has one of its own

    @property
    def handlers(self) -> Handlers:
        """What was registered; for `tickwheel_executor.testing`."""
        return self._handlers

    def handler(
        self,
        name: str,
        *,
        isolation: Literal["process"] | None = None,
        memory_mb: int | None = None,
        cpu_seconds: float | None = None,
        job: str | None = None,
        **fields: Unpack[JobFields],
    ) -> Callable[[_Function], _Function]:
        """Let the decorated `def` or `async def` run the jobs that name this handler.

        Its signature says what it takes: the run (annotated `Run`, or named `run`), and the run's
        parameters by name and type. What it returns becomes the run's result, and what it raises
        fails the run.

        Args:
            name: How jobs call it.
            isolation: "process" runs it in a process of its own, from a pool: it can be stopped and
                killed whatever it does, and uses a processor of its own. It has to be at the top
                level of a module. Without, `async def` shares the event loop, and `def` has a
                thread.
            memory_mb: MiB that a run may take, in a process, beyond what that has; on Linux.
            cpu_seconds: CPU time that a run may take, in a process; whole seconds count.
            job: Name of a job to declare with it; the handler's name when only fields are given.
            fields: What that job says, as in the API: `cron="0 3 * * *"`, `timezone="…"`, ….

        Raises:
            HandlerError: a name is taken, a field unknown, a limit impossible, or the executor has
                started. What a signature cannot say is refused when it starts.
        """
        limits = limits_of(name, isolation, memory_mb=memory_mb, cpu_seconds=cpu_seconds)

        def register(function: _Function) -> _Function:
            self._handlers.add(name, function, limits)
            if job is not None or fields:
                self._handlers.declare(job if job is not None else name, name, fields)
            return function

        return register

    def job(self, name: str, *, handler: str, **fields: Unpack[JobFields]) -> None:
        """Declare a further job of a handler of this executor.

        It is proposed to the admin when this process connects; what becomes of it there is the
        executor's policy: applied at once, after a person has agreed, or never.

        Raises:
            HandlerError: the name is taken, a field unknown, or the executor has started. A handler
                that is not here is refused when it starts.
        """
        self._handlers.declare(name, handler, fields)

    @property
    def declared_jobs(self) -> list[dict[str, Any]]:
        """The jobs declared so far, as they are sent."""
        return [dict(job) for job in self._handlers.jobs]

    # --- around every handler --------------------------------------------------------------------

    def on_started(self, hook: _Hook) -> _Hook:
        """Call the decorated `def` or `async def` with the run, before each handler.

        It runs where the handler will: in its task, thread or process. What it raises fails the
        run, `Skip` and the like included, and the handler is not called.

        Raises:
            HandlerError: the executor has started.
        """
        self._handlers.add_hook(self._handlers.hooks.started, hook)
        return hook

    def on_ended(self, hook: _Hook) -> _Hook:
        """Call it with the run and its `Ending` after each handler, however that ended.

        It runs where the handler ran; what it raises is in the run's log and changes nothing. It
        is not called when the process of a handler died, nor for parameters that were refused.

        Raises:
            HandlerError: the executor has started.
        """
        self._handlers.add_hook(self._handlers.hooks.ended, hook)
        return hook

    def on_lost(self, hook: _Hook) -> _Hook:
        """Call it with the run when this node learns that the attempt does not count any more.

        An admin took the node for dead and has given the run up, or no admin can be reached. On
        the node's event loop: do not block it. The handler is being stopped, if it can be.

        Raises:
            HandlerError: the executor has started.
        """
        self._handlers.add_hook(self._handlers.hooks.lost, hook)
        return hook

    # --- on its own ------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until SIGTERM or SIGINT, then finish what is running and return.

        Exits the process with 1 when something had to be left behind, with 78 when every admin has
        refused this node (its token, name or version) from the start; a second signal exits at
        once. Call it from the main thread; it makes its own event loop. Logging is set up at level
        INFO when the program has not done that itself.

        Raises:
            ConfigurationError: it runs already.
            SpoolError: the spool directory cannot be used.
        """
        if in_pool_process():  # the script has no main guard, and is only read for its handlers
            return
        set_up_logging(logging.INFO)
        loop = asyncio.new_event_loop()
        try:
            code = loop.run_until_complete(self._run_until_signal())
            loop.run_until_complete(cancel_leftovers())
        finally:
            loop.close()
            gc.unfreeze()
        if code:
            sys.exit(code)

    async def _run_until_signal(self) -> int:
        loop = asyncio.get_running_loop()
        asked: asyncio.Future[signal.Signals] = loop.create_future()

        def on_signal(number: signal.Signals) -> None:
            if not asked.done():
                asked.set_result(number)
                return
            _logger.warning("%s again: exiting at once", number.name)
            logging.shutdown()
            os._exit(128 + number)  # handlers may refuse to end; results are safe in the spool

        signals = ShutdownSignals(on_signal)
        signals.take()
        # What is there now stays for good, modules above all. To look through it for garbage again
        # and again would cost more than a fifth of what a run of a short handler costs.
        gc.collect()
        gc.freeze()
        await self._lifecycle.start()
        refused = loop.create_task(self._lifecycle.until_refused())
        await asyncio.wait((asked, refused), return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            _logger.error("stopping, for no admin lets this node in: %s", refused.result())
            await self._lifecycle.stop()
            return REFUSED_EXIT_CODE
        refused.cancel()
        _logger.info(
            "%s: no new runs; running ones have %g s to finish",
            asked.result().name,
            self._grace_seconds,
        )
        return 0 if await self._lifecycle.stop() else 1

    # --- inside another service ------------------------------------------------------------------

    def start(self, timeout: float | None = None) -> None:
        """Work in a thread of its own, beside whatever this process does; returns at once.

        Takes over no signals and does not wait for admins. When the main thread ends, what runs is
        finished as by `stop`. In a forked child nothing goes on: start it there again, and the
        child is a node of its own.

        Args:
            timeout: How many seconds the disk may take to open the spool; None: as long as it
                needs.

        Raises:
            ConfigurationError: it was started already.
            SpoolError: the spool directory cannot be used, or did not answer in time.
        """
        if not in_pool_process():
            self._embedded.start(timeout)

    def stop(self) -> bool:
        """End what `start` began: finish what is running, deliver it, and return when it is done.

        Returns whether nothing was left behind; at once, and True, when nothing was started.

        Raises:
            RuntimeError: a handler of this executor calls it, which would wait for itself.
        """
        return self._embedded.stop()

    async def __aenter__(self) -> Executor:
        """Start to work, on the running loop; takes over no signals and does not wait for admins.

        Raises:
            ConfigurationError: it was started already.
            SpoolError: the spool directory cannot be used.
        """
        if in_pool_process():
            raise PoolProcessReached  # what comes next would wait for ever
        await self._lifecycle.start()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        """Finish what is running, deliver it, and end."""
        await self._lifecycle.stop()

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """Work for as long as an ASGI application does: `FastAPI(lifespan=executor.lifespan)`."""
        async with self:
            yield

    async def cleanup_ctx(self, app: object) -> AsyncIterator[None]:
        """The same for aiohttp: `app.cleanup_ctx.append(executor.cleanup_ctx)`."""
        async with self:
            yield
