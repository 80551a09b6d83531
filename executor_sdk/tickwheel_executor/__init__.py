"""Run Tickwheel jobs inside your own service, and trigger them from any program."""

from .client.call import Call
from .client.client import Client, LogLine
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
from .handlers.hooks import Ending
from .logs.structlog_lines import structlog_lines
from .run.context import Run, current_run
from .run.log import RunLog
from .run_status import RunStatus

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
