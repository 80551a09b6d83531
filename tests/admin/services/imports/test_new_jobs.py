"""Jobs of other schedulers obey the rules of any other job; a plan asks nothing twice."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.admin.kit.services import ADMIN, World
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.job import parse_job
from tickwheel_admin.domain.schedule.base import Schedule
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.services.imports import plan
from tickwheel_admin.services.imports.new_jobs import NewImportedJob, add_imported_jobs
from tickwheel_admin.services.imports.plan import ImportPlanner
from tickwheel_admin.store.database.tables import job


@pytest.mark.parametrize(
    ("text", "code"),
    [("${secret.KEY}", "secret.unknown"), ("${secret.a-b}", "secret.bad_reference")],
)
async def test_a_secret_that_the_executor_does_not_have_is_refused(
    world: World, executor_id: int, text: str, code: str
) -> None:
    raw = {"name": "theirs", "handler": "send", "parameters": {"key": text}}
    new = NewImportedJob(config=parse_job(raw), job_id=1, audit_id=1, trigger_ids=(), detail={})

    def add(conn: sa.Connection) -> None:
        add_imported_jobs(conn, ADMIN, executor_id, [new], paused=True, calendars={})

    with pytest.raises(InvalidInput) as refusal:
        world.database.run_sync(add)
    assert refusal.value.problems[0].code == code
    assert world.rows(sa.select(job)) == []


def test_jobs_of_one_name_get_numbers() -> None:
    planner = ImportPlanner(1)
    taken = {"report": 7, "report (3)": 8}
    names = [planner.free_name("report", taken, None) for _ in range(4)]
    assert names == ["report (2)", "report (4)", "report (5)", "report (6)"]
    assert planner.free_name("report (2)", taken, None) == "report (2) (2)"
    assert planner.free_name("other", taken, None) == "other"


def test_a_schedule_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[TriggerSpec] = []

    def counted(spec: TriggerSpec, **options: Any) -> Schedule:
        searched.append(spec)
        return parse(spec, **options)

    monkeypatch.setattr(plan, "parse", counted)
    planner = ImportPlanner(1)
    past = OnceSpec(at=1_000)
    daily = CronSpec(expression="0 3 * * *", timezone="UTC")
    for number in range(3):
        own = f'{{"n":{number}}}'
        assert planner.is_over(replace(past, parameters=own), None, 2_000)
        assert not planner.is_over(replace(daily, parameters=own, priority=number + 1), None, 2_000)
    assert not planner.is_over(replace(daily, timezone="Asia/Tokyo"), None, 2_000)
    assert len(searched) == 3
