"""What is read of an XXL-JOB installation, and what a filter leaves of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tickwheel_admin.domain.xxl_job.records import ScheduleType, XxlGroup, XxlJob, XxlUser
from tickwheel_admin.store.xxl_job.source.connection import Source
from tickwheel_admin.store.xxl_job.source.tables import (
    read_group_tokens,
    read_groups,
    read_jobs,
    read_users,
)


class NothingToImport(ValueError):
    """The filter leaves nothing, as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlInstallation:
    """What is read of theirs."""

    groups: Sequence[XxlGroup]
    jobs: Sequence[XxlJob]
    users: Sequence[XxlUser]
    tokens: Mapping[int, str] = field(repr=False)  # by group


def read_installation(source: Source) -> XxlInstallation:
    """Groups, jobs and users; raises SourceError."""
    return XxlInstallation(
        groups=list(read_groups(source)),
        jobs=list(read_jobs(source, with_source=True)),
        users=list(read_users(source)),
        tokens=read_group_tokens(source),
    )


def chosen_jobs(
    theirs: XxlInstallation, *, groups: Collection[str], job_ids: Collection[int]
) -> list[XxlJob]:
    """Those that the filter leaves.

    Raises:
        NothingToImport: a name or an id is nowhere.
    """
    wanted = [group for group in theirs.groups if {group.app_name, group.title} & set(groups)]
    for name in groups:
        if all(name not in (group.app_name, group.title) for group in wanted):
            raise NothingToImport(f"there is no executor “{name}” in XXL-JOB")
    known = {job.id for job in theirs.jobs}
    for job_id in job_ids:
        if job_id not in known:
            raise NothingToImport(f"there is no job {job_id} in XXL-JOB")
    group_ids = {group.id for group in wanted}
    return [
        job
        for job in theirs.jobs
        if (not groups or job.group_id in group_ids) and (not job_ids or job.id in job_ids)
    ]


def needs_cron_zone(jobs: Iterable[XxlJob]) -> bool:
    """Whether any of them has a schedule that a zone decides about."""
    return any(job.schedule_type == ScheduleType.CRON for job in jobs)
