"""What admins and nodes log goes into the history; an error nobody expected is a violation."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from tests.simulation.history import History
from tests.simulation.scheduler import current_process


@contextmanager
def captured_logs(history: History) -> Iterator[None]:
    """Put what admins and nodes log into the history; an unexpected error is a violation."""

    def record(_logger: object, level: str, event: dict[str, Any]) -> Any:
        if level == "error" and event.get("exc_info"):
            history.violation(f"{event['event']}: {_last_error()}")
        process = current_process()
        what = " ".join(f"{key}={value}" for key, value in event.items())
        history.note("world" if process is None else process.name, what)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[record], wrapper_class=structlog.make_filtering_bound_logger(logging.INFO)
    )
    handler = _SdkLog(history)
    sdk = logging.getLogger("tickwheel")
    level, propagate = sdk.level, sdk.propagate
    sdk.addHandler(handler)
    sdk.setLevel(logging.INFO)
    sdk.propagate = False
    try:
        yield
    finally:
        structlog.configure(**before)
        sdk.removeHandler(handler)
        sdk.setLevel(level)
        sdk.propagate = propagate


class _SdkLog(logging.Handler):
    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._history.violation(f"{record.getMessage()}: {_last_error()}")
        process = current_process()
        self._history.note("world" if process is None else process.name, record.getMessage())


def _last_error() -> str:
    error = sys.exc_info()[1]
    if error is None:
        return "?"
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    return f"{error!r} at {where}"
