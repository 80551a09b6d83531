"""How jobs hang together: which job starts which, by child links and by steps of workflows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import sqlalchemy as sa

from tickwheel_admin.domain.jobs.children import ChildOn
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.lists.scope import visible_executors
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.jobs.child_links import (
    JobPlace,
    child_graph,
    job_places,
    links_version,
    workflow_graph,
)
from tickwheel_admin.store.jobs.jobs import current_configs

MAX_JOBS = 500  # on one map
MAX_LINKS = 5_000
AT_ONCE = 2_000  # jobs that are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class MapJob:
    """A job on the map."""

    id: int
    name: str
    executor_name: str
    is_workflow: bool
    is_asked_for: bool  # False: it is there because a job that was asked for leads to it, or back


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLink:
    """That one job starts another one, both by index."""

    source: int
    target: int
    on: ChildOn | None  # after which end, of a child; None: a step of the source runs it


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMap:
    """The jobs that were asked for and have links, with what they lead to and come from."""

    jobs: Sequence[MapJob]  # those that were asked for first, each kind by name
    links: Sequence[JobLink]
    is_cut: bool  # there are more


class JobMaps:
    """Use case of the map of jobs.

    No index leads from a job to those that start it, so the links of all jobs are kept until one
    is added anywhere; those that were taken away since are sorted out.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: tuple[str | None, Mapping[int, frozenset[int]]] | None = None

    async def get(
        self, actor: Actor, *, executor_id: int | None = None, tag: str | None = None
    ) -> JobMap:
        """As far as the caller may see the jobs.

        Args:
            executor_id: jobs of this one; None: of any.
            tag: jobs that have it; None: any.
        """
        return await self._store.read(self._read, actor, executor_id, tag)

    def _read(
        self, conn: sa.Connection, actor: Actor, executor_id: int | None, tag: str | None
    ) -> JobMap:
        neighbours = self._neighbours(conn)
        scope = visible_executors(actor)
        asked: dict[int, JobPlace] = {}
        for ids in _parts(sorted(neighbours)):
            for place in job_places(conn, ids):
                if (
                    (scope is None or place.executor_id in scope)
                    and executor_id in (None, place.executor_id)
                    and (tag is None or tag in place.tags)
                ):
                    asked[place.id] = place
            if len(asked) > MAX_JOBS:
                break
        is_cut = len(asked) > MAX_JOBS
        together = _together(asked, neighbours)
        asked = {job_id: asked[job_id] for job_id in islice(together, MAX_JOBS)}
        others: dict[int, JobPlace] = {}
        beside = sorted({n for job_id in asked for n in neighbours[job_id]} - asked.keys())
        for ids in _parts(beside):
            others |= {
                place.id: place
                for place in job_places(conn, ids)
                if actor.may(Permission.VIEW, place.executor_id)
            }
            if len(others) > MAX_JOBS:
                break
        room = MAX_JOBS - len(asked)
        is_cut = is_cut or len(others) > room
        others = dict(list(others.items())[:room])
        configs: dict[int, JobConfig] = {}
        for ids in _parts([*asked, *others]):
            configs |= current_configs(conn, ids)
        return _map(conn, asked, others, configs, is_cut=is_cut)

    def _neighbours(self, conn: sa.Connection) -> Mapping[int, frozenset[int]]:
        """By job, those that it starts and those that start it, as far as anybody linked them."""
        version = links_version(conn)
        known = self._known
        if known is None or known[0] != version:
            found: defaultdict[int, set[int]] = defaultdict(set)
            for graph in (child_graph(conn), workflow_graph(conn)):
                for source, targets in graph.items():
                    for target in targets:
                        found[source].add(target)
                        found[target].add(source)
            sets = {job_id: frozenset(others) for job_id, others in found.items()}
            known = self._known = (version, sets)
        return known[1]


def _together(job_ids: Iterable[int], neighbours: Mapping[int, Iterable[int]]) -> Iterator[int]:
    """The jobs, each followed by those of them that it hangs together with."""
    left = dict.fromkeys(job_ids)
    while left:
        ahead = [next(iter(left))]
        while ahead:
            job_id = ahead.pop()
            if job_id in left:
                del left[job_id]
                yield job_id
                ahead += [each for each in neighbours[job_id] if each in left]


def _map(
    conn: sa.Connection,
    asked: Mapping[int, JobPlace],
    others: Mapping[int, JobPlace],
    configs: Mapping[int, JobConfig],
    *,
    is_cut: bool,
) -> JobMap:
    places = {**asked, **others}
    every = (
        (source, target, on)
        for source in places
        if source in configs
        for target, on in _links_of(configs[source])
        if target in places and (source in asked or target in asked)
    )
    links = set(islice(every, MAX_LINKS))
    is_cut = is_cut or next(every, None) is not None
    joined = {job_id for source, target, _ in links for job_id in (source, target)}
    order = sorted(
        joined & configs.keys(), key=lambda n: (n not in asked, configs[n].name.casefold(), n)
    )
    index = {job_id: number for number, job_id in enumerate(order)}
    names = executor_names(conn, {places[job_id].executor_id for job_id in order})
    return JobMap(
        jobs=[
            MapJob(
                id=job_id,
                name=configs[job_id].name,
                executor_name=names.get(places[job_id].executor_id, ""),
                is_workflow=configs[job_id].workflow is not None,
                is_asked_for=job_id in asked,
            )
            for job_id in order
        ],
        links=[
            JobLink(source=index[source], target=index[target], on=on)
            for source, target, on in sorted(links, key=str)
            if source in index and target in index
        ],
        is_cut=is_cut,
    )


def _links_of(config: JobConfig) -> Iterator[tuple[int, ChildOn | None]]:
    for link in config.children:
        yield link.job_id, link.on
    if config.workflow is not None:
        for job_id in config.workflow.job_ids:
            yield job_id, None


def _parts(ids: Iterable[int]) -> Iterator[list[int]]:
    every = list(ids)
    for first in range(0, len(every), AT_ONCE):
        yield every[first : first + AT_ONCE]
