"""Scenarios of backfills: admins that write the same slice while somebody cancels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import sqlalchemy as sa

from tests.interleavings.admins import Admin
from tests.interleavings.props import EXECUTOR, FIRST_NEW_ID
from tests.interleavings.stage import Stage
from tests.simulation.operators import OPERATOR
from tickwheel_admin.domain.backfills.backfill import Backfill, BackfillState
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.services.backfills.service import Backfills
from tickwheel_admin.store.backfills.backfills import add_backfill
from tickwheel_admin.store.database import tables

HOUR_MS = 3_600_000
BACKFILL = 1
WANTED = 6
AT_ONCE = 4


async def _fills(admin: Admin) -> None:
    await admin.engine.backfiller.run_once()


async def _cancels(admin: Admin) -> None:
    backfills = Backfills(admin.seat.store, admin.ids, admin.events)
    await backfills.cancel(OPERATOR, BACKFILL)


def backfillers_share_a_slice(stage: Stage) -> Iterator[None]:
    """Two admins write the next runs, and somebody cancels: each instant once, then none."""
    first, second, third = [stage.admin() for _ in range(3)]
    stage.node(heard_by=stage.admins, slots=10)
    from_at = stage.began_at - stage.began_at % HOUR_MS - 10 * HOUR_MS
    spec = FixedRateSpec(every_ms=HOUR_MS, anchor_at=from_at)
    job = stage.job(triggers=[(spec, None)])
    stage._conn.execute(sa.insert(tables.id_block).values(name="backfill", next_id=FIRST_NEW_ID))
    new = Backfill(
        id=BACKFILL,
        executor_id=EXECUTOR,
        job_id=job.id,
        trigger_id=job.trigger_ids[0],
        spec=spec,
        saved_at=from_at,
        from_at=from_at,
        to_at=from_at + WANTED * HOUR_MS,
        newest_first=False,
        parallel=AT_ONCE,
        parameters=None,
        requested_by="ada",
        total=WANTED,
        state=BackfillState.RUNNING,
        created_at=stage.began_at,
    )
    add_backfill(stage._conn, new, request_key=None)
    for admin in (first, second):
        stage.acts(admin, "fills in", _fills, admin)
    stage.may_raise(stage.acts(third, "cancels", _cancels, third), Conflict)
    yield
    [row] = stage.rows(sa.select(tables.backfill))
    runs = stage.rows(sa.select(tables.run).where(tables.run.c.request_key.is_not(None)))
    noted = stage.rows(sa.select(tables.backfill_run))
    instants = sorted(run.nominal_at for run in runs)
    expected = [from_at + number * HOUR_MS for number in range(len(instants))]
    stage.expect(instants == expected, f"runs for {instants}")
    stage.expect(len(runs) in (0, AT_ONCE), f"{len(runs)} runs at once")
    stage.expect(row.written == len(runs) == len(noted), f"{row.written} are counted")
    if row.state == "cancelled":
        left = [run.id for run in runs if run.state == "queued"]
        stage.expect(not left, f"runs {left} still wait")
        stage.afterwards(partial(_fills, first), partial(_fills, second))
        [row] = stage.rows(sa.select(tables.backfill))
        stage.expect(row.ended_at is not None, "it does not end")
        stage.expect(row.cancelled == len(runs), f"{row.cancelled} of {len(runs)} are cancelled")


SCENARIOS = (backfillers_share_a_slice,)
