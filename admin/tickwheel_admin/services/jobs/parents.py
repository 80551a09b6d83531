"""The jobs that start a job when they end: the other end of their child links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.jobs.children import ChildOn
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.jobs.child_links import child_graph, links_version, named_jobs
from tickwheel_admin.store.jobs.jobs import current_configs

MAX_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentJob:
    """A job whose ends ask for another one."""

    id: int
    name: str
    on: ChildOn


class JobParents:
    """Finds the parents of a job.

    No index leads to them, and looking for them reads every job (`child_graph`).
    So the links are kept until one is added anywhere; those that were taken away since are sorted
    out when a job is asked for.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: tuple[str | None, Mapping[int, tuple[int, ...]]] | None = None

    async def of(self, actor: Actor, job_id: int) -> list[ParentJob]:
        """By name, as far as the caller may see them; at most 50."""
        return (await self.of_each(actor, [job_id])).get(job_id, [])

    async def of_each(self, actor: Actor, job_ids: Collection[int]) -> dict[int, list[ParentJob]]:
        """The same of several jobs; those without a parent are left out."""
        if not job_ids:
            return {}

        def read(conn: sa.Connection) -> dict[int, list[ParentJob]]:
            parents = self._parents(conn)
            candidates = {job_id: parents.get(job_id, ())[:MAX_SHOWN] for job_id in job_ids}
            asked = {each for ids in candidates.values() for each in ids}
            if not asked:
                return {}
            named = named_jobs(conn, asked)
            configs = current_configs(conn, asked)
            found: defaultdict[int, list[ParentJob]] = defaultdict(list)
            for job_id, ids in candidates.items():
                for parent_id in ids:
                    parent, config = named.get(parent_id), configs.get(parent_id)
                    if parent is None or config is None:
                        continue
                    if actor.may(Permission.VIEW, parent.executor_id):
                        found[job_id] += [
                            ParentJob(id=parent_id, name=parent.name, on=link.on)
                            for link in config.children
                            if link.job_id == job_id
                        ]
            return found

        by_job = await self._store.read(read)
        return {
            job_id: sorted(parents, key=lambda parent: parent.name)
            for job_id, parents in by_job.items()
            if parents
        }

    def _parents(self, conn: sa.Connection) -> Mapping[int, tuple[int, ...]]:
        version = links_version(conn)
        known = self._known
        if known is None or known[0] != version:
            parents: defaultdict[int, tuple[int, ...]] = defaultdict(tuple)
            for parent_id, children in child_graph(conn).items():
                for child_id in children:
                    parents[child_id] += (parent_id,)
            known = self._known = (version, dict(parents))
        return known[1]
