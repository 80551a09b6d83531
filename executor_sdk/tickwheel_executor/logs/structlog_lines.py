"""structlog's own printed lines, with their level."""

from __future__ import annotations

import logging
from typing import Any

from tickwheel_executor.run.context import running

from .capture import level_of
from .prints import expect

_LEVELS = logging.getLevelNamesMapping()
_OTHER_METHODS = {"exception": logging.ERROR, "err": logging.ERROR, "msg": logging.INFO}


def structlog_lines(logger: Any, method_name: str, event: Any) -> Any:
    """A structlog processor: puts what is rendered into the log of the run that is going on here.

        structlog.configure(processors=[…, structlog.dev.ConsoleRenderer(), structlog_lines])

    It comes last, after the renderer. Without it what structlog prints is in the log as well, as
    all prints are, at level info. It does nothing where structlog passes its events to `logging`,
    for there the level is kept anyway, nor outside of handlers.
    """
    run = running.get(None)
    if run is None or isinstance(logger, logging.Logger):
        return event
    text = event.decode(errors="replace") if isinstance(event, bytes) else event
    if isinstance(text, str):  # else another processor comes after this one: not rendered yet
        name = method_name.upper()
        number = _OTHER_METHODS.get(method_name, _LEVELS.get(name, logging.INFO))
        expect(text)
        run.log.write(level_of(number), text)
    return event
