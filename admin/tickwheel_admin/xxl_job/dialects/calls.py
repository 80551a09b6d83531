"""What we say to executors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from tickwheel_admin.domain.xxl_job.glue import BEAN


class WireDialect(StrEnum):
    """The three forms that the protocol has had; members are named after the versions of Java's."""

    A = "A"  # 2.2.0 to 3.2.0, and all clients that are not in Java
    B = "B"  # 3.3.0 to 3.4.2: answers carry `data` in place of `content`
    C = "C"  # 3.5: /trigger, logDateTime everywhere, a token for each executor


@dataclass(frozen=True, slots=True)
class Call:
    """One POST to an executor."""

    path: str  # "/beat"; stands behind the executor's address
    body: bytes  # JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCall:
    """What an executor is told of a run."""

    job_id: int  # of the wire: `wire_job_id`
    handler: str
    param: str
    timeout_s: int  # 0: none
    log_id: int
    time_ms: int  # of the claim; most executors echo it with the result
    index: int
    total: int
    glue_type: str = BEAN
    glue_source: str = ""
    glue_updated_ms: int = 0  # a script is compiled anew when this has changed


# Java's every version and the clients in Node take {}; express refuses the "" of dialect A.
_BEAT = Call("/beat", b"{}")
_encode = msgspec.json.Encoder().encode


def headers(dialect: WireDialect | None, token: str, app_name: str) -> dict[str, str]:
    """The headers of each call.

    Args:
        dialect: None while it is not known: then also with the name that dialect C requires.
        token: empty for an executor that asks for none.
        app_name: the executor's.
    """
    found = {"Content-Type": "application/json;charset=UTF-8"}
    if token:
        found["XXL-JOB-ACCESS-TOKEN"] = token
    if dialect is None or dialect is WireDialect.C:
        found["XXL-JOB-APPNAME"] = app_name
    return found


def beat(dialect: WireDialect | None = None) -> Call:
    """Are you there? The same in each dialect."""
    return _BEAT


def idle_beat(job_id: int) -> Call:
    """Have you a run of this job, running or queued?"""
    return Call("/idleBeat", b'{"jobId":%d}' % job_id)


def kill(job_id: int) -> Call:
    """End every run of this job that you have."""
    return Call("/kill", b'{"jobId":%d}' % job_id)


def run(dialect: WireDialect | None, what: RunCall) -> Call:
    """Start this run, unless one of its job is there: the executor is never to queue."""
    return Call(
        "/trigger" if dialect is WireDialect.C else "/run",
        _encode(
            {
                "jobId": what.job_id,
                "executorHandler": what.handler,
                "executorParams": what.param,
                "executorBlockStrategy": "DISCARD_LATER",
                "executorTimeout": what.timeout_s,
                "logId": what.log_id,
                "logDateTime": what.time_ms,
                "glueType": what.glue_type,
                "glueSource": what.glue_source,
                "glueUpdatetime": what.glue_updated_ms,
                "broadcastIndex": what.index,
                "broadcastTotal": what.total,
            }
        ),
    )


def log(dialect: WireDialect | None, log_id: int, time_ms: int, from_line: int) -> Call:
    """Give me the log of this run from this line on, which counts from 1.

    Java looks for the file in the folder of the day that `time_ms` lies in: under the other
    dialect's key it would find none. While the dialect is not known, both keys are sent.
    """
    said: dict[str, Any] = {"logId": log_id, "fromLineNum": from_line}
    if dialect is not WireDialect.C:
        said["logDateTim"] = time_ms
    if dialect is None or dialect is WireDialect.C:
        said["logDateTime"] = time_ms
    return Call("/log", _encode(said))
