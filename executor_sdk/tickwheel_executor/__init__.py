"""Run Tickwheel jobs inside your own service."""

from .context import Run, current_run
from .errors import (
    ConfigurationError,
    Fail,
    HandlerError,
    OutsideRunError,
    Retry,
    RunCancelledError,
    Skip,
    SpoolError,
    TickwheelExecutorError,
)
from .executor import Executor
from .run_log import RunLog

__all__ = [
    "ConfigurationError",
    "Executor",
    "Fail",
    "HandlerError",
    "OutsideRunError",
    "Retry",
    "Run",
    "RunCancelledError",
    "RunLog",
    "Skip",
    "SpoolError",
    "TickwheelExecutorError",
    "current_run",
]
