"""A job that fires hourly for half a year, its backfills, and nodes that do what these ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.admin.kit.engine import Admin, FakeSession
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, now, runs_of
from tests.admin.kit.services import ADMIN
from tickwheel_admin.domain.backfills.backfill import Backfill, FillOutcome
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.services.backfills.requests import BackfillRequest
from tickwheel_admin.services.backfills.service import Backfills
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_shared.protocol import Outcome as Said
from tickwheel_shared.protocol import RunRequest

HOUR = 3_600_000
DAY = 24 * HOUR


class Site:
    """A job that fires hourly, and its backfills."""

    def __init__(self, database: Database, admin: Admin) -> None:
        self.database = database
        self.admin = admin
        self.backfills = Backfills(database, Ids(database), Events())
        self.job_id = 0
        self.start = 0  # of the first instant, half a year ago

    async def add_job(self, **config: Any) -> int:
        at = await now(self.database)
        self.start = at - at % HOUR - 180 * DAY
        spec = FixedRateSpec(every_ms=HOUR, anchor_at=self.start, parameters='{"t": 1}')
        self.job_id = await add_job(self.database, triggers=[(spec, at + DAY)], **config)
        return self.job_id

    async def ask(self, instants: int, **wanted: Any) -> int:
        request = BackfillRequest(from_at=self.start, to_at=self.start + instants * HOUR, **wanted)
        return await self.backfills.create(ADMIN, self.job_id, request)

    async def write(self) -> list[int]:
        """Let the loop look once; returns the instants that have runs by now."""
        await self.admin.engine.backfiller.run_once()
        return [self.hour(run.works_for_at) for run in await self.filled()]

    async def filled(self) -> list[Any]:
        runs = await runs_of(self.database, self.job_id)
        return sorted(
            (run for run in runs if run.origin is Origin.BACKFILL), key=lambda run: run.id
        )

    def hour(self, at: int) -> int:
        return (at - self.start) // HOUR

    async def get(self, backfill_id: int) -> Backfill:
        return (await self.backfills.get(ADMIN, backfill_id)).backfill

    async def do(
        self, node: FakeSession, requests: Sequence[RunRequest], how: Said = Said.SUCCEEDED
    ) -> None:
        await self.admin.say(node, *(accepted(each) for each in requests))
        await self.admin.say(node, *(result(each, how) for each in requests))

    async def finish(self, node: FakeSession) -> list[RunRequest]:
        """Until nothing happens any more; returns what the node was told."""
        told: list[RunRequest] = []
        for _ in range(100):
            await self.admin.engine.backfiller.run_once()
            requests = await self.admin.dispatch_all(node)
            if not requests:
                break
            told += requests
            await self.do(node, requests)
        return told

    async def outcomes(self, backfill_id: int, outcome: FillOutcome) -> list[int]:
        page = await self.backfills.instants(ADMIN, backfill_id, outcome=outcome, limit=500)
        return [self.hour(each.at) for each in page.items]
