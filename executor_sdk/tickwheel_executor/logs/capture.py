"""Copies what handlers log or print into the log of their run.

Between `begin` and `end`, every record passes through here after the logger has called its logging
handlers. A logging handler on the root logger would be simpler, but it has side effects:
`logging.basicConfig`, Flask and werkzeug configure nothing if there is one, and the service would
lose output.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from copy import copy

from tickwheel_executor.process import forks
from tickwheel_executor.run.context import Run, running
from tickwheel_shared.protocol import Level
from tickwheel_shared.secret_mask import SecretMask

from .prints import PrintCapture, muted

_CallHandlers = Callable[[logging.Logger, logging.LogRecord], None]
_format = logging.Formatter().format
_LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def set_up_logging(level: int) -> None:
    """Log to stderr, unless the program has set up logging itself."""
    if not logging.getLogger().handlers:
        logging.basicConfig(level=level, format=_LOG_FORMAT)


class LogCapture:
    """Captures while any executor of the process is running."""

    def __init__(self) -> None:
        self._users = 0
        self._guard = threading.Lock()
        self._prints = PrintCapture()
        self._before: _CallHandlers | None = None  # what we have replaced
        self._ours: _CallHandlers | None = None

    def begin(self) -> None:
        """An executor has started."""
        with self._guard:
            self._users += 1
            if self._users == 1:
                self._prints.begin()
                self._install()

    def end(self) -> None:
        """An executor has ended."""
        with self._guard:
            self._users -= 1
            if self._users == 0:
                self._prints.end()
                self._remove()

    def forked(self) -> None:
        """In a child: no executor is running."""
        self._guard = threading.Lock()
        if self._users:
            self._users = 1
            self.end()

    def _install(self) -> None:
        def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
            run = running.get(None)
            # Code that has replaced us since may still call us after `end`.
            if run is None or self._ours is not call_handlers:
                before(logger, record)
                return
            if run.log.mask is not None:
                record = _without_secrets(record, run.log.mask)
            with muted():  # a handler that writes to stderr
                before(logger, record)
            _pass_on(record, run)

        before = self._before = logging.Logger.callHandlers
        self._ours = call_handlers
        logging.Logger.callHandlers = call_handlers  # type: ignore[assignment,method-assign]

    def _remove(self) -> None:
        if logging.Logger.callHandlers is self._ours and self._before is not None:
            logging.Logger.callHandlers = self._before  # type: ignore[assignment,method-assign]
        self._ours = None


def _without_secrets(record: logging.LogRecord, mask: SecretMask) -> logging.LogRecord:
    """A copy whose text has no secret of the run: the service's own logs are read by others."""
    found = copy(record)
    found.msg, found.args = mask.hide(_message_of(record)), None
    if record.exc_info and not record.exc_text:
        found.exc_text = mask.hide(logging.Formatter().formatException(record.exc_info))
    elif record.exc_text:
        found.exc_text = mask.hide(record.exc_text)
    if record.stack_info:
        found.stack_info = mask.hide(record.stack_info)
    return found


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 (as in logging, a wrong call must not fail the run)
        return f"{record.msg!r} cannot be formatted with {record.args!r}"


def _pass_on(record: logging.LogRecord, run: Run) -> None:
    if record.name.partition(".")[0] == "tickwheel":
        return  # the SDK's own records concern the node, not the run
    try:
        text = _format(record)
    except Exception:  # noqa: BLE001 (as in logging, a wrong call must not fail the run)
        text = f"{record.msg!r} cannot be formatted with {record.args!r}"
    run.log.write(level_of(record.levelno), text)


def level_of(number: int) -> Level:
    """The level of a line, from that of `logging`."""
    if number >= logging.ERROR:
        return Level.ERROR
    if number >= logging.WARNING:
        return Level.WARNING
    return Level.INFO if number >= logging.INFO else Level.DEBUG


capture = LogCapture()
forks.watch(capture)
