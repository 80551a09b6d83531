"""Windows are placed while nobody looks: once, audited, and so that each night has one fire."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import Admin
from tests.admin.kit.messages import result
from tests.admin.kit.rows import change
from tests.admin.kit.served import Served
from tests.admin.kit.services import ADMIN, World
from tickwheel_admin.domain.errors import Unavailable
from tickwheel_admin.domain.forecast.windows import PlacementRequest, placements
from tickwheel_admin.domain.triggers.kinds.window import WindowSpec
from tickwheel_admin.domain.triggers.placement import PlacedBy, WindowPlacement
from tickwheel_admin.domain.triggers.trigger_json import spec_from_json, spec_to_json
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.engine.maintenance import window_placer
from tickwheel_admin.engine.maintenance.self_audit import SelfAudit
from tickwheel_admin.engine.maintenance.window_placer import WindowPlacer
from tickwheel_admin.services.events.events import TRIGGERS
from tickwheel_admin.services.forecast.process import ForecastProcesses
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.configs import JobConfigs

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


async def here(request: PlacementRequest) -> Mapping[int, WindowPlacement]:
    return placements(request)


def placer(world: World, place: window_placer.Place | None = here) -> WindowPlacer:
    return WindowPlacer(
        world.database,
        Ids(world.database),
        world.events,
        place=place,
        configs=JobConfigs(),
        calendars=CalendarCache(),
    )


def clock_time(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC):%H:%M}"


def far_window(world: World, **changes: Any) -> dict[str, Any]:
    """A window that begins in about eight hours and lasts for four, wherever the clock is."""
    begin = world.now // MINUTE * MINUTE + 8 * HOUR
    return {
        "kind": "window",
        "from_time": clock_time(begin),
        "to_time": clock_time(begin + 4 * HOUR),
    } | changes


async def windowed(
    world: World, executor_id: int, *, minutes: int = 30, runs: int = 20, **fields: Any
) -> int:
    """A job that fires in a window and is measured; returns its id."""
    raw = {"name": "report", "handler": "send-invoices", "triggers": [far_window(world)]} | fields
    job_id = await world.jobs.create(ADMIN, executor_id, raw)
    ran_at = world.now - 100 * HOUR
    world.add_runs(
        {
            "job_id": job_id,
            "executor_id": executor_id,
            "origin": "manual",
            "scheduled_at": ran_at + n * HOUR,
            "due_at": ran_at + n * HOUR,
            "started_at": ran_at + n * HOUR,
            "ended_at": ran_at + n * HOUR + minutes * MINUTE,
        }
        for n in range(runs)
    )
    return job_id


def stored(world: World, job_id: int) -> tuple[WindowSpec, Any]:
    [row] = world.triggers_of_job(job_id)
    spec = spec_from_json(row.spec)
    assert isinstance(spec, WindowSpec)
    return spec, row


async def place_all(world: World, **changes: Any) -> None:
    loop = placer(world, **changes)
    while await loop.run_once():
        pass


# --- one pass ------------------------------------------------------------------------------------


@pytest.mark.every_database
async def test_it_is_placed_beside_the_least_load(world: World) -> None:
    executor_id = await world.executor()
    world.node(executor_id)
    job_id = await windowed(world, executor_id)
    before, row = stored(world, job_id)
    begin = row.next_fire_at - 4 * HOUR
    hours = ",".join(str(int(clock_time(begin + n * HOUR)[:2])) for n in (0, 1))
    busy = {"kind": "cron", "expression": f"{clock_time(begin)[3:]} {hours} * * *"}
    await windowed(world, executor_id, minutes=60, name="busy", triggers=[busy])
    assert before.placement is None

    await place_all(world)

    spec, after = stored(world, job_id)
    assert spec.placement is not None
    assert spec.placement.by is PlacedBy.LOAD
    assert spec.placement.offset in (120, 125)  # the forecast begins within a minute
    start = begin + spec.placement.offset * MINUTE
    assert after.next_fire_at == start
    assert after.version == row.version + 1  # plans made from the old version are void
    assert after.place_at > world.now + 5 * HOUR
    assert spec.as_written() == before
    [period] = world.rows(sa.select(tables.trigger_period))
    assert (period.trigger_id, spec_from_json(period.spec)) == (after.id, before)
    audit = tables.audit
    [noted] = world.rows(sa.select(audit).where(audit.c.action == "trigger.placed"))
    assert (noted.user_name, noted.user_id, noted.object_id) == ("Tickwheel", None, job_id)
    detail = msgspec.json.decode(noted.detail)
    assert detail["trigger"] == after.id
    assert (detail["from"], detail["to"]) == (
        clock_time(begin + 4 * HOUR), clock_time(start)
    )  # fmt: skip
    [job] = world.rows(sa.select(tables.job.c.revision).where(tables.job.c.id == job_id))
    assert job.revision == 1  # nobody edited it


@pytest.mark.every_database
async def test_of_two_admins_one_places_it(world: World) -> None:
    executor_id = await world.executor()
    world.node(executor_id)
    job_id = await windowed(world, executor_id)
    asked = []

    async def ask(request: PlacementRequest) -> Mapping[int, WindowPlacement]:
        asked.append(request.triggers)
        await asyncio.sleep(0)
        return placements(request)

    await asyncio.gather(placer(world, ask).run_once(), placer(world, ask).run_once())

    _, row = stored(world, job_id)
    assert asked == [[row.id]]
    assert world.audit().count(("trigger.placed", job_id)) == 1


async def test_others_take_over_from_an_admin_that_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor_id = await world.executor()
    world.node(executor_id)
    job_id = await windowed(world, executor_id)

    async def fails(request: PlacementRequest) -> Mapping[int, WindowPlacement]:
        raise Unavailable("forecast.failed", "The process that forecasts failed.")

    assert await placer(world, fails).run_once()
    await place_all(world)
    assert stored(world, job_id)[0].placement is None  # it is still the other one's
    world.change(sa.update(tables.trigger).values(place_at=world.now - 1))
    await place_all(world)
    assert stored(world, job_id)[0].placement is not None


async def test_a_result_that_comes_too_late_is_void(world: World) -> None:
    executor_id = await world.executor()
    world.node(executor_id)
    job_id = await windowed(world, executor_id)

    async def slow(request: PlacementRequest) -> Mapping[int, WindowPlacement]:
        world.change(sa.update(tables.trigger).values(place_at=world.now - 1))
        await place_all(world)
        found = placements(request)
        return {each: msgspec.structs.replace(old, offset=5) for each, old in found.items()}

    await placer(world, slow).run_once()
    placement = stored(world, job_id)[0].placement
    assert placement is not None
    assert placement.offset == 0
    assert world.audit().count(("trigger.placed", job_id)) == 1


async def test_who_has_nothing_to_place_reads_one_index_entry(world: World) -> None:
    executor_id = await world.executor()
    await world.jobs.create(
        ADMIN,
        executor_id,
        {"name": "j", "handler": "h", "triggers": [{"kind": "cron", "expression": "* * * * *"}]},
    )
    job_id = await windowed(world, executor_id)
    assert not await placer(world, None).run_once()
    await place_all(world)
    _, row = stored(world, job_id)

    async def never(request: PlacementRequest) -> Mapping[int, WindowPlacement]:
        raise AssertionError(request)

    assert not await placer(world, never).run_once()
    assert row.place_at > world.now


async def test_a_fire_that_comes_within_the_hour_stays(world: World) -> None:
    executor_id = await world.executor()
    world.node(executor_id)
    begin = world.now // MINUTE * MINUTE - 3 * HOUR - 30 * MINUTE
    near = {
        "kind": "window",
        "from_time": clock_time(begin),
        "to_time": clock_time(begin + 4 * HOUR),
    }
    job_id = await windowed(world, executor_id, triggers=[near])
    await place_all(world)
    spec, row = stored(world, job_id)
    assert spec.placement is None
    assert world.now + 50 * MINUTE < row.place_at <= world.now + HOUR  # it is tried again soon


async def test_the_process_of_forecasts_places_as_well(world: World) -> None:
    executor_id = await world.executor()
    world.node(executor_id)
    job_id = await windowed(world, executor_id)
    processes = ForecastProcesses()
    await place_all(world, place=processes.place)
    processes.close()
    assert stored(world, job_id)[0].placement is not None


# --- beside people -------------------------------------------------------------------------------


async def test_an_edit_that_leaves_the_window_alone_leaves_the_start(world: World) -> None:
    executor_id = await world.executor()
    world.node(executor_id)
    job_id = await windowed(world, executor_id)
    await place_all(world)
    spec, row = stored(world, job_id)
    shown = await world.jobs.get(ADMIN, job_id)
    raw = dict(shown.raw)

    await world.jobs.update(ADMIN, job_id, raw | {"priority": 2}, revision=1)
    same, kept = stored(world, job_id)
    assert (same, kept.id, kept.next_fire_at) == (spec, row.id, row.next_fire_at)

    [trigger] = raw["triggers"]
    other = [trigger | {"jitter_seconds": 5}]
    await world.jobs.update(ADMIN, job_id, raw | {"triggers": other}, revision=2)
    edited, new = stored(world, job_id)
    assert (edited.placement, edited.jitter_ms) == (spec.placement, 5_000)
    assert new.next_fire_at == row.next_fire_at

    later = [trigger | {"done_by": trigger["to_time"]}]
    await world.jobs.update(ADMIN, job_id, raw | {"triggers": later}, revision=3)
    assert stored(world, job_id)[0].placement is None


async def test_what_is_saved_is_placed_at_the_next_pass_and_told(world: World) -> None:
    executor_id = await world.executor()
    world.node(executor_id)
    job_id = await windowed(world, executor_id)
    told: list[str] = []
    world.events.listen(TRIGGERS, lambda: told.append(TRIGGERS))
    await place_all(world)
    assert told == [TRIGGERS]
    found = await world.jobs.get(ADMIN, job_id)
    assert found.next_fires[0] == stored(world, job_id)[1].next_fire_at


async def test_console_and_api_say_when_it_starts_and_why(site: Served) -> None:
    services = site.services
    executor = await services.executors.create(ADMIN, name="billing", description="")
    window = {"kind": "window", "from_time": "01:00", "to_time": "05:00", "done_by": "06:00"}
    raw = {"name": "report", "handler": "h", "triggers": [window]}
    job_id = await services.jobs.create(ADMIN, executor.id, raw)
    await site.log_in("ada", Role.ADMIN)

    async def shown() -> tuple[str, Any]:
        page = await (await site.client.get(f"/jobs/{job_id}")).text()
        job = await (await site.client.get(f"/api/v1/jobs/{job_id}")).json()
        return page, job["triggers"][0]["placement"]

    page, placement = await shown()
    assert "05:00: the end of its window, until enough runs are measured" in page
    assert placement is None
    placed = WindowPlacement(
        offset=100, by=PlacedBy.LOAD, chosen_at=site.clock.now, latest=215,
        length_ms=80 * MINUTE, runs=50, in_use=3.0, in_use_at_latest=9.2, slots=16,
    )  # fmt: skip
    trigger = (await services.jobs.get(ADMIN, job_id)).item.triggers[0]
    text = spec_to_json(msgspec.structs.replace(trigger.spec, placement=placed))
    await change(services.store, tables.trigger, trigger.id, spec=text)
    page, placement = await shown()
    assert "02:40: of the starts from 01:00 to 04:35 the one beside which others use" in page
    assert (placement["start"], placement["latest"], placement["by"]) == ("02:40", "04:35", "load")
    assert (placement["in_use"], placement["slots"], placement["runs"]) == (3.0, 16, 50)
    assert placement["reason"].startswith("02:40: of the starts")


# --- nights --------------------------------------------------------------------------------------

EVENING = int(datetime(2027, 3, 26, 18, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.turned_clock
async def test_planner_and_audit_agree_while_windows_are_placed_and_moved(
    world: World, clock: Clock
) -> None:
    """Five nights in Berlin, in one of which the clocks skip an hour."""
    clock.now = EVENING
    admin = Admin(world.database)
    executor_id = await world.executor()
    node = await admin.add_node(executor_id, slots=100, handlers="send-invoices")
    await change(world.database, tables.node, node.node_id, lease_expires_at=EVENING + 9 * DAY)
    job_ids = []
    for number, (begin, end) in enumerate((("01:00", "05:00"), ("23:00", "03:30"))):
        window = {"kind": "window", "from_time": begin, "to_time": end, "timezone": "Europe/Berlin"}
        raw = {"name": f"job-{number}", "triggers": [window], "minutes": 25}
        job_ids.append(await windowed(world, executor_id, **raw))
    offsets = iter((60, 95, 20, 230, 0, 15, 200, 90) * 20)

    async def elsewhere(request: PlacementRequest) -> Mapping[int, WindowPlacement]:
        """Another start at each look: far more moves than there ever are."""
        return {
            each: WindowPlacement(
                offset=next(offsets),
                by=PlacedBy.LOAD,
                chosen_at=request.situation.now,
                latest=240,
                length_ms=1,
                runs=3,
            )
            for each in request.triggers
        }

    loop = placer(world, elsewhere)
    while clock.now < EVENING + 5 * DAY:
        clock.advance(600)
        while requests := [*(await admin.dispatch_all(node))]:
            await admin.say(node, *(result(each) for each in requests))
        await admin.engine.planner.run_once()
        if clock.now % (3 * HOUR) == 0:
            world.change(sa.update(tables.trigger).values(place_at=clock.now))
            await loop.run_once()
    audit = SelfAudit(world.database, admin_id=1, retention_days=30)
    while await audit.run_once():
        pass

    moves = sum(action == "trigger.placed" for action, _ in world.audit())
    assert moves > 8
    assert world.rows(sa.select(tables.self_audit_difference)) == []
    for job_id in job_ids:
        fired = [each for each in world.runs_of_job(job_id) if each.trigger_id is not None]
        assert len(fired) == 5, "one in each night"
        starts = [each.interval_start for each in fired[1:]]
        assert starts == [each.scheduled_at for each in fired[:-1]], "no time is left out"
