"""Jobs by the names that people type or pick: "executor / job", a job's name alone, or "#12"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tickwheel_admin.domain.errors import NotFound, Problem
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.jobs.service import JobItem, JobQuery
from tickwheel_admin.services.services import Services

SUGGESTED_AT_MOST = 30
_SEPARATOR = " / "
_ID = re.compile(r"#([0-9]{1,15})")


def text_of(item: JobItem) -> str:
    """How a job is written in a field."""
    return f"{item.executor_name}{_SEPARATOR}{item.job.config.name}"


class JobNames:
    """The names of jobs as one person may see and use them."""

    def __init__(self, services: Services, actor: Actor) -> None:
        self._services = services
        self._actor = actor

    async def text_of_id(self, job_id: int) -> str:
        """How a job is written of which only the id is known."""
        try:
            return text_of((await self._services.jobs.get(self._actor, job_id)).item)
        except NotFound:  # deleted, or not visible to this person
            return f"#{job_id}"

    async def suggestions(
        self, text: str, *, permission: Permission = Permission.VIEW
    ) -> list[str]:
        """Jobs that may be meant, for which this person has the permission."""
        wanted = text.strip().split(_SEPARATOR, 1)[-1][:200]
        page = await self._services.jobs.page(
            self._actor, JobQuery(text=wanted), limit=SUGGESTED_AT_MOST
        )
        return [
            text_of(item)
            for item in page.items
            if self._actor.may(permission, item.job.executor_id)
        ]

    async def ids_of(self, text: str) -> list[int]:
        """Ids of the jobs that are called so; two are enough to know that it is not clear."""
        if by_id := _ID.fullmatch(text):
            return [int(by_id[1])]
        executors = {e.name: e.id for e in await self._services.executors.names(self._actor)}
        before, separator, after = text.partition(_SEPARATOR)
        is_named = bool(separator) and before in executors
        name = after if is_named else text
        return await self._services.jobs.called(
            self._actor, name, executors[before] if is_named else None
        )


def unclear(field: str, found: Sequence[int], *, code: str = "job.unknown") -> Problem:
    """What is wrong with a name that is not that of exactly one job."""
    if found:
        return Problem(
            field=field,
            code=code,
            template="Several executors have a job of this name; choose one of those suggested.",
        )
    return Problem(
        field=field, code=code, template="There is no job of this name, or you may not see it."
    )
