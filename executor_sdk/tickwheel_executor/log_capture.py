"""Lines that a handler writes through standard `logging` become lines of its run's log."""

from __future__ import annotations

import logging

from tickwheel_shared.protocol import Level

from . import forks
from .context import running


class RunLogHandler(logging.Handler):
    """Passes records of code that runs inside a handler on to that run's log.

    It sees what reaches the root logger: a logger with `propagate = False` is not captured, and the
    level of the user's loggers decides as always.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        """Emit without the handler's lock: a thread that waits for room in the run's log must not
        keep every other one, the event loop's included, from logging."""
        accepted = bool(self.filter(record))
        if accepted:
            self.emit(record)
        return accepted

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record to the run's log, if a run is going on here."""
        run = running.get(None)
        if run is None or record.name.partition(".")[0] == "tickwheel":
            return  # our own records are about the node, not about the run
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001 (a bad logging call must not fail the run: as in logging)
            self.handleError(record)
            return
        run.log.write(_level(record.levelno), text)


def _level(number: int) -> Level:
    if number >= logging.ERROR:
        return Level.ERROR
    if number >= logging.WARNING:
        return Level.WARNING
    return Level.INFO if number >= logging.INFO else Level.DEBUG


class LogCapture:
    """Puts one RunLogHandler on the root logger while any executor of the process is running."""

    def __init__(self) -> None:
        self._handler = RunLogHandler()
        self._users = 0

    def begin(self) -> None:
        """One more executor is running."""
        self._users += 1
        if self._users == 1:
            logging.getLogger().addHandler(self._handler)

    def end(self) -> None:
        """One executor less is running."""
        self._users -= 1
        if self._users == 0:
            logging.getLogger().removeHandler(self._handler)

    def forked(self) -> None:
        """In a child: no executor is running."""
        if self._users:
            self._users = 1
            self.end()


capture = LogCapture()
forks.watch(capture)
