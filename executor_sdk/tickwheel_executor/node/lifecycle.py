"""From the start of a node to its end, and to the start of the next one."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom
from urllib.parse import quote

from tickwheel_executor.errors import ConfigurationError
from tickwheel_executor.handlers.handlers import Handlers
from tickwheel_executor.link.channel import connect
from tickwheel_executor.logs.capture import capture
from tickwheel_executor.process import forks
from tickwheel_executor.settings import NodeSettings
from tickwheel_executor.spool.file_spool import FileSpool

from .node import Node

_logger = logging.getLogger("tickwheel.executor")


class NodeLifecycle:
    """Holds at most one node; each start makes a new one, which admins know by another key.

    Args:
        settings: asked at each start, for a forked process has another name.
    """

    def __init__(
        self,
        settings: Callable[[], NodeSettings],
        handlers: Handlers,
        *,
        spool_dir: Path | None,
        grace_seconds: float,
    ) -> None:
        self._settings = settings
        self._handlers = handlers
        self._spool_dir = spool_dir
        self._grace_seconds = grace_seconds
        self._node: Node | None = None
        self._spool: FileSpool | None = None  # of the newest node
        forks.watch(self)

    async def start(self) -> None:
        """Make a node on the running loop; returns when its spool is open.

        Raises:
            ConfigurationError: there is one already.
            SpoolError: results could not be kept.
        """
        if self._node is not None:
            raise ConfigurationError(["this executor has been started already"])
        settings = self._settings()
        random = SystemRandom()
        directory = self._spool_dir or _default_spool_dir(settings.executor)
        self._spool = spool = FileSpool(directory, f"{random.getrandbits(128):032x}")
        self._node = node = Node(
            settings,
            self._handlers,
            connect=connect,
            spool=spool,
            clock=lambda: time.time_ns() // 1_000_000,
            random=random,
        )
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
        except BaseException:  # cancelled too: the host is left as it was found
            self._node = None
            capture.end()
            node.abort(break_channels=True)
            spool.give_up()
            raise

    async def until_refused(self) -> str:
        """Wait until every configured admin has refused the node and none ever let it in; why."""
        if self._node is None:
            raise ConfigurationError(["this executor has not been started"])
        return await self._node.until_refused()

    async def stop(self) -> bool:
        """Finish what runs, deliver it and end; returns whether nothing was left behind.

        Nothing to do when there is no node.
        """
        node, spool = self._node, self._spool
        if node is None or spool is None:
            return True
        try:
            clean = await node.drain(self._grace_seconds)
        except BaseException:  # cancelled while draining: nothing may go on behind the back
            node.abort(break_channels=True)
            spool.give_up()  # unlocked, what is in it is delivered by the next node
            raise
        finally:
            if self._node is node:  # else another stop was quicker
                self._node = None
                capture.end()
        _logger.info("ended%s", "" if clean else "; something was left behind, see above")
        return clean

    def forked(self) -> None:
        """In a child: the node is the parent's."""
        self._node = None


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
