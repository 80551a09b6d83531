"""The rows that a play begins with, and those that it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import structs

from tickwheel_admin.domain.calendars.calendar import CalendarSpec
from tickwheel_admin.domain.executors.node import LEASE_MS
from tickwheel_admin.domain.input.job import config_to_json
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.planning.fires import new_run
from tickwheel_admin.domain.runs import moves as run_moves
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.triggers.trigger import TriggerState
from tickwheel_admin.domain.triggers.trigger_json import spec_to_json
from tickwheel_admin.store.calendars.edits import add_calendar
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.runs.inserts import insert_fires
from tickwheel_admin.store.runs.rows import run_from_row

EXECUTOR = 1
HANDLER = "hello"
FIRST_NEW_ID = 1_000  # ids below are those of the rows that were there before
SETTLED_MS = LEASE_MS  # from now; no play lasts so long
BUCKET = 0  # of every trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedJob:
    """A job that was there before the play."""

    id: int
    config: JobConfig
    trigger_ids: Sequence[int]


class Props:
    """Rows of an emptied database. Ids are the same in every replay."""

    def __init__(self, conn: sa.Connection) -> None:
        self._conn = conn
        self._ids: dict[str, int] = {}
        self.jobs: list[StagedJob] = []
        self.live_before: list[Run] = []  # runs that are live before the play
        self.began_at = self.now
        for name in ("admin", "job", "trigger", "run", "node", "node_session", "audit"):
            self._insert(tables.id_block, name=name, next_id=FIRST_NEW_ID)
        self._insert(
            tables.executor,
            id=EXECUTOR,
            name="billing",
            description="",
            token_hash=f"hash-{EXECUTOR}",
            created_at=self.began_at,
            deleted_at=0,
        )

    # --- before the play -------------------------------------------------------------------------

    def new_id(self, name: str) -> int:
        self._ids[name] = self._ids.get(name, 0) + 1
        return self._ids[name]

    @property
    def now(self) -> int:
        """The database's time."""
        return now_ms(self._conn)

    def job(
        self, *, triggers: Sequence[tuple[TriggerSpec, int | None]] = (), **config: Any
    ) -> StagedJob:
        """A job with its triggers and their next fires."""
        job_id = self.new_id("job")
        specs = tuple(spec for spec, _ in triggers)
        values = {"name": f"job-{job_id}", "handler": HANDLER, "triggers": specs} | config
        made = JobConfig(**values)
        at = self.began_at
        self._insert(
            tables.job,
            id=job_id,
            executor_id=EXECUTOR,
            name=made.name,
            handler=made.handler,
            owner=made.owner,
            tags="",
            revision=1,
            paused=False,
            route_cursor=0,
            created_at=at,
            updated_at=at,
            deleted_at=0,
        )
        self._insert(
            tables.job_revision,
            job_id=job_id,
            revision=1,
            config=config_to_json(made),
            created_at=at,
            created_by="ada",
        )
        trigger_ids = []
        for spec, next_fire_at in triggers:
            trigger_ids.append(16 * self.new_id("trigger"))  # all in one bucket
            self._insert(
                tables.trigger,
                id=trigger_ids[-1],
                job_id=job_id,
                executor_id=EXECUTOR,
                bucket=0,
                spec=spec_to_json(spec),
                paused=False,
                state=TriggerState.ACTIVE.value,
                next_fire_at=next_fire_at,
                calendar=spec.calendar,
                calendar_version=None if spec.calendar is None else 1,
                version=1,
                created_at=0,
            )
        self.jobs.append(StagedJob(id=job_id, config=made, trigger_ids=trigger_ids))
        return self.jobs[-1]

    def calendar(self, name: str, **spec: Any) -> int:
        """A calendar in its first version; returns its id."""
        calendar_id = self.new_id("calendar")
        add_calendar(
            self._conn,
            calendar_id=calendar_id,
            name=name,
            description="",
            spec=CalendarSpec(**spec),
            now=self.began_at,
        )
        return calendar_id

    def add_node(self, *, slots: int = 10, **changes: Any) -> int:
        """A live node that nobody hears."""
        node_id = self.new_id("node")
        at = self.began_at
        values: dict[str, Any] = {
            "id": node_id,
            "executor_id": EXECUTOR,
            "node_key": f"{node_id:032x}",
            "name": f"node-{node_id}",
            "state": "live",
            "draining": False,
            "cordoned": False,
            "drain_wanted": False,
            "slots": slots,
            "in_use": 0,
            "weight": 1,
            "handlers": msgspec.json.encode([HANDLER]).decode(),
            "unstoppable": "[]",
            "labels": "{}",
            "sdk": "test/1",
            "address": "192.0.2.9",
            "connected_at": at,
            "lease_expires_at": at + SETTLED_MS,
            "full_lease_at": at + SETTLED_MS,
        }
        self._insert(tables.node, **(values | changes))
        return node_id

    def add_session(self, node_id: int, admin_id: int) -> int:
        """A node's socket at an admin; returns the session's id."""
        session_id = self.new_id("node_session")
        self._insert(
            tables.node_session,
            node_id=node_id,
            admin_id=admin_id,
            session_id=session_id,
            connected_at=self.began_at,
        )
        return session_id

    def add_admin(self, admin_id: int, name: str) -> None:
        self._insert(
            tables.admin,
            id=admin_id,
            name=name,
            url=f"http://admin-{admin_id}",
            version="test",
            started_at=self.began_at,
            lease_expires_at=self.began_at + SETTLED_MS,
            status="{}",
        )

    def queued(self, job: StagedJob, **changes: Any) -> Run:
        """A run that is due."""
        made = structs.replace(self.unstored(job), **changes)
        insert_fires(self._conn, [made])
        return made

    def running(
        self, job: StagedJob, node_id: int, *, started_ms_ago: int = 500, **changes: Any
    ) -> Run:
        """A run that a node has accepted."""
        at = self.began_at - started_ms_ago
        queued = self.unstored(job)
        claimed = run_moves.claimed(queued, node_id=node_id, token=f"old-{queued.id}", now=at)
        live = run_moves.accepted(claimed.after, timeout_ms=job.config.timeout_ms, now=at).after
        live = structs.replace(live, **changes)
        if live.blocking_key is not None:
            live = structs.replace(live, blocking_key=job.id * 2 + 1)
        insert_fires(self._conn, [live])
        self.live_before.append(live)
        node = tables.node
        self._conn.execute(
            sa.update(node).where(node.c.id == node_id).values(in_use=node.c.in_use + 1)
        )
        return live

    def workflow_run(self, job: StagedJob) -> Run:
        """The run of a workflow that has begun; its steps are written by the scenario."""
        run = run_moves.expanded(self.unstored(job), shards=1, now=self.began_at - 500).after
        insert_fires(self._conn, [run])
        self.live_before.append(run)
        return run

    def write(self, write: Callable[[sa.Connection, Any], None], rows: Sequence[Any]) -> None:
        """Write other rows by a function of the store."""
        write(self._conn, rows)

    def add_state(self, job_id: int, state: str, *, lent_to: Run) -> None:
        """What the job's last run left; an attempt has it now."""
        self._insert(
            tables.job_state,
            job_id=job_id,
            state=state,
            updated_at=self.began_at - 1_000,
            lent_run_id=lent_to.id,
            lent_attempt=lent_to.attempt,
        )

    def unstored(self, job: StagedJob) -> Run:
        """A run that is due, and not in the ledger yet."""
        run_id, at = self.new_id("run"), self.began_at
        made = new_run(
            job.config,
            id=run_id,
            executor_id=EXECUTOR,
            job_id=job.id,
            revision=1,
            origin=Origin.MANUAL,
            scheduled_at=at - 1_000 + run_id,
            now=at,
        )
        # With a key: in a unique key Galera takes (job, NULL) for one value, so that changes of
        # two runs of a job would always run into each other, whatever else should keep them apart.
        return structs.replace(made, request_key=f"staged-{run_id}")

    def change(self, table: sa.Table, row_id: int, **values: Any) -> None:
        """Set columns of a row."""
        self._conn.execute(sa.update(table).where(table.c.id == row_id).values(**values))

    # --- what is there ---------------------------------------------------------------------------

    def rows(self, statement: sa.Select[Any]) -> list[Any]:
        found = list(self._conn.execute(statement))
        self._conn.rollback()
        return found

    def runs(self, *conditions: sa.ColumnElement[bool]) -> list[Run]:
        run = tables.run
        return [
            run_from_row(row)
            for row in self.rows(sa.select(run).where(*conditions).order_by(run.c.id))
        ]

    def run(self, run_id: int) -> Run:
        return self.runs(tables.run.c.id == run_id)[0]

    def is_deleted(self, job: StagedJob) -> bool:
        (row,) = self.rows(sa.select(tables.job.c.deleted_at).where(tables.job.c.id == job.id))
        return bool(row.deleted_at)

    def node_row(self, node_id: int) -> Any:
        (row,) = self.rows(sa.select(tables.node).where(tables.node.c.id == node_id))
        return row

    def _insert(self, table: sa.Table, **values: Any) -> None:
        self._conn.execute(sa.insert(table).values(**values))


def is_live(run: Run) -> bool:
    return run.state in (RunState.DISPATCHED, RunState.RUNNING)
