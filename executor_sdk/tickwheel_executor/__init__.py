"""Run Tickwheel jobs inside your own service."""

from .context import Run, current_run
from .errors import (
    ConfigurationError,
    HandlerError,
    OutsideRunError,
    RunCancelledError,
    SpoolError,
    TickwheelExecutorError,
)
from .executor import Executor
from .run_log import RunLog

__all__ = [
    "ConfigurationError",
    "Executor",
    "HandlerError",
    "OutsideRunError",
    "Run",
    "RunCancelledError",
    "RunLog",
    "SpoolError",
    "TickwheelExecutorError",
    "current_run",
]
