"""Edits of the rules about one job: each is an edit of the job, whose configuration holds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.job_alarm import JobAlarm
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import (
    ALARMS,
    JOBS,
    QUEUED,
    RUNS,
    TRIGGERS,
    Events,
)
from tickwheel_admin.services.jobs.edits import Edit, begin_edit, lock_job_for, update_job
from tickwheel_admin.store.alarms.rules import lock_alarm_edits
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.child_links import lock_links_of
from tickwheel_admin.store.jobs.jobs import get_job

Alarms = tuple[JobAlarm, ...]


class JobRuleEdits:
    """Changes what a job says of its alarms; its other fields, and so its fires, stay."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._events = events

    async def change(
        self,
        actor: Actor,
        job_id: int,
        work: Callable[[sa.Connection, Alarms], Alarms],
        *,
        rule_id: int | None = None,
    ) -> None:
        """Give a job the rules that `work` makes of those that it has, in the edit's transaction.

        Args:
            rule_id: of the one that it may add.

        Raises:
            Conflict: job.managed_by_code.
        """
        begun = replace(
            await begin_edit(self._ids, actor), rule_ids=() if rule_id is None else (rule_id,)
        )

        def change(conn: sa.Connection, run_ids: Sequence[int]) -> None:
            edit: Edit = replace(begun, run_ids=run_ids)
            if edit.earlier(conn):
                return
            seen = get_job(conn, job_id)
            if seen is not None:
                lock_links_of(conn, seen.config)  # before the job, as every edit does
            job = lock_job_for(conn, actor, job_id, Permission.DEVELOP)
            lock_alarm_edits(conn)
            alarms = work(conn, job.config.alarms)
            if alarms != job.config.alarms:
                config = replace(job.config, alarms=alarms)
                update_job(conn, edit, job_id=job_id, revision=job.revision, config=config)

        await self._ids.run_with_ids("run", lambda run_ids: self._store.run(change, run_ids))
        for topic in (ALARMS, JOBS, TRIGGERS, RUNS, QUEUED):
            self._events.publish(topic)
