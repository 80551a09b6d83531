"""Run Tickwheel jobs inside your own service, and trigger them from any program."""

from .call import Call
from .client import Client, LogLine
from .context import Run, current_run
from .errors import (
    CheckpointError,
    ClientError,
    ConfigurationError,
    Fail,
    HandlerError,
    NoAdminError,
    NotFoundError,
    OutsideRunError,
    Retry,
    RunCancelledError,
    RunNotSucceededError,
    Skip,
    SpoolError,
    StateUnavailableError,
    TickwheelExecutorError,
    TokenRefusedError,
    WaitTimeoutError,
)
from .executor import Executor
from .hooks import Ending
from .run_log import RunLog
from .run_status import RunStatus
from .structlog_lines import structlog_lines

__all__ = [
    "Call",
    "CheckpointError",
    "Client",
    "ClientError",
    "ConfigurationError",
    "Ending",
    "Executor",
    "Fail",
    "HandlerError",
    "LogLine",
    "NoAdminError",
    "NotFoundError",
    "OutsideRunError",
    "Retry",
    "Run",
    "RunCancelledError",
    "RunLog",
    "RunNotSucceededError",
    "RunStatus",
    "Skip",
    "SpoolError",
    "StateUnavailableError",
    "TickwheelExecutorError",
    "TokenRefusedError",
    "WaitTimeoutError",
    "current_run",
    "structlog_lines",
]
