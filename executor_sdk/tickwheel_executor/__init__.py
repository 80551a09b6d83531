"""Run Tickwheel jobs inside your own service."""

from .context import Run, current_run
from .errors import (
    CheckpointError,
    ConfigurationError,
    Fail,
    HandlerError,
    OutsideRunError,
    Retry,
    RunCancelledError,
    Skip,
    SpoolError,
    StateUnavailableError,
    TickwheelExecutorError,
)
from .executor import Executor
from .run_log import RunLog

__all__ = [
    "CheckpointError",
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
    "StateUnavailableError",
    "TickwheelExecutorError",
    "current_run",
]
