"""Run Tickwheel jobs inside your own service, and trigger them from any program."""

from .client.call import Call
from .client.client import Client, LogLine
from .errors import (
    AlreadyDone,
    CheckpointError,
    ClientError,
    ConfigurationError,
    Fail,
    HandlerError,
    NoAdminError,
    NotFoundError,
    OutsideRunError,
    ReceiptError,
    Retry,
    RunCancelledError,
    RunNotSucceededError,
    Skip,
    SpawnError,
    SpoolError,
    StaleAttemptError,
    StateUnavailableError,
    TickwheelExecutorError,
    TokenRefusedError,
    WaitTimeoutError,
)
from .executor import Executor
from .handlers.hooks import Ending
from .logs.structlog_lines import structlog_lines
from .node.metrics import NodeMetrics
from .receipts.receipt import AsyncReceipt, Receipt
from .run.context import Run, current_run
from .run.log import RunLog
from .run_status import RunStatus
from .workflows.references import Reference
from .workflows.step import Step
from .workflows.workflow import Workflow

__all__ = [
    "AlreadyDone",
    "AsyncReceipt",
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
    "NodeMetrics",
    "NotFoundError",
    "OutsideRunError",
    "Receipt",
    "ReceiptError",
    "Reference",
    "Retry",
    "Run",
    "RunCancelledError",
    "RunLog",
    "RunNotSucceededError",
    "RunStatus",
    "Skip",
    "SpawnError",
    "SpoolError",
    "StaleAttemptError",
    "StateUnavailableError",
    "Step",
    "TickwheelExecutorError",
    "TokenRefusedError",
    "WaitTimeoutError",
    "Workflow",
    "current_run",
    "structlog_lines",
]
