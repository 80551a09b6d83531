"""The night plan in the console over real HTTP: its page, its lanes, and who sees what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.admin.kit.crowded_night import NOW, crowded_plan
from tests.admin.kit.routes import headers_of, logged_in
from tests.admin.kit.served import Served, served
from tickwheel_admin.console.forecast.lanes import drawn_lanes
from tickwheel_admin.domain.errors import Unavailable
from tickwheel_admin.domain.forecast.night_plan import PlanSum
from tickwheel_admin.domain.users.user import Grant, Role, everywhere
from tickwheel_admin.services.users.administration import COMMAND_LINE

PART = {"X-Block": "answer", "HX-Request": "true"}
HOUR_MS = 3_600_000


async def get(site: Served, address: str, headers: dict[str, str]) -> tuple[int, str]:
    async with site.client.get(address, headers=headers) as answer:
        return answer.status, await answer.text()


def words(page: str) -> str:
    return " ".join(page.split())


async def executor_of(site: Served, name: str = "billing") -> int:
    made = await site.services.executors.create(COMMAND_LINE, name=name, description="")
    return made.id


async def test_a_page_asks_for_its_plan(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        headers = headers_of(await logged_in(site, "vic", everywhere(Role.VIEWER)))
        status, none = await get(site, "/night-plan", headers)
        assert (status, "It needs an executor with jobs." in none) == (200, True)

        executor_id = await executor_of(site)
        raw = {
            "name": "a<b>",
            "handler": "h",
            "triggers": [{"kind": "cron", "expression": "0 * * * *"}],
            "alarms": [{"kind": "deadline_missed", "limits": {"by": "06:00"}}],
        }
        await site.services.jobs.create(COMMAND_LINE, executor_id, raw)
        address = f"/night-plan?executor={executor_id}&ahead=24"
        status, shell = await get(site, address, headers)
        assert (status, "What ran, runs and will run" in shell) == (200, False)
        assert f'hx-get="{address.replace("&", "&amp;")}"' in shell
        status, part = await get(site, address, {**headers, **PART})
        assert (status, "<html" in part) == (200, False)
        assert "a&lt;b&gt;" in part
        assert "no success is in sight" in part, "it has no node"
        assert "No forecast has been scored yet" in part
        assert "<b>a" not in part
        status, whole = await get(site, f"{address}&now=yes&by=node", headers)
        assert (status, "Nothing ran, and nothing will run." in whole) == (200, True)


async def test_a_deadline_in_danger_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as site:
        headers = headers_of(await logged_in(site, "vic", everywhere(Role.VIEWER)))
        await executor_of(site)
        hidden: frozenset[int] = frozenset()

        async def plan(*_: object, **__: object) -> Any:
            return crowded_plan(hidden=hidden)

        monkeypatch.setattr(type(site.services.night_plans), "get", plan)
        _, page = await get(site, "/night-plan?now=yes", headers)
        page = words(page)
        for expected in (
            "by 1h 00m.",
            "&lt;report&gt;",
            "It waits 3h 28m for a slot.",
            "Who has the slots:",
            "Priority 1 for load, &lt;report&gt;",
            "brings 1h 30m",
            "2 more slots for each node",
            "Without backup, snapshot",
            "has succeeded in time for",
            "it should end by",
            'class="plan-predicted critical"',
            'class="f-failed"',
            "half an hour before 41 deadlines: 10 of 12 warnings came true, 10 of 11 missed",
            "off by at most 3m 00s.",
            'class="deadline-line bad"',
        ):
            assert expected in page, expected
        assert "<report>" not in page

        hidden = frozenset({1, 2})
        _, page = await get(site, "/night-plan?now=yes", headers)
        assert "backup" not in page
        assert "Without another job, another job" in words(page)


async def test_what_is_too_much_to_be_drawn_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as site:
        headers = headers_of(await logged_in(site, "vic", everywhere(Role.VIEWER)))
        await executor_of(site)
        found = crowded_plan()
        plan = replace(
            found.plan,
            bars=(),
            deadlines=(),
            sums=(PlanSum(job_id=4, runs=2_160, first_at=1, last_at=2, busy_ms=3),),
        )

        async def get_plan(*_: object, **__: object) -> Any:
            return replace(found, plan=plan, past=())

        monkeypatch.setattr(type(site.services.night_plans), "get", get_plan)
        _, page = await get(site, "/night-plan?now=yes", headers)
        assert "&lt;report&gt;</a> 2,160 runs, " in words(page)
        assert "nothing will run" not in page


async def test_whoever_may_not_see_an_executor_sees_no_plan(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        seen, hidden = await executor_of(site), await executor_of(site, "crm")
        headers = headers_of(await logged_in(site, "vic", {seen: Grant(role=Role.VIEWER)}))
        _, own = await get(site, "/night-plan", {**headers, **PART})
        assert "What ran, runs and will run" in own
        _, other = await get(site, f"/night-plan?executor={hidden}", headers)
        assert "There is no such executor." in other
        assert "crm" not in other


async def test_a_plan_that_takes_too_long_is_told_where_it_would_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as site:
        headers = headers_of(await logged_in(site, "vic", everywhere(Role.VIEWER)))
        await executor_of(site)

        async def plan(*_: object, **__: object) -> Any:
            raise Unavailable("forecast.too_long", "This takes too long.")

        monkeypatch.setattr(type(site.services.night_plans), "get", plan)
        status, part = await get(site, "/night-plan", {**headers, **PART})
        assert (status, "Nothing was simulated." in part) == (200, True)
        status, _ = await get(site, "/night-plan?now=yes", headers)
        assert status == 503


def test_lanes_lie_where_their_time_is() -> None:
    """Ten hours are shown, and now is two of them after their begin."""
    drawn = drawn_lanes(crowded_plan(), by_node=False)
    assert drawn.now_x == 20
    assert [lane.key for lane in drawn.lanes][:2] == [4, 3], "what is in danger comes first"
    [report], [deadline] = drawn.lanes[0].marks, drawn.lanes[0].deadlines
    assert (report.kind, report.x, report.width, report.is_critical) == ("predicted", 75, 5, True)
    assert (deadline.x, deadline.is_in_danger) == (70, True)
    probe = next(lane for lane in drawn.lanes if lane.key == 5)
    assert probe.marks[-1].slow_width > 0
    assert drawn.ticks[0] == (0, NOW - 2 * HOUR_MS) or drawn.ticks[0] == (20, NOW)


def test_a_line_leads_from_a_run_to_the_one_that_follows_it() -> None:
    found = crowded_plan()
    [load] = [run for run in found.plan.bars if run.job_id == 3]
    over = replace(found.past[0], id=990, job_id=1)
    child = replace(over, id=991, job_id=5, parent_run_id=990, started_at=over.ended_at)
    found = replace(found, past=(over, child))
    drawn = drawn_lanes(found, by_node=False)
    tops = {}
    top = 0
    for lane in drawn.lanes:
        tops[lane.key] = top
        top += lane.height + 1
    assert drawn.height == top
    lines = {(line.from_x, line.x): line for line in drawn.links}
    assert len(lines) == 2, "only these two follow another run"
    line = lines[75, 75]
    assert (line.is_critical, load.end_at) == (True, NOW + 330 * 60_000)
    assert tops[3] < line.from_y < tops[3] + drawn.lanes[1].height
    assert tops[4] < line.y < tops[4] + drawn.lanes[0].height
    past = next(each for each in drawn.links if not each.is_critical)
    assert tops[1] < past.from_y < past.y
    assert drawn_lanes(found, by_node=True).links == (), "one node has one lane"


def test_bars_that_overlap_stand_below_each_other() -> None:
    lane = max(
        drawn_lanes(crowded_plan(slots=3), by_node=True).lanes, key=lambda each: len(each.marks)
    )
    assert len({mark.y for mark in lane.marks}) > 1
    for one in lane.marks:
        for other in lane.marks:
            if one is not other and one.y == other.y:
                assert one.x + one.width <= other.x or other.x + other.width <= one.x
