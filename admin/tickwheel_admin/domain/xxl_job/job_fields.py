"""What XXL-JOB says of a job, out of its table or of a request to its job API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tickwheel_admin.domain.xxl_job.glue import BEAN
from tickwheel_admin.domain.xxl_job.records import ScheduleType, XxlJob


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlJobFields:
    """What XXL-JOB says of a job, whichever way it came."""

    name: str
    author: str = ""
    alarm_emails: tuple[str, ...] = ()
    schedule_type: str = ScheduleType.NONE
    schedule_conf: str = ""
    misfire_strategy: str = ""  # "": DO_NOTHING, as 2.2 has it
    route_strategy: str = ""
    handler: str = ""
    param: str = ""
    block_strategy: str = ""
    timeout_seconds: int = 0
    retries: int = 0
    glue_type: str = BEAN
    glue_source: str | None = None  # None: this way in takes no scripts
    glue_remark: str = ""
    child_job_ids: str = ""


def fields_of_job(job: XxlJob) -> XxlJobFields:
    """Of a row of `xxl_job_info`."""
    return XxlJobFields(
        name=job.name,
        author=job.author,
        alarm_emails=job.alarm_emails,
        schedule_type=job.schedule_type,
        schedule_conf=job.schedule_conf,
        misfire_strategy=job.misfire_strategy,
        route_strategy=job.route_strategy,
        handler=job.handler,
        param=job.param,
        block_strategy=job.block_strategy,
        timeout_seconds=job.timeout_seconds,
        retries=job.retries,
        glue_type=job.glue_type,
        glue_source=None if job.glue_type == BEAN else job.glue_source,
        glue_remark="" if job.glue_type == BEAN else job.glue_remark,
        child_job_ids=job.child_job_ids,
    )


def fields_of_request(body: Mapping[str, Any]) -> XxlJobFields:
    """Of the JSON of `addJob` and `updateJob`; before 3.5 the name was called `jobDesc`.

    Raises:
        ValueError: a member has a value of another type, as a sentence.
    """
    name = "name" if body.get("name") is not None else "jobDesc"
    mails = _text_of(body, "alarmEmail").split(",")
    return XxlJobFields(
        name=_text_of(body, name).strip(),
        author=_text_of(body, "author").strip(),
        alarm_emails=tuple(each.strip() for each in mails if each.strip()),
        schedule_type=_text_of(body, "scheduleType").strip().upper() or ScheduleType.NONE,
        schedule_conf=_text_of(body, "scheduleConf").strip(),
        misfire_strategy=_text_of(body, "misfireStrategy").strip(),
        route_strategy=_text_of(body, "executorRouteStrategy").strip(),
        handler=_text_of(body, "executorHandler").strip(),
        param=_text_of(body, "executorParam"),
        block_strategy=_text_of(body, "executorBlockStrategy").strip(),
        timeout_seconds=_number_of(body, "executorTimeout"),
        retries=_number_of(body, "executorFailRetryCount"),
        glue_type=_text_of(body, "glueType").strip() or BEAN,
        child_job_ids=_text_of(body, "childJobId").strip(),
    )


def _text_of(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{name} must be a text")


def _number_of(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    if value is None or value == "":
        return 0
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value[:18])
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"{name} must be a whole number")
