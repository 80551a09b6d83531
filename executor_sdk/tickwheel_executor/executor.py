"""The front door of the SDK: name handlers, run, go away in good order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import TypeVar
from urllib.parse import quote

from .channel import connect
from .errors import ConfigurationError
from .file_spool import FileSpool
from .handlers import HandlerFunction, Handlers
from .log_capture import capture
from .node import Node
from .settings import NodeSettings, check

_logger = logging.getLogger("tickwheel.executor")
_Function = TypeVar("_Function", bound=HandlerFunction)

_LEFTOVER_SECONDS = 2.0


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
    ) -> None:
        self._settings = check(
            executor=executor,
            admins=admins,
            token=token,
            name=name,
            slots=slots,
            labels=labels or {},
            weight=weight,
            shutdown_grace_seconds=shutdown_grace_seconds,
        )
        self._spool_dir = Path(spool_dir) if spool_dir is not None else None
        self._grace_seconds = shutdown_grace_seconds
        self._handlers = Handlers()
        self._node: Node | None = None

    @property
    def settings(self) -> NodeSettings:
        """The settings in force, the environment included."""
        return self._settings

    @property
    def handlers(self) -> Handlers:
        """What was registered; for `tickwheel_executor.testing`."""
        return self._handlers

    def handler(self, name: str) -> Callable[[_Function], _Function]:
        """Let the decorated `def` or `async def` run the jobs that name this handler.

        It takes nothing or one argument, the `Run`; what it returns becomes the run's result, and
        what it raises fails the run.

        Raises:
            HandlerError: the name is taken, the signature unsuitable, or the executor has started.
        """

        def register(function: _Function) -> _Function:
            self._handlers.add(name, function)
            return function

        return register

    # --- on its own ------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until SIGTERM or SIGINT, then finish what is running and return.

        Exits the process with 1 when something had to be left behind; a second signal exits at
        once. Call it from the main thread; it makes its own event loop. Logging is set up at level
        INFO when the program has not done that itself.
        """
        if not logging.getLogger().handlers:
            logging.basicConfig(
                level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
            )
        loop = asyncio.new_event_loop()
        try:
            clean = loop.run_until_complete(self._run_until_signal())
            loop.run_until_complete(_cancel_leftovers())
        finally:
            loop.close()
        if not clean:
            sys.exit(1)

    async def _run_until_signal(self) -> bool:
        loop = asyncio.get_running_loop()
        asked: asyncio.Future[signal.Signals] = loop.create_future()

        def on_signal(number: signal.Signals) -> None:
            if not asked.done():
                asked.set_result(number)
                return
            _logger.warning("%s again: exiting at once", number.name)
            logging.shutdown()
            os._exit(128 + number)  # handlers may refuse to end; results are safe in the spool

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal, number)
        await self._start()
        number = await asked
        _logger.info(
            "%s: no new runs; running ones have %g s to finish", number.name, self._grace_seconds
        )
        return await self._stop()

    # --- inside another service ------------------------------------------------------------------

    async def __aenter__(self) -> Executor:
        """Start to work, on the running loop; takes over no signals and does not wait for admins.

        Raises:
            SpoolError: the spool directory cannot be used.
        """
        await self._start()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        """Finish what is running, deliver it, and end."""
        await self._stop()

    async def _start(self) -> None:
        if self._node is not None:
            raise ConfigurationError(["an Executor can be started once; make another one"])
        settings = self._settings
        random = SystemRandom()
        directory = self._spool_dir or _default_spool_dir(settings.executor)
        node = Node(
            settings,
            self._handlers,
            connect=connect,
            spool=FileSpool(directory, f"{random.getrandbits(128):032x}"),
            clock=lambda: time.time_ns() // 1_000_000,
            random=random,
        )
        self._node = node
        _logger.info(
            "executor %s, node %s: %d handlers, %d slots, admins %s, spool %s",
            settings.executor,
            settings.name,
            len(self._handlers),
            settings.slots,
            ", ".join(settings.admins),
            directory,
        )
        if not len(self._handlers):
            _logger.warning("no handlers are registered: every run will be refused")
        capture.begin()
        try:
            await node.start()
        except BaseException:  # cancelled too: the host's logging is left as it was found
            capture.end()
            raise

    async def _stop(self) -> bool:
        node = self._node
        if node is None:
            return True
        try:
            clean = await node.drain(self._grace_seconds)
        except BaseException:  # cancelled while draining: nothing may go on behind the back
            node.abort(break_channels=True)
            raise
        finally:
            capture.end()
        _logger.info("ended%s", "" if clean else "; something was left behind, see above")
        return clean


def _default_spool_dir(executor: str) -> Path:
    base = os.environ.get("XDG_STATE_HOME", "")
    try:
        root = Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        raise ConfigurationError(
            ["this user has no home directory for the spool: give `spool_dir`"]
        ) from None
    # A name is any text: it must stay one path component, and not be "." or "..".
    return root / "tickwheel" / quote(executor, safe="").replace(".", "%2E")


async def _cancel_leftovers() -> None:
    """Cancel what is still on the loop, and do not wait long for what refuses to end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for other in others:
        other.cancel()
    if others:
        await asyncio.wait(others, timeout=_LEFTOVER_SECONDS)
