"""One run and everything about it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import sqlalchemy as sa

from tickwheel_admin.domain.jobs.children import request_key_of
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.run import FINAL, Run, RunState
from tickwheel_admin.domain.runs.script_line import failing_line
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.runs.waiting import Waiting, why_it_waits
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.jobs.scripts import with_source
from tickwheel_admin.store.runs import lists as run_lists
from tickwheel_admin.store.runs.checkpoints import StoredCheckpoint, get_checkpoint
from tickwheel_admin.store.runs.lists import AttemptView, RunItem
from tickwheel_admin.store.runs.summaries import recent_summaries

MAX_ATTEMPTS_SHOWN = 200
ENOUGH = 3  # fewer say nothing of what is usual
USUAL_OF = 30  # how many of the job's newest runs tell what is usual


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """One run and everything about it but its log."""

    item: RunItem
    config: JobConfig  # of the revision it was made with
    parameters: str  # JSON text that its handler gets
    attempts: list[AttemptView]  # ended ones that another try followed, oldest first
    waiting: Waiting | None  # why a queued run does not start
    checkpoint: StoredCheckpoint | None  # what its next try begins from
    job_deleted: bool
    shards: list[RunItem]  # of a whole fire, by their index; at most 1,000
    usual_ms: int | None  # how long its job's newest successful runs took, by the median
    children: list[RunItem]  # runs that its end asked for, as far as the caller may see them

    @property
    def failing_line(self) -> int | None:
        """The line of its script that failed, from 1; None where that is not told."""
        script = self.config.script
        if script is None or script.source is None:
            return None
        lines = len(script.source.splitlines())
        return failing_line(script.language, self.item.run.message, lines=lines)

    @property
    def retried_by(self) -> list[int]:
        """Runs that retry it by hand, themselves or as retries of its retries."""
        return [] if self.item.retried is None else list(self.item.retried.ids)


def read_detail(conn: sa.Connection, actor: Actor, run_id: int) -> RunDetail:
    """Raises NotFound for a run that is gone, or that the caller may not see."""
    item = visible_item(conn, actor, run_id)
    run = item.run
    config = with_source(conn, store_jobs.get_config(conn, run.job_id, run.job_revision))
    return RunDetail(
        item=item,
        config=config,
        parameters=config.parameters if run.parameters is None else run.parameters,
        attempts=run_lists.attempts_of_run(conn, run_id, limit=MAX_ATTEMPTS_SHOWN),
        waiting=why_it_waits(conn, run, config),
        checkpoint=get_checkpoint(conn, run_id),
        job_deleted=store_jobs.get_job(conn, run.job_id) is None,
        shards=run_lists.shards_of_fire(conn, run_id) if run.is_fire else [],
        usual_ms=None if run.fire_id is not None else _usual_ms(conn, run),
        children=_children(conn, actor, run, config),
    )


def visible_item(conn: sa.Connection, actor: Actor, run_id: int) -> RunItem:
    """Raises likewise."""
    item = run_lists.get_run(conn, run_id)
    if item is None:
        raise not_found()
    actor.require(Permission.VIEW, item.run.executor_id)
    return item


def _children(conn: sa.Connection, actor: Actor, run: Run, config: JobConfig) -> list[RunItem]:
    if not config.children or run.state not in FINAL:
        return []
    job_ids = [link.job_id for link in config.children]
    found = run_lists.requested_runs(conn, job_ids, request_key_of(run.id))
    return [each for each in found if actor.may(Permission.VIEW, each.run.executor_id)]


def _usual_ms(conn: sa.Connection, run: Run) -> int | None:
    """Of the runs that were due before it; None where too few succeeded to tell."""
    marks = recent_summaries(conn, [run.job_id], until=run.scheduled_at, per_job=USUAL_OF)
    lengths = [
        mark.duration_ms
        for mark in marks.get(run.job_id, ())
        if mark.state is RunState.SUCCEEDED and mark.duration_ms is not None and mark.id != run.id
    ]
    return round(median(lengths)) if len(lengths) >= ENOUGH else None
