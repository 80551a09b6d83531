"""Changes as a request names them: read, and checked against what the caller may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.forecast.changes import (
    CalendarChange,
    Change,
    ExecutorPause,
    JobEdit,
    JobPause,
    NodeChange,
)
from tickwheel_admin.domain.input.calendar import parse_calendar
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.calendars.of_triggers import look_at_calendars
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.pools.of_jobs import look_at_pools
from tickwheel_admin.store.calendars.calendars import calendar_of_name, read_calendars
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.executors import get_executor, get_node
from tickwheel_admin.store.forecast.situation import deciding, executors_following
from tickwheel_admin.store.jobs.jobs import executor_of_job

MAX_CHANGES = 20
MAX_SLOTS = 10_000
MAX_ID = 2**53 - 1
KINDS = ("job", "job_pause", "executor_pause", "node", "calendar")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "job": ("job_id", "config"),
    "job_pause": ("job_id", "paused"),
    "executor_pause": ("executor_id", "paused"),
    "node": ("node_id", "drain", "slots"),
    "calendar": ("calendar",),
}


@dataclass(frozen=True, slots=True)
class Proposed:
    """Changes, and the executors that they concern."""

    changes: list[Change]
    executor_ids: frozenset[int]


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
        for index, each in enumerate(raw):
            path = f"changes[{index}]"
            change, concerned = await self._change(actor, each, path)
            changes.append(change)
            executor_ids |= concerned
        return Proposed(changes, frozenset(executor_ids))

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
            part = {"job": "config", "calendar": "calendar"}.get(kind)
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
        name = {"executor_pause": "executor_id", "node": "node_id"}.get(kind, "job_id")
        fields.require(name)
        found_id = fields.integer(name, low=1, high=MAX_ID, default=1)
        raise_if_any(fields.problems)
        executor_id = await self._store.read(_executor_of, kind, found_id)
        if executor_id is None:
            raise not_found()
        actor.require(Permission.VIEW, executor_id)
        change: Change
        if kind == "job":
            change = await self._job(actor, executor_id, found_id, fields)
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

    async def _job(self, actor: Actor, executor_id: int, job_id: int, fields: Fields) -> JobEdit:
        raw = fields.raw.get("config")
        if not isinstance(raw, Mapping):
            fields.refuse("config", "wrong_type", "This must be an object.")
            raise_if_any(fields.problems)
        config, problems = await self._jobs.read(actor, executor_id, dict(raw or {}))
        raise_if_any(problems)

        def look(conn: sa.Connection) -> JobEdit:
            look_at_calendars(conn, config)
            found = look_at_pools(conn, executor_id, config)
            return JobEdit(job_id=job_id, config=deciding(found))

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


def _executor_of(conn: sa.Connection, kind: str, found_id: int) -> int | None:
    match kind:
        case "executor_pause":
            return None if get_executor(conn, found_id) is None else found_id
        case "node":
            node = get_node(conn, found_id)
            return None if node is None else node.node.executor_id
        case _:
            return executor_of_job(conn, found_id)
