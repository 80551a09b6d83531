"""Changes as a request names them: read, and checked against what the caller may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
from msgspec import structs

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.forecast.changes import (
    NEW_JOB_IDS,
    CalendarChange,
    Change,
    ExecutorPause,
    JobAdded,
    JobEdit,
    JobPause,
    NodeChange,
    PoolChange,
)
from tickwheel_admin.domain.forecast.situation import ForecastJob
from tickwheel_admin.domain.input.calendar import parse_calendar
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.pools.pool import MAX_SLOTS as MAX_POOL_SLOTS
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.calendars.of_triggers import look_at_calendars
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.pools.of_jobs import look_at_pools
from tickwheel_admin.services.pools.service import pool_to_change
from tickwheel_admin.store.calendars.calendars import calendar_of_name, read_calendars
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.executors import get_executor, get_node
from tickwheel_admin.store.forecast.situation import (
    deciding,
    executors_following,
    executors_of_pools,
)
from tickwheel_admin.store.jobs.jobs import executor_of_job

MAX_CHANGES = 20
MAX_SLOTS = 10_000
MAX_ID = 2**53 - 1
KINDS = ("job", "new_job", "job_pause", "executor_pause", "node", "pool", "calendar")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "job": ("job_id", "config"),
    "new_job": ("executor_id", "config"),
    "job_pause": ("job_id", "paused"),
    "executor_pause": ("executor_id", "paused"),
    "node": ("node_id", "drain", "slots"),
    "pool": ("pool_id", "slots"),
    "calendar": ("calendar",),
}
_PARTS = {"job": "config", "new_job": "config", "calendar": "calendar"}
_IDS = {
    "executor_pause": "executor_id",
    "new_job": "executor_id",
    "node": "node_id",
    "pool": "pool_id",
}


@dataclass(frozen=True, slots=True)
class Proposed:
    """Changes, and the executors that they concern."""

    changes: list[Change]
    executor_ids: frozenset[int]
    jobs: list[ForecastJob]  # of them, those that would get a configuration


class ProposedChanges:
    """Reads them."""

    def __init__(self, store: Store, jobs: Jobs) -> None:
        self._store = store
        self._jobs = jobs

    async def read(self, actor: Actor, raw: object) -> Proposed:
        """What a request proposes; nobody learns of what they may not see.

        Raises:
            InvalidInput: with the problems of the first change that has some.
            NotFound: it is about something that is not there, or not to be seen.
        """
        if not isinstance(raw, Sequence) or isinstance(raw, str) or not raw:
            raise InvalidInput.one("changes", "required", "Name at least one change.")
        if len(raw) > MAX_CHANGES:
            raise InvalidInput.one(
                "changes", "too_many", "At most %(limit)d, please.", limit=MAX_CHANGES
            )
        changes: list[Change] = []
        executor_ids: set[int] = set()
        jobs: list[ForecastJob] = []
        for index, each in enumerate(raw):
            path = f"changes[{index}]"
            change, concerned = await self._change(actor, each, path)
            if isinstance(change, JobAdded):
                change = structs.replace(change, job_id=NEW_JOB_IDS + index)
            changes.append(change)
            executor_ids |= concerned
            if isinstance(change, JobEdit | JobAdded):
                (executor_id,) = concerned
                jobs.append(_as_saved(change, executor_id))
        return Proposed(changes, frozenset(executor_ids), jobs)

    async def _change(self, actor: Actor, raw: object, path: str) -> tuple[Change, set[int]]:
        problems: list[Problem] = []
        fields = Fields(raw, path, problems)
        kind = fields.choice("kind", KINDS, default="")
        if not problems and not kind:
            fields.require("kind")
        raise_if_any(problems)
        fields.only(("kind", *_FIELDS[kind]))
        try:
            return await self._read(actor, kind, fields)
        except InvalidInput as error:
            part = _PARTS.get(kind)
            if part is None or any(each.field.startswith(path) for each in error.problems):
                raise
            raise InvalidInput(
                [
                    replace(each, field=f"{path}.{part}.{each.field}".rstrip("."))
                    for each in error.problems
                ]
            ) from None

    async def _read(self, actor: Actor, kind: str, fields: Fields) -> tuple[Change, set[int]]:
        if kind == "calendar":
            raise_if_any(fields.problems)
            return await self._calendar(actor, fields.raw.get("calendar"))
        name = _IDS.get(kind, "job_id")
        fields.require(name)
        found_id = fields.integer(name, low=1, high=MAX_ID, default=1)
        raise_if_any(fields.problems)
        if kind == "pool":
            return await self._pool(actor, found_id, fields)
        executor_id = await self._store.read(_executor_of, kind, found_id)
        if executor_id is None:
            raise not_found()
        actor.require(Permission.VIEW, executor_id)
        change: Change
        if kind == "new_job":
            actor.require(Permission.DEVELOP, executor_id)
            config = await self._config(actor, executor_id, fields)
            change = JobAdded(job_id=NEW_JOB_IDS, executor_id=executor_id, config=config)
        elif kind == "job":
            config = await self._config(actor, executor_id, fields)
            change = JobEdit(job_id=found_id, config=config)
        elif kind == "node":
            drain = fields.boolean("drain", default=False) if fields.has("drain") else None
            slots = fields.integer("slots", low=1, high=MAX_SLOTS, default=1)
            change = NodeChange(
                node_id=found_id, drain=drain, slots=slots if fields.has("slots") else None
            )
        else:
            fields.require("paused")
            paused = fields.boolean("paused", default=True)
            if kind == "job_pause":
                change = JobPause(job_id=found_id, paused=paused)
            else:
                change = ExecutorPause(executor_id=found_id, paused=paused)
        raise_if_any(fields.problems)
        return change, {executor_id}

    async def _pool(self, actor: Actor, pool_id: int, fields: Fields) -> tuple[Change, set[int]]:
        """A pool's change, for those who may make it: whose runs wait for it, is not for all."""

        def look(conn: sa.Connection) -> set[int]:
            pool_to_change(conn, actor, pool_id)
            return executors_of_pools(conn, [pool_id])

        concerned = await self._store.read(look)
        fields.require("slots")
        slots = fields.integer("slots", low=0, high=MAX_POOL_SLOTS, default=0)
        raise_if_any(fields.problems)
        scope = actor.scope(Permission.VIEW)
        visible = concerned if scope is None else concerned & scope
        return PoolChange(pool_id=pool_id, slots=slots), visible

    async def _config(self, actor: Actor, executor_id: int, fields: Fields) -> JobConfig:
        raw = fields.raw.get("config")
        if not isinstance(raw, Mapping):
            fields.refuse("config", "wrong_type", "This must be an object.")
            raise_if_any(fields.problems)
        config, problems = await self._jobs.read(actor, executor_id, dict(raw or {}))
        raise_if_any(problems)

        def look(conn: sa.Connection) -> JobConfig:
            look_at_calendars(conn, config)
            return deciding(look_at_pools(conn, executor_id, config))

        return await self._store.read(look)

    async def _calendar(self, actor: Actor, raw: object) -> tuple[Change, set[int]]:
        name, _, spec = parse_calendar(raw)

        def look(conn: sa.Connection) -> tuple[Change, set[int]]:
            stored = calendar_of_name(conn, name)
            if stored is None:
                raise InvalidInput.one(
                    "name",
                    "calendar.unknown",
                    "There is no calendar named “%(name)s”.",
                    name=name,
                )
            bases = read_calendars(conn, [spec.base] if spec.base is not None else [])
            calendar = Calendar(
                name=name,
                version=stored.version + 1,
                spec=spec,
                base=None if spec.base is None else bases.get(spec.base),
                changed_at=now_ms(conn),
            )
            concerned = executors_following(conn, name)
            scope = actor.scope(Permission.VIEW)
            visible = concerned if scope is None else concerned & scope
            return CalendarChange(calendar=calendar), visible

        return await self._store.read(look)


def _as_saved(change: JobEdit | JobAdded, executor_id: int) -> ForecastJob:
    """What says which executors, pools and calendars it brings in."""
    return ForecastJob(id=change.job_id, executor_id=executor_id, revision=1, config=change.config)


def _executor_of(conn: sa.Connection, kind: str, found_id: int) -> int | None:
    match kind:
        case "executor_pause" | "new_job":
            return None if get_executor(conn, found_id) is None else found_id
        case "node":
            node = get_node(conn, found_id)
            return None if node is None else node.node.executor_id
        case _:
            return executor_of_job(conn, found_id)
