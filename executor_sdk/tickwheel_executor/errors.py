"""Everything the SDK raises, on one page.

TickwheelExecutorError
├── ConfigurationError      settings that cannot work; lists every problem at once
├── HandlerError            a handler that cannot be registered
├── OutsideRunError         current_run() where no run is going on
├── RunCancelledError       raised by Run.raise_if_cancelled() to leave a handler
├── SpoolError              results cannot be made safe on disk
└── ConnectError            an admin cannot be reached (internal: the node retries for ever)
    └── UnauthorizedError   it can, but it does not know our token
"""

from __future__ import annotations

from collections.abc import Sequence


class TickwheelExecutorError(Exception):
    """Base of every error of this package."""


class ConfigurationError(TickwheelExecutorError):
    """Settings that cannot work. `problems` has one sentence for each of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(f"- {problem}" for problem in ("cannot start:", *problems))[2:])


class HandlerError(TickwheelExecutorError):
    """A handler that cannot be registered: the name is taken, or it wants other arguments."""


class OutsideRunError(TickwheelExecutorError):
    """`current_run()` was called where no handler is running."""


class RunCancelledError(TickwheelExecutorError):
    """The run was cancelled or timed out; let it pass through to end the handler."""


class SpoolError(TickwheelExecutorError):
    """Results cannot be made safe on disk: it is full, read-only, or not ours."""


class ConnectError(TickwheelExecutorError):
    """An admin cannot be reached. The node tries again, for as long as it lives."""


class UnauthorizedError(ConnectError):
    """The admin refused the executor token."""
