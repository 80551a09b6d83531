"""What-if in the console over real HTTP: its page, forms, who may ask, and who leaves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import sqlalchemy as sa

from tests.admin.domain.forecast.situations import DAY_MS, NOW, cron, job, situation
from tests.admin.kit.routes import headers_of, logged_in
from tests.admin.kit.served import Served, served
from tests.support.polling import wait_until_async
from tickwheel_admin.domain.errors import Unavailable
from tickwheel_admin.domain.forecast.changes import JobEdit
from tickwheel_admin.domain.forecast.comparison import compare
from tickwheel_admin.domain.users.user import Grant, Role, everywhere
from tickwheel_admin.services.forecast.service import WhatIf
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.web import client

HOURLY = {"kind": "cron", "expression": "0 * * * *"}
PART = {"X-Block": "answer", "HX-Request": "true"}
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
STORED = (tables.job, tables.job_revision, tables.trigger, tables.node, tables.audit)


async def job_of(site: Served, name: str = "a<b>", executor: str = "billing") -> tuple[int, int]:
    services = site.services
    made = await services.executors.create(COMMAND_LINE, name=executor, description="")
    raw = {"name": name, "handler": "h", "triggers": [HOURLY]}
    return made.id, await services.jobs.create(COMMAND_LINE, made.id, raw)


async def get(site: Served, address: str, headers: dict[str, str]) -> tuple[int, str]:
    async with site.client.get(address, headers=headers) as answer:
        return answer.status, await answer.text()


async def post(site: Served, address: str, headers: dict[str, str], text: str) -> tuple[int, str]:
    sent = {**headers, **SAME_ORIGIN}
    form = {"view": "yaml", "yaml": text}
    async with site.client.post(address, data=form, headers=sent) as answer:
        return answer.status, await answer.text()


async def rows(site: Served) -> list[Any]:
    def read(conn: sa.Connection) -> list[Any]:
        return [conn.execute(sa.select(table)).all() for table in STORED]

    return await site.services.store.read(read)


async def test_a_page_asks_for_its_answer_and_stores_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        headers = headers_of(await logged_in(site, "vic", everywhere(Role.VIEWER)))
        executor_id, job_id = await job_of(site)
        before = await rows(site)
        address = f"/what-if?change=pause&of={job_id}"

        status, shell = await get(site, address, headers)
        assert (status, "What if a&lt;b&gt; is paused?" in shell) == (200, True)
        assert f'hx-get="{address.replace("&", "&amp;")}"' in shell
        assert "In numbers" not in shell, "what takes seconds is not computed for the page"

        status, part = await get(site, address, {**headers, **PART})
        assert (status, "<html" in part) == (200, False)
        for expected in ("23 go and 0 come", "−23 +0", "a&lt;b&gt;", "In numbers", "none yet"):
            assert expected in part
        assert "<b>" not in part.replace("<b>23</b>", "").replace("<b>0</b>", "").replace(
            "<b>–</b>", ""
        )
        status, whole = await get(site, f"{address}&now=yes&hours=72", headers)
        assert (status, "71 go and 0 come" in whole) == (200, True)

        paused = f"/what-if?change=pause-executor&of={executor_id}"
        assert "23 go and 0 come" in (await get(site, paused, {**headers, **PART}))[1]
        assert await rows(site) == before


async def test_a_form_is_asked_about_before_it_is_saved(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        headers = headers_of(await logged_in(site, "dev", everywhere(Role.DEVELOPER)))
        executor_id, job_id = await job_of(site)
        calendar_id = await site.services.calendars.create(
            COMMAND_LINE, {"name": "never", "weekdays": []}
        )
        before = await rows(site)
        address = f"/jobs/{job_id}/what-if"
        text = 'name: a\nhandler: h\ntriggers: [{kind: cron, expression: "*/30 * * * *"}]\n'

        assert "0 go and 24 come" in (await post(site, address, headers, text))[1]
        part = {**headers, **PART}
        status, shown = await post(site, address, part, "name: a\nhandler: h\npriority: 99\n")
        assert (status, "Nothing was simulated" in shown, "priority" in shown) == (200, True, True)
        assert (await post(site, address, headers, "name: [\n"))[0] == 422, "a page of its own"

        new = {**headers, **PART}
        status, shown = await post(site, "/jobs/new/what-if", new, text)
        assert (status, "Choose an executor." in shown) == (200, True)
        sent = {"view": "yaml", "yaml": text.replace("name: a", "name: <b>x"),
                "executor_id": str(executor_id)}  # fmt: skip
        async with site.client.post(
            "/jobs/new/what-if", data=sent, headers={**new, **SAME_ORIGIN}
        ) as answer:
            shown = await answer.text()
        assert "0 go and 47 come" in shown
        assert "<span>&lt;b&gt;x</span><small>New job" in shown, "it has no page yet"
        assert "A new job has no runs yet" in shown
        async with site.client.get("/jobs/new", headers=headers) as answer:
            assert 'hx-post="/jobs/new/what-if"' in await answer.text()

        status, shown = await post(site, f"/calendars/{calendar_id}/what-if", part, "")
        assert (status, "What it would bring" in shown) == (200, True)
        assert await rows(site) == before


async def test_other_slots_of_a_pool_are_chosen_on_the_page(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        headers = headers_of(await logged_in(site, "dev", everywhere(Role.DEVELOPER)))
        executor_id, _ = await job_of(site)
        pool = {"name": "warehouse", "slots": 3, "executor": executor_id}
        pool_id = await site.services.pools.create(COMMAND_LINE, pool)
        address = f"/what-if?change=pool&of={pool_id}"
        _, form = await get(site, f"/pools/{pool_id}/edit", headers)
        assert address.replace("&", "&amp;") in form
        status, shell = await get(site, f"{address}&slots=0", headers)
        assert (status, 'value="0"' in shell, "3 now" in shell) == (200, True, True)
        part = (await get(site, f"{address}&slots=0", {**headers, **PART}))[1]
        assert "What it would bring" in part
        viewer = headers_of(await logged_in(site, "vic", everywhere(Role.VIEWER)))
        assert (await get(site, address, {**viewer, **PART}))[0] == 403


async def test_only_those_may_ask_who_may_see_or_change_it(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        executor_id, job_id = await job_of(site)
        _, other_id = await job_of(site, "other", "other")
        mine = {executor_id: Grant(role=Role.VIEWER)}
        headers = headers_of(await logged_in(site, "vic", mine))
        part = {**headers, **PART}
        assert (await get(site, f"/what-if?change=pause&of={job_id}", part))[0] == 200
        assert (await get(site, f"/what-if?change=pause&of={other_id}", part))[0] == 404
        assert (await get(site, f"/what-if?change=storm&of={other_id}", headers))[0] == 200
        assert (await post(site, f"/jobs/{job_id}/what-if", headers, ""))[0] == 403


async def test_a_refusal_stands_where_the_answer_would_and_a_reader_who_leaves_ends_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "LOOK_SECONDS", 0.01)
    async with served(tmp_path) as site:
        headers = headers_of(await logged_in(site, "vic", everywhere(Role.VIEWER)))
        _, job_id = await job_of(site)
        address = f"/what-if?change=pause&of={job_id}"

        async def too_long(*_: object, **__: object) -> None:
            raise Unavailable("forecast.too_long", "This takes too long.")

        monkeypatch.setattr(type(site.services.forecasts), "what_if", too_long)
        status, shown = await get(site, address, {**headers, **PART})
        assert (status, "This takes too long." in shown) == (200, True)
        assert (await get(site, f"{address}&now=yes", headers))[0] == 503

        ended = asyncio.Event()

        async def endless(*_: object, **__: object) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        monkeypatch.setattr(type(site.services.forecasts), "what_if", endless)
        soon = aiohttp.ClientTimeout(total=0.3)
        with pytest.raises(asyncio.TimeoutError):
            await site.client.get(address, headers={**headers, **PART}, timeout=soon)
        await wait_until_async(ended.is_set)


async def test_better_minutes_are_shown_with_what_they_bring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = [job(number, cron("0 2 * * *"), lasts_ms=600_000) for number in range(1, 6)]
    edit = JobEdit(job_id=1, config=crowd[0].config)
    compared = compare(situation(*crowd), [edit], end=NOW + DAY_MS)
    assert compared.with_spread is not None

    async def found(*_: object, **__: object) -> WhatIf:
        return WhatIf(
            comparison=compared,
            job_names={1: "a<b>"},
            new_jobs=frozenset(),
            workflows={},
            executor_ids=(1,),
            left_out=2,
            more_open_runs=True,
        )

    async with served(tmp_path) as site:
        headers = headers_of(await logged_in(site, "vic", everywhere(Role.VIEWER)))
        _, job_id = await job_of(site)
        monkeypatch.setattr(type(site.services.forecasts), "what_if", found)
        _, shown = await get(site, f"/what-if?change=pause&of={job_id}", {**headers, **PART})
        (proposal,) = compared.spread
        late = f"{compared.with_spread.late} runs start more than a minute late instead of"
        for expected in (
            "Spread the peak",
            f"{proposal.minute} → <b>{proposal.new_minute}</b>",
            proposal.expression,
            f"{late} {compared.after.late}",
            "With better minutes, too",
            "1 runs: p50 10m 00s",
            "2 executors that share pools or children are left out",
        ):
            assert expected in shown, expected
