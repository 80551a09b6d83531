"""The public class of the SDK: register handlers, run them, shut down gracefully."""

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
from typing import Any, Literal, TypeVar, Unpack

from .handlers.handlers import HandlerFunction, Handlers, limits_of
from .handlers.job_fields import JobFields, WorkflowFields
from .logs.capture import set_up_logging
from .node.embedding import EmbeddedNode
from .node.lifecycle import NodeLifecycle
from .node.metrics import NodeMetrics
from .offers import Offer
from .process.loop_thread import cancel_leftovers
from .process.pool import PoolProcessReached, in_pool_process
from .process.signals import ShutdownSignals
from .run.redelivery import RedeliveryCheck
from .settings import NodeSettings, check, default_name
from .workflows.workflow import Workflow

_logger = logging.getLogger("tickwheel.executor")
_Function = TypeVar("_Function", bound=HandlerFunction)
_Hook = TypeVar("_Hook", bound=Callable[..., Any])

REFUSED_EXIT_CODE = 78  # EX_CONFIG of sysexits.h: for supervisors that are not to try again


class Executor:
    """One node of an executor: connects to the admins and runs the jobs that they send.

    Args:
        executor: Name of the executor, as it was made in the console. TICKWHEEL_EXECUTOR when
            omitted.
        admins: Base URLs of the admins; one is enough, the others are learned from it.
            TICKWHEEL_ADMINS (comma-separated) when omitted.
        token: The executor's token. TICKWHEEL_TOKEN when omitted.
        slots: How many runs this process executes concurrently, 1 to 10,000.
        name: How the console shows this process; "<hostname>-<pid>" when omitted.
        labels: Key-value pairs that describe this process, for routing and for the console.
        weight: Its share of the runs of jobs with weighted routing, 1 to 1,000.
        spool_dir: Where results wait until an admin has them; must outlive the process.
            $XDG_STATE_HOME/tickwheel/<executor> or ~/.local/state/… when omitted.
        shutdown_grace_seconds: How long running handlers may take to finish at shutdown.
        max_log_mb: How much one attempt may write to its log, in MiB, 1 to 100,000; further lines
            are dropped and counted.
        tracing: Record a span for each run with OpenTelemetry, which the extra `otel` installs
            (docs/tracing.md). TICKWHEEL_TRACING when omitted, else False.
        ca_file: Authorities that sign the certificates of admins, in PEM; no others are trusted.
            TICKWHEEL_CA_FILE when omitted, else those of the system.
        client_cert: Certificate to show to admins that let nodes in only with one, in PEM.
            TICKWHEEL_CLIENT_CERT when omitted.
        client_key: Its key. TICKWHEEL_CLIENT_KEY when omitted, else in the file of the certificate.
        offers: Ready-made handlers to allow on this machine, such as `Script` and `Command`
            (tickwheel_executor.offers).

    Raises:
        ConfigurationError: lists every invalid setting.
        HandlerError: two offers have a handler of the same name.
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
        tracing: bool | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        client_cert: str | os.PathLike[str] | None = None,
        client_key: str | os.PathLike[str] | None = None,
        offers: Sequence[Offer] = (),
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
            tracing=tracing,
            ca_file=ca_file,
            client_cert=client_cert,
            client_key=client_key,
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
        for offer in offers:
            offer.register(self)

    @property
    def settings(self) -> NodeSettings:
        """The settings in force, the environment included."""
        if self._has_name:
            return self._settings
        return replace(self._settings, name=default_name())  # a forked process has one of its own

    @property
    def handlers(self) -> Handlers:
        """The registered handlers; for `tickwheel_executor.testing`."""
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
        """Register the decorated `def` or `async def` as a handler for jobs.

        It receives the run (the parameter annotated `Run`, or named `run`) and the run's parameters
        by name and type. Its return value becomes the run's result; an exception fails the run.

        Args:
            name: The name that jobs use.
            isolation: "process" runs it in a separate process from a pool, which can be killed and
                does not share the interpreter with other runs. The function must be at the top
                level of a module. Without it, an `async def` shares the event loop, and a `def`
                runs in a thread.
            memory_mb: MiB that a run may use on top of what its process has; only on Linux.
            cpu_seconds: CPU time that a run may use in its process, in whole seconds.
            job: Name of a job to declare; the handler's name when only fields are given.
            fields: Fields of that job, as in the API: `cron="0 3 * * *"`, `timezone="…"`, ….

        Raises:
            HandlerError: a name is taken, a field unknown, a limit invalid, or the executor has
                started. An invalid signature raises when the executor starts.
        """
        limits = limits_of(name, isolation, memory_mb=memory_mb, cpu_seconds=cpu_seconds)

        def register(function: _Function) -> _Function:
            self._handlers.add(name, function, limits)
            if job is not None or fields:
                self._handlers.declare(job if job is not None else name, name, fields)
            return function

        return register

    def job(self, name: str, *, handler: str, **fields: Unpack[JobFields]) -> None:
        """Declare another job for a handler of this executor.

        It is proposed to the admin when this process connects. The executor's policy decides
        whether it is applied at once, after a user has agreed, or never.

        Raises:
            HandlerError: the name is taken, a field unknown, or the executor has started. An
                unknown handler raises when the executor starts.
        """
        self._handlers.declare(name, handler, fields)

    def workflow(self, name: str, **fields: Unpack[WorkflowFields]) -> Workflow:
        """Declare a workflow; add its steps to what this returns.

            month_end = executor.workflow("month-end", cron="0 3 1 * *")
            revenue = month_end.step("revenue", sum_revenue)
            month_end.step("close", close_books, needs=[revenue])

        It is proposed like a declared job. When the executor starts, everything that is wrong with
        it is told at once, before anything is sent.

        Args:
            fields: of its job: `cron="…"`, `parameters={…}`, `timeout_seconds`, `owner`, ….

        Raises:
            HandlerError: the name is taken, a field unknown, or the executor has started.
        """
        workflow = Workflow(name, self._handlers)
        self._handlers.declare_workflow(workflow, fields)
        return workflow

    @property
    def declared_jobs(self) -> list[dict[str, Any]]:
        """The jobs and workflows declared so far, as they are sent.

        Raises:
            HandlerError: a step of a workflow has a function that is no handler.
        """
        return [dict(job) for job in self._handlers.jobs]

    def metrics(self) -> NodeMetrics:
        """What this node has done and is doing, for the service's own metrics.

        Callable from any thread, at any time; costs microseconds. For prometheus-client there is
        `tickwheel_executor.prometheus.ExecutorCollector`.
        """
        return self._lifecycle.metrics()

    # --- around every handler ---------------------------------------------------------------------

    def on_started(self, hook: _Hook) -> _Hook:
        """Call the decorated `def` or `async def` with the run, before each handler.

        It runs in the handler's task, thread or process. If it raises (`Skip` and the like
        included), the run ends with that exception and the handler is not called.

        Raises:
            HandlerError: the executor has started.
        """
        self._handlers.add_hook(self._handlers.hooks.started, hook)
        return hook

    def on_ended(self, hook: _Hook) -> _Hook:
        """Call it with the run and its `Ending` after each handler, successful or not.

        It runs in the handler's task, thread or process. An exception is written to the run's log
        and changes nothing else. It is not called when the handler's process died or the
        parameters were refused.

        Raises:
            HandlerError: the executor has started.
        """
        self._handlers.add_hook(self._handlers.hooks.ended, hook)
        return hook

    def on_lost(self, hook: _Hook) -> _Hook:
        """Call it with the run when this node learns that the attempt no longer counts.

        Either an admin considered the node dead and gave the run up, or no admin can be reached.
        It is called on the node's event loop: do not block. The handler is being stopped, if that
        is possible.

        Raises:
            HandlerError: the executor has started.
        """
        self._handlers.add_hook(self._handlers.hooks.lost, hook)
        return hook

    def receipts(self, source: Any) -> None:
        """Look for the receipt of a run that is delivered again, before its handler is called.

        If an earlier attempt has committed its work, the run succeeds at once with the stored
        result. Else this attempt is noted in the table, in a transaction of its own: from then on
        no earlier one, say behind a cut cable, can commit (docs/receipts.md). First attempts cost
        nothing. Call it before the first `on_started`, if those do work.

        Args:
            source: an engine of SQLAlchemy, a connection of Django, or a function that returns one
                of these or a new DB-API connection. For handlers with isolation="process", a
                function at the top level of a module.

        Raises:
            HandlerError: the executor has started.
        """
        self._handlers.add_hook(self._handlers.hooks.started, RedeliveryCheck(source))

    # --- as a program -----------------------------------------------------------------------------

    def run(self) -> None:
        """Run until SIGTERM or SIGINT, then finish running handlers and return.

        Exits the process with 1 when something had to be left behind, and with 78 when every admin
        has refused this node (its token, name or version) from the start. A second signal exits at
        once. Call it from the main thread; it creates its own event loop. Logging is set up at
        level INFO unless the program has done that itself.

        Raises:
            ConfigurationError: it is already running.
            SpoolError: the spool directory cannot be used.
        """
        if in_pool_process():  # the script has no main guard; it is only imported for its handlers
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
        # The objects that exist now, mostly modules, stay. Scanning them in every collection would
        # add more than a fifth to the cost of a short run.
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

    # --- inside another service -------------------------------------------------------------------

    def start(self, timeout: float | None = None) -> None:
        """Run in a background thread; returns when the spool is open.

        Installs no signal handlers and does not wait for admins. When the main thread ends, the
        node is stopped as by `stop`. A forked child has no node: start it there again, as a node
        of its own.

        Args:
            timeout: Seconds to wait for the spool to open; None: no limit.

        Raises:
            ConfigurationError: it was already started.
            SpoolError: the spool directory cannot be used, or did not answer in time.
        """
        if not in_pool_process():
            self._embedded.start(timeout)

    def stop(self) -> bool:
        """Stop what `start` started: finish running handlers and deliver their results.

        Returns whether nothing was left behind; True at once if nothing was started.

        Raises:
            RuntimeError: called from a handler of this executor, which would deadlock.
        """
        return self._embedded.stop()

    async def __aenter__(self) -> Executor:
        """Start on the running loop; installs no signal handlers and does not wait for admins.

        Raises:
            ConfigurationError: it was already started.
            SpoolError: the spool directory cannot be used.
        """
        if in_pool_process():
            raise PoolProcessReached  # the block would wait for ever
        await self._lifecycle.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Finish running handlers, deliver their results, and stop."""
        await self._lifecycle.stop()

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """Run as long as an ASGI application: `FastAPI(lifespan=executor.lifespan)`."""
        async with self:
            yield

    async def cleanup_ctx(self, app: object) -> AsyncIterator[None]:
        """The same for aiohttp: `app.cleanup_ctx.append(executor.cleanup_ctx)`."""
        async with self:
            yield
