"""Pages of backfills: a preview before anything is started, then progress and what stops it."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from tests.admin.kit.served import Served
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.web.identity import SESSION_COOKIE

MARCH = {"from": "2026-03-01T00:00", "to": "2026-04-01T00:00"}
DAILY = {"kind": "cron", "expression": "0 3 * * *"}


class Person:
    """Somebody with a browser that runs no scripts."""

    def __init__(self, site: Served, session: str) -> None:
        self._site = site
        self._headers = {"Cookie": f"{SESSION_COOKIE}={session}"}

    async def get(self, path: str, **query: str) -> str:
        answer = await self._site.client.get(path, params=query, headers=self._headers)
        assert answer.status == 200, path
        return await answer.text()

    async def post(self, path: str, page: str, form: Mapping[str, str]) -> tuple[int, str]:
        """Send a form of a page; returns the status, and where it leads or what it says."""
        token = re.search(r'name="csrf_token" value="([^"]+)"', page)
        assert token is not None
        answer = await self._site.client.post(
            path,
            data={"csrf_token": token[1], **form},
            headers=self._headers,
            allow_redirects=False,
        )
        return answer.status, answer.headers.get("Location") or await answer.text()


@pytest.fixture
async def job_id(site: Served) -> int:
    executor = await site.services.executors.create(COMMAND_LINE, name="billing", description="")
    job = {"name": "report", "handler": "h", "triggers": [DAILY]}
    return await site.services.jobs.create(COMMAND_LINE, executor.id, job)


@pytest.fixture
async def person(site: Served) -> Person:
    return Person(site, (await site.log_in("olga", Role.OPERATOR)).cookie)


async def test_a_backfill_from_its_preview_to_its_cancel(person: Person, job_id: int) -> None:
    of_job = f"/jobs/{job_id}/backfills"
    assert "No backfill yet" in await person.get(of_job)
    page = await person.get(f"{of_job}/new", **MARCH)
    assert "31 instants" in page
    assert "Run 31 instants" in page

    status, place = await person.post(of_job, page, MARCH | {"parallel": "4"})
    assert status == 303
    page = await person.get(place)
    assert "0 of 31 instants" in page
    for action, shown in (("pause", "Paused"), ("resume", "Running")):
        assert await person.post(f"{place}/{action}", page, {}) == (303, place)
        assert shown in await person.get(place)
    assert "no others follow" in await person.get(f"{place}/cancel")
    assert await person.post(f"{place}/cancel", page, {}) == (303, place)
    page = await person.get(place)
    assert "Cancelled" in page
    assert f"{place}/cancel" not in page
    assert place in await person.get(of_job)


async def test_what_is_wrong_is_told_at_its_field(person: Person, job_id: int) -> None:
    of_job = f"/jobs/{job_id}/backfills"
    page = await person.get(f"{of_job}/new", **MARCH, parallel="1000", parameters="[")
    assert "disabled" in page
    status, text = await person.post(of_job, page, {"from": "", "to": "x"})
    assert status == 422
    assert "This must be a date and a time." in text
    status, text = await person.post(of_job, page, MARCH | {"to": "2999-01-01T00:00"})
    assert status == 422
    assert "choose an end up to now" in text
    for _ in range(10):
        status, _place = await person.post(of_job, page, MARCH)
        assert status == 303
    status, text = await person.post(of_job, page, MARCH)
    assert status == 409
    assert "10 backfills that run or are paused" in text
