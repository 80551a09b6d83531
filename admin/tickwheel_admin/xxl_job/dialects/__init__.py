"""What crosses the wire between us and executors of XXL-JOB, in its three dialects; no I/O.

The facts were taken from recordings of real clients, which the tests replay.
"""

from tickwheel_admin.xxl_job.dialects.answers import (
    BadAnswer,
    Meaning,
    meaning,
    read_answer,
    read_log,
    read_log_prefix,
)
from tickwheel_admin.xxl_job.dialects.answers import (
    WireAnswer as Answer,
)
from tickwheel_admin.xxl_job.dialects.calls import (
    Call,
    RunCall,
    beat,
    headers,
    idle_beat,
    kill,
    log,
    run,
)
from tickwheel_admin.xxl_job.dialects.calls import (
    WireDialect as Dialect,
)
from tickwheel_admin.xxl_job.dialects.log_pages import WireLogPage as LogPage
from tickwheel_admin.xxl_job.dialects.reports import (
    MAX_CALLBACKS,
    MAX_CALLBACKS_BYTES,
    MAX_REGISTRY_BYTES,
    BadRequest,
    Callback,
    Registry,
    answer,
    read_callbacks,
    read_registry,
)
from tickwheel_admin.xxl_job.dialects.wire_ids import (
    MAX_COPY,
    MAX_RUN,
    LogId,
    log_id,
    read_log_id,
    wire_job_id,
)

__all__ = [
    "MAX_CALLBACKS",
    "MAX_CALLBACKS_BYTES",
    "MAX_COPY",
    "MAX_REGISTRY_BYTES",
    "MAX_RUN",
    "Answer",
    "BadAnswer",
    "BadRequest",
    "Call",
    "Callback",
    "Dialect",
    "LogId",
    "LogPage",
    "Meaning",
    "Registry",
    "RunCall",
    "answer",
    "beat",
    "headers",
    "idle_beat",
    "kill",
    "log",
    "log_id",
    "meaning",
    "read_answer",
    "read_callbacks",
    "read_log",
    "read_log_id",
    "read_log_prefix",
    "read_registry",
    "run",
    "wire_job_id",
]
