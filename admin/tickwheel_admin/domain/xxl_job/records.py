"""Rows of an XXL-JOB database, one form for all its versions.

Its DATETIMEs have no zone: they are kept here as *local seconds*, seconds since 1970-01-01 00:00 of
the wall time that was stored (`schedule.zones`). None stands for NULL, for a zero date, and for a
column that this version does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class ScheduleType(StrEnum):
    """When a job runs; 2.2 knows CRON only, and stores no type."""

    NONE = "NONE"  # started by hand, by a parent or through the API
    CRON = "CRON"  # `schedule_conf` is a Quartz expression
    FIX_RATE = "FIX_RATE"  # `schedule_conf` is a number of seconds, counted from the last trigger
    FIX_DELAY = "FIX_DELAY"  # in the source of some versions, never offered


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlGroup:
    """An executor, `xxl_job_group`."""

    id: int
    app_name: str
    title: str  # `title`, `name` from 3.5
    is_manual: bool  # addresses are typed in, not registered
    addresses: tuple[str, ...]  # those of `address_list`; registered ones may be stale
    has_access_token: bool  # 3.5 has one for each group; the token itself is not read
    updated_local: int | None  # None in 2.2


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlJob:
    """A job with its schedule, `xxl_job_info`."""

    id: int
    group_id: int
    name: str  # `job_desc`, `name` from 3.5
    author: str
    alarm_emails: tuple[str, ...]
    schedule_type: str  # a ScheduleType; CRON in 2.2; kept as written when it is unknown
    schedule_conf: str  # `job_cron` in 2.2
    misfire_strategy: str  # DO_NOTHING or FIRE_ONCE_NOW; "" in 2.2
    route_strategy: str
    handler: str
    param: str
    block_strategy: str
    timeout_seconds: int
    retries: int
    glue_type: str
    glue_source: str  # "" unless read with `with_source`
    glue_remark: str
    glue_updated_local: int | None
    child_job_ids: str  # as written: may name dead jobs, itself, and no numbers at all
    is_running: bool  # `trigger_status`
    last_trigger_ms: int  # UTC epoch ms; 0: never since it was started
    next_trigger_ms: int  # UTC epoch ms; 0: stopped
    added_local: int | None
    updated_local: int | None  # of the last edit, start or stop by a person


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueVersion:
    """An earlier or the present source of a GLUE job, `xxl_job_logglue`."""

    id: int
    job_id: int
    glue_type: str
    source: str
    remark: str
    added_local: int | None
    updated_local: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlUser:
    """A person, `xxl_job_user`; password and session are never read."""

    id: int
    username: str
    is_admin: bool
    group_ids: tuple[int, ...]  # what a normal user may see; dead ids are possible


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlRegistration:
    """An executor's process that registered itself, `xxl_job_registry`."""

    id: int
    app_name: str
    address: str
    beat_local: int | None


class LogRow(NamedTuple):
    """One run, `xxl_job_log`, with what the audit needs of it; a tuple, for there are millions."""

    id: int
    job_id: int
    triggered_local: int | None  # the admin's clock, rounded to a second
    trigger_code: int  # 0 being sent, 200 sent, 500 could not be sent
    handle_code: int  # 0 no result yet, 200 succeeded, 500 failed, 502 timed out
    retries_left: int
    is_discarded: bool  # the executor refused it, as the block strategy asks for
    is_given_up: bool  # failed because XXL-JOB had no news for ten minutes and the node was gone
    shard: str  # "i/n" of a broadcast, else ""
    trigger_head: str  # the first line of `trigger_msg`: says why it ran
