"""What is read of an XXL-JOB installation, and what a filter leaves of it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tickwheel_admin.domain.xxl_job.glue import BEAN
from tickwheel_admin.domain.xxl_job.records import (
    GlueVersion,
    ScheduleType,
    XxlGroup,
    XxlJob,
    XxlUser,
)
from tickwheel_admin.store.xxl_job.source.connection import Source
from tickwheel_admin.store.xxl_job.source.tables import (
    read_glue,
    read_group_tokens,
    read_groups,
    read_jobs,
    read_users,
)

MOST_VERSIONS = 30  # of one script; XXL-JOB keeps as many
MAX_GLUE_CHARS = 64 * 1024 * 1024  # of all of them, which are held in memory


class NothingToImport(ValueError):
    """The filter leaves nothing, as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlInstallation:
    """What is read of theirs."""

    groups: Sequence[XxlGroup]
    jobs: Sequence[XxlJob]
    users: Sequence[XxlUser]
    tokens: Mapping[int, str] = field(repr=False)  # by group
    # Sources that script jobs have or had, by job, oldest first.
    glue: Mapping[int, Sequence[GlueVersion]] = field(repr=False, default_factory=dict)


def read_installation(source: Source) -> XxlInstallation:
    """Groups, jobs, their scripts and users; raises SourceError."""
    jobs = list(read_jobs(source, with_source=True))
    return XxlInstallation(
        groups=list(read_groups(source)),
        jobs=jobs,
        users=list(read_users(source)),
        tokens=read_group_tokens(source),
        glue=_newest(read_glue(source), {job.id for job in jobs if job.glue_type != BEAN}),
    )


def _newest(
    versions: Iterable[GlueVersion], job_ids: Collection[int]
) -> dict[int, deque[GlueVersion]]:
    """The newest versions of each job; when they are too much for the memory, the oldest go."""
    found: defaultdict[int, deque[GlueVersion]] = defaultdict(deque)
    order: deque[int] = deque()  # the jobs of all that were found, oldest first
    chars = 0
    for each in versions:
        if each.job_id not in job_ids:
            continue
        of_job = found[each.job_id]
        of_job.append(each)
        order.append(each.job_id)
        chars += len(each.source)
        if len(of_job) > MOST_VERSIONS:
            order.remove(each.job_id)
            chars -= len(of_job.popleft().source)
        while chars > MAX_GLUE_CHARS:
            chars -= len(found[order.popleft()].popleft().source)
    return found


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
