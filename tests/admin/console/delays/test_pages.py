"""Who delays whom, in the console."""

from __future__ import annotations

import re

import pytest

from tests.admin.kit.delayed_runs import ETL, MAIL, SECOND_MAIL, Morning, delayed_morning
from tests.admin.kit.served import Served, new_session
from tickwheel_admin.console.delays import labels
from tickwheel_admin.console.delays.page import bar_of
from tickwheel_admin.domain.delays.history import DelayKind
from tickwheel_admin.domain.users.user import Grant, Role
from tickwheel_admin.services.delays import reading
from tickwheel_admin.services.delays import service as delay_service
from tickwheel_admin.services.delays.reading import ReadLimits
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.web.identity import SESSION_COOKIE


@pytest.fixture
async def morning(site: Served) -> Morning:
    found = await delayed_morning(site)
    await site.log_in("vera", Role.VIEWER)
    return found


async def page_of(site: Served, address: str, status: int = 200, **headers: str) -> str:
    async with site.client.get(address, headers=headers) as answer:
        assert answer.status == status
        return await answer.text()


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


async def test_the_page_of_a_late_run_tells_what_it_waited_for(
    site: Served, morning: Morning
) -> None:
    whole = await page_of(site, f"/runs/{SECOND_MAIL}")
    assert f'hx-get="/runs/{SECOND_MAIL}/delay"' in whole
    assert "/delay" not in await page_of(site, f"/runs/{ETL}")  # it started at once
    part = await page_of(site, f"/runs/{SECOND_MAIL}/delay", **{"X-Block": "delay"})
    assert "<html" not in part
    assert f"Waited for a slot 9m 00s etl &lt;b&gt; 7m 00s #{ETL} mail 2m 00s #{MAIL}" in text_of(
        part
    )
    assert f'href="/runs/{ETL}"' in part
    assert "It started at once." in await page_of(site, f"/runs/{ETL}/delay")


async def test_the_matrix_of_an_executor(site: Served, morning: Morning) -> None:
    address = f"/executors/{morning.executor_id}/delays"
    assert f'href="{address}"' in await page_of(site, f"/executors/{morning.executor_id}")
    assert f'href="{address}"' in await page_of(site, f"/trends?executor={morning.executor_id}")
    page = await page_of(site, address)
    assert "2 runs waited · 17m 00s" in text_of(page)
    assert "mail 2 17m 00s 15 2 Caused in all 15 2" in text_of(page)
    assert 'data-tip="mail ← etl &lt;b&gt; · 15m 00s"' in page
    assert f'href="/runs?job={morning.mail}&amp;from=' in page
    empty = await page_of(site, f"{address}?from=2020-01-01T00:00&until=2020-01-01T05:00")
    assert "No run was delayed in this time" in empty
    refused = await page_of(site, f"{address}?from=2020-01-01T00:00&until=2020-03-01T05:00")
    assert "At most 48 hours at once" in refused


async def test_who_may_not_see_an_executor_sees_none_of_it(site: Served) -> None:
    found = await delayed_morning(site)
    other = await site.services.executors.create(COMMAND_LINE, name="crm", description="")
    session = await new_session(site.services, "eve", {other.id: Grant(Role.VIEWER)})
    site.client.session.cookie_jar.update_cookies({SESSION_COOKIE: session.cookie})
    await page_of(site, f"/runs/{SECOND_MAIL}/delay", status=404)
    await page_of(site, f"/executors/{found.executor_id}/delays", status=404)


async def test_that_not_all_was_read_is_told(
    site: Served, morning: Morning, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ReadLimits(runs=1, entries=1)
    monkeypatch.setattr(reading, "ENTRIES_PER_PAGE", 1)
    monkeypatch.setattr(delay_service, "OF_MATRIX", limits)
    monkeypatch.setattr(delay_service, "OF_RUN", limits)
    page = await page_of(site, f"/executors/{morning.executor_id}/delays")
    assert "There are too many runs" in page
    assert "were not looked at" in await page_of(site, f"/runs/{MAIL}/delay")


def test_cells_have_room_for_their_numbers() -> None:
    assert labels.unit_ms(119_999) == 1_000
    assert labels.unit_ms(120_000) == 60_000
    cells = [labels.cell_text(ms, 60_000) for ms in (1, 90_000, 600_000, 10**9)]
    assert cells == ["<0.1", "1.5", "10", "17k"]
    for kind in DelayKind:
        assert labels.kind_name(kind) != labels.kind_told(kind)


def test_parts_of_a_bar_lie_within_it() -> None:
    bar = bar_of(dict.fromkeys(DelayKind, 1) | {DelayKind.SLOT: 10**9})
    assert [part.kind for part in bar] == list(DelayKind)
    assert all(0 <= part.x < 100 and part.width > 0 for part in bar)
