"""XXL-JOB's own job API, for scripts that use it: its requests become ours."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.users.user import Actor, Role
from tickwheel_admin.domain.xxl_job.bridge import XxlExecutor
from tickwheel_admin.domain.xxl_job.job_fields import fields_of_request
from tickwheel_admin.domain.xxl_job.mapping import MappedJob, map_job
from tickwheel_admin.services.jobs.lists import JobDetail
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.system.settings import Settings

Request = Callable[[Actor, Sequence[int], Mapping[str, Any]], Awaitable[str]]


def actor_of(executors: Sequence[XxlExecutor], *, address: str) -> Actor:
    """Whoever shows the access token of these executors: a developer of their jobs alone.

    Who has that token could answer in their place, and so runs what they are asked to run anyway.
    """
    return Actor(
        user_id=0,
        name=f"XXL-JOB {executors[0].app_name}"[:100],
        grants={each.id: Role.DEVELOPER for each in executors},
        address=address,
    )


class XxlJobRequests:
    """`addJob updateJob removeJob startJob stopJob triggerJob`; each returns what is told back.

    `executors` are those for which the caller may speak; the ids of jobs are ours. All raise
    UserError, and ValueError for a body that cannot be read.
    """

    def __init__(self, jobs: Jobs, settings: Settings) -> None:
        self._jobs = jobs
        self._settings = settings

    @property
    def by_name(self) -> Mapping[str, Request]:
        """Each request by the last part of its path."""
        return {
            "addJob": self.add,
            "updateJob": self.update,
            "removeJob": self.remove,
            "startJob": self.start,
            "stopJob": self.stop,
            "triggerJob": self.trigger,
        }

    async def add(self, actor: Actor, executors: Sequence[int], body: Mapping[str, Any]) -> str:
        """Add a job, stopped; returns its id."""
        executor_id = _executor(executors, body)
        zone = (await self._settings.get()).default_timezone or "UTC"
        raw = _usable(map_job(fields_of_request(body), cron_zone=zone))
        # Stopped before it has triggers: it must not fire in between.
        job_id = await self._jobs.create(actor, executor_id, {**raw, "triggers": []})
        await self._jobs.pause(actor, job_id)
        if raw["triggers"]:
            await self._jobs.update(actor, job_id, raw, revision=1)
        return str(job_id)

    async def update(self, actor: Actor, executors: Sequence[int], body: Mapping[str, Any]) -> str:
        """Replace a job's configuration; its zone stays."""
        found = await self._job(actor, executors, body)
        spoken = next((each.spec.timezone for each in found.item.triggers), None)
        zone = spoken or (await self._settings.get()).default_timezone or "UTC"
        raw = _usable(map_job(fields_of_request(body), cron_zone=zone))
        await self._jobs.update(actor, found.item.job.id, raw, revision=found.item.job.revision)
        return ""

    async def remove(self, actor: Actor, executors: Sequence[int], body: Mapping[str, Any]) -> str:
        """Delete a job."""
        await self._jobs.delete(actor, (await self._job(actor, executors, body)).item.job.id)
        return ""

    async def start(self, actor: Actor, executors: Sequence[int], body: Mapping[str, Any]) -> str:
        """Let a job's trigger fire."""
        await self._jobs.resume(actor, (await self._job(actor, executors, body)).item.job.id)
        return ""

    async def stop(self, actor: Actor, executors: Sequence[int], body: Mapping[str, Any]) -> str:
        """Let it fire no more."""
        await self._jobs.pause(actor, (await self._job(actor, executors, body)).item.job.id)
        return ""

    async def trigger(self, actor: Actor, executors: Sequence[int], body: Mapping[str, Any]) -> str:
        """Run a job once; `executorParam` replaces its parameter, if it is there."""
        found = await self._job(actor, executors, body)
        param = body.get("executorParam")
        if param is not None and not isinstance(param, str):
            raise ValueError("executorParam must be a text")
        if body.get("addressList"):
            raise ValueError(
                "addressList is not supported: the job's routing chooses the node; name one with"
                " POST /api/v1/jobs/{job_id}/run"
            )
        await self._jobs.run_now(
            actor,
            found.item.job.id,
            parameters=None if not param else json.dumps({"param": param}),
            origin=Origin.API,
        )
        return ""

    async def _job(
        self, actor: Actor, executors: Sequence[int], body: Mapping[str, Any]
    ) -> JobDetail:
        job_id = body.get("id")
        if isinstance(job_id, str) and job_id.isdecimal():
            job_id = int(job_id)
        if not isinstance(job_id, int) or job_id is True or not 0 < job_id < 2**53:
            raise ValueError("id must be the number of a job")
        found = await self._jobs.get(actor, job_id)
        if found.item.job.executor_id not in executors:
            raise not_found()
        return found


def _executor(executors: Sequence[int], body: Mapping[str, Any]) -> int:
    """The executor of a new job: the caller's own, or with several the one that `jobGroup` says."""
    if len(executors) == 1:
        return executors[0]
    group = body.get("jobGroup")
    if isinstance(group, int) and group in executors:
        return group
    raise ValueError(
        "jobGroup must be the id of one of the executors with this access token: "
        + ", ".join(map(str, sorted(executors)))
    )


def _usable(mapped: MappedJob) -> dict[str, Any]:
    if mapped.reasons:
        raise ValueError("; ".join(each.text for each in mapped.reasons))
    children = [{"job": each, "on": "success"} for each in mapped.children]
    return {**mapped.raw, "children": children}
