"""A database with services on it, and short ways to put executors, nodes and runs there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Role
from tickwheel_admin.services.backfills.service import Backfills
from tickwheel_admin.services.calendars.service import Calendars
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.executors.nodes import Nodes
from tickwheel_admin.services.executors.service import Executors
from tickwheel_admin.services.gitops.service import GitOps
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.overview.attention.service import Attention
from tickwheel_admin.services.overview.service import Overview
from tickwheel_admin.services.pools.service import Pools
from tickwheel_admin.services.runs.purge import Purge
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.service import Secrets
from tickwheel_admin.services.system.service import System
from tickwheel_admin.services.triggers.service import Triggers
from tickwheel_admin.services.xxl_job.service import XxlExecutors
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.triggers.planning import ensure_buckets

ADMIN = Actor(user_id=1, name="ada", grants={ALL_EXECUTORS: Role.ADMIN}, address="192.0.2.1")
RUN_COLUMNS = [column.name for column in tables.run.columns if column.computed is None]
JOB: dict[str, Any] = {"name": "invoices", "handler": "send-invoices"}
SECRET_KEY = bytes(range(32))
FAR = 4_000_000_000_000  # a due instant that never comes


def actor_with(role: Role, *executor_ids: int) -> Actor:
    """Somebody with a role on some executors only."""
    return Actor(user_id=2, name="bob", grants=dict.fromkeys(executor_ids, role))


class World:
    """Everything that a test of services needs."""

    def __init__(
        self, url: str, *, clock: Callable[[], int] | None = None, has_tables: bool = False
    ) -> None:
        """Stand over this database, whose tables are made unless the caller knows of them."""
        self.database = Database(url, threads=4, clock=clock)
        if not has_tables and not sa.inspect(self.database.engine).has_table(tables.run.name):
            tables.metadata.create_all(self.database.engine)
        self.database.run_sync(ensure_buckets)
        ids = Ids(self.database)
        self.events = Events()
        self.executors = Executors(self.database, ids, self.events)
        self.jobs = Jobs(self.database, ids, self.events)
        self.runs = Runs(self.database, ids, self.events)
        self.calendars = Calendars(self.database, ids, self.events)
        self.pools = Pools(self.database, ids, self.events)
        self.schedules = Triggers(self.database)
        self.overview = Overview(self.database)
        self.attention = Attention(self.database)
        self.backfills = Backfills(self.database, ids, self.events)
        self.purge = Purge(self.database, ids, self.events)
        self.nodes = Nodes(self.database, ids, self.events)
        self.cipher = Cipher([SECRET_KEY])
        self.gitops = GitOps(
            self.database, ids, self.events, self.cipher, languages=("en", "zh-CN")
        )
        self.secrets = Secrets(self.database, ids, self.events, self.cipher)
        self.xxl_executors = XxlExecutors(self.database, ids, self.events, self.cipher)
        self.system = System(self.database, ids, self.events)
        self._numbers = itertools.count(1_000_000)

    def close(self) -> None:
        self.database.close_sync()

    @property
    def now(self) -> int:
        """The database's time."""
        return self.database.read_sync(now_ms)

    def rows(self, statement: sa.Select[Any]) -> list[Any]:
        """What a query finds."""
        return self.database.read_sync(lambda conn: list(conn.execute(statement)))

    def change(self, *statements: sa.Update | sa.Insert | sa.Delete) -> None:
        """Write behind the services' back."""

        def write(conn: sa.Connection) -> None:
            for statement in statements:
                conn.execute(statement)

        self.database.run_sync(write)

    async def executor(self, name: str = "billing") -> int:
        """A new executor's id."""
        return (await self.executors.create(ADMIN, name=name, description="")).id

    def node(
        self,
        executor_id: int,
        *,
        handlers: Iterable[str] = ("send-invoices",),
        **changes: Any,
    ) -> int:
        """A live node's id."""
        node_id = next(self._numbers)
        values: dict[str, Any] = {
            "id": node_id,
            "executor_id": executor_id,
            "node_key": f"key-{node_id}",
            "name": f"host-{node_id}",
            "state": "live",
            "draining": False,
            "cordoned": False,
            "drain_wanted": False,
            "slots": 4,
            "in_use": 0,
            "weight": 1,
            "handlers": msgspec.json.encode(sorted(handlers)).decode(),
            "unstoppable": "[]",
            "labels": "{}",
            "sdk": "python/0",
            "address": "192.0.2.9",
            "connected_at": self.now,
            "lease_expires_at": FAR,
            "full_lease_at": FAR,
        }
        self.change(sa.insert(tables.node).values(values | changes))
        return node_id

    def run(self, **changes: Any) -> int:
        """A run's id; a succeeded one of job 1 unless said otherwise."""
        return self.add_runs([changes])[0]

    def add_runs(self, changes: Iterable[dict[str, Any]]) -> list[int]:
        """Many runs at once."""
        rows = [run_row(next(self._numbers), each) for each in changes]
        for start in range(0, len(rows), 2_000):
            batch = rows[start : start + 2_000]
            self.database.run_sync(insert_rows, tables.run, batch, columns=RUN_COLUMNS)
        return [int(row["id"]) for row in rows]

    def runs_of_job(self, job_id: int) -> list[Any]:
        """Rows of its runs, oldest scheduled first."""
        run = tables.run
        return self.rows(
            sa.select(run).where(run.c.job_id == job_id).order_by(run.c.scheduled_at, run.c.id)
        )

    def triggers_of_job(self, job_id: int) -> list[Any]:
        """Rows of its triggers."""
        trigger = tables.trigger
        return self.rows(
            sa.select(trigger).where(trigger.c.job_id == job_id).order_by(trigger.c.id)
        )

    def audit(self) -> list[tuple[str, int | None]]:
        """(action, object) of everything that was noted, oldest first."""
        audit = tables.audit
        rows = self.rows(sa.select(audit.c.action, audit.c.object_id).order_by(audit.c.id))
        return [(row.action, row.object_id) for row in rows]


def daily(world: World) -> dict[str, Any]:
    """A trigger that next fires in 23 hours: never in the middle of a test, however slow it is."""
    return {"kind": "fixed_rate", "every_seconds": 86_400, "anchor_at": world.now - 3_600_000}


def run_row(run_id: int, changes: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": run_id,
        "executor_id": 1,
        "job_id": 1,
        "job_revision": 1,
        "origin": "schedule",
        "scheduled_at": 1_700_000_000_000 + run_id,
        "shard_index": 0,
        "shard_total": 1,
        "priority": 5,
        "created_at": 1_700_000_000_000,
        "state": "succeeded",
        "due_at": 1_700_000_000_000,
        "attempt": 1,
        "tries": 1,
        "log_lines": 0,
    }
    row |= changes
    is_part = row.get("fire_id") is not None or row["origin"] in ("step", "try")
    return {"is_part": is_part} | row
