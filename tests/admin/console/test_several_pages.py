"""Pages of several admins behind a proxy that asks them in turn: each shows what any did."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.admin.kit.several_admins import Several, next_event, several_admins
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.users.administration import COMMAND_LINE


@pytest.fixture
async def several(tmp_path: Path) -> AsyncIterator[Several]:
    async with several_admins(tmp_path, 3) as world:
        await world.log_in("root", Role.ADMIN)
        yield world


async def everywhere_shown(several: Several, path: str, *words: str) -> None:
    """Every admin shows it, at the very next look."""
    before = len(several.proxy.answered)
    pages = [await several.get(path) for _ in several.urls]
    assert set(several.proxy.answered[before:]) == set(several.urls)
    for page in pages:
        assert all(word in page for word in words), (path, words)


async def test_what_is_written_by_one_is_read_from_all(several: Several) -> None:
    assert (await several.post("/executors/new", name="billing")).status == 200
    await everywhere_shown(several, "/executors", "billing")

    job = {
        "name": "nightly-report",
        "handler": "report",
        "parameters": "{}",
        "triggers-0-kind": "manual",
    }
    executor_id = (await several.services.executors.list(COMMAND_LINE))[0].id
    answer = await several.post("/jobs/new", executor_id=str(executor_id), **job)
    assert answer.status == 303, await answer.text()
    address = answer.headers["Location"].partition("?")[0]
    await everywhere_shown(several, "/jobs", "nightly-report")
    await everywhere_shown(several, address, "nightly-report")

    assert (await several.post(f"{address}/pause")).status == 303
    await everywhere_shown(several, address, f"{address}/resume")

    answer = await several.post(f"{address}/run", parameters="{}", nonce="n-1")
    assert answer.status == 303, await answer.text()
    run = answer.headers["Location"].partition("?")[0]
    await everywhere_shown(several, "/runs", f'href="{run}')
    assert (await several.post(f"{run}/cancel")).status == 303
    await everywhere_shown(several, run, "Cancelled")


async def test_what_is_true_of_everything_is_true_at_once(several: Several) -> None:
    assert (await several.post("/system/pause")).status in (200, 303)
    await everywhere_shown(several, "/jobs", "/system/resume")
    settings = {"instance_name": "prod-eu", "audit_retention_days": "400"}
    assert (await several.post("/settings", **settings)).status == 303
    await everywhere_shown(several, "/jobs", "prod-eu")


async def test_people_sessions_and_tokens_are_the_same_everywhere(several: Several) -> None:
    answer = await several.post("/users/new", name="maria", **{"role-0": "viewer"})
    assert answer.status == 200, await answer.text()
    await everywhere_shown(several, "/users", "maria")
    answer = await several.post("/tokens/new", name="deploy", where="all", role="")
    assert "twt_" in await answer.text()
    await everywhere_shown(several, "/tokens", "deploy")

    assert (await several.post("/logout")).status == 303
    for url in several.urls:
        async with several.browser.get(url + "/jobs", allow_redirects=False) as answer:
            assert answer.status == 303


async def test_what_the_last_page_did_is_said_by_the_next_admin(several: Several) -> None:
    await several.services.executors.create(COMMAND_LINE, name="billing")
    executor_id = (await several.services.executors.list(COMMAND_LINE))[0].id

    answer = await several.post(f"/executors/{executor_id}/pause")

    assert answer.status == 303
    assert "The executor is paused." in await several.get(f"/executors/{executor_id}")


async def test_a_form_of_another_session_is_refused_by_all(several: Several) -> None:
    for _ in several.urls:
        async with several.browser.post(
            several.url + "/executors/new", data={"csrf_token": "x" * 43, "name": "billing"}
        ) as answer:
            assert answer.status == 403


async def test_an_answer_of_the_proxy_counts_for_the_browsers_own_address(
    several: Several,
) -> None:
    (session,) = (await several.services.users.get(COMMAND_LINE, 1)).sessions

    assert session.address == "127.0.0.1"


async def test_a_stream_passes_through_the_proxy_as_it_comes(several: Several) -> None:
    async with several.browser.get(several.url + "/events?age=0") as stream:
        assert stream.headers["X-Accel-Buffering"] == "no"
        assert await next_event(stream) == "hello"
