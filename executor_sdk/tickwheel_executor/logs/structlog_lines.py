"""A structlog processor that keeps the level of printed lines."""

from __future__ import annotations

import logging
from typing import Any

from tickwheel_executor.run.context import running

from .capture import level_of
from .prints import expect

_LEVELS = logging.getLevelNamesMapping()
_OTHER_METHODS = {"exception": logging.ERROR, "err": logging.ERROR, "msg": logging.INFO}


def structlog_lines(logger: Any, method_name: str, event: Any) -> Any:
    """A structlog processor that writes rendered events to the log of the current run.

        structlog.configure(processors=[…, structlog.dev.ConsoleRenderer(), structlog_lines])

    It must be the last one, after the renderer. Without it, what structlog prints is in the log as
    well, but at level info, as all prints. It does nothing outside of handlers, and nothing if
    structlog passes its events to `logging`, which keeps the level anyway.
    """
    run = running.get(None)
    if run is None or isinstance(logger, logging.Logger):
        return event
    text = event.decode(errors="replace") if isinstance(event, bytes) else event
    if isinstance(text, str):  # else not rendered yet: another processor follows
        name = method_name.upper()
        number = _OTHER_METHODS.get(method_name, _LEVELS.get(name, logging.INFO))
        expect(text)
        run.log.write(level_of(number), text)
    return event
