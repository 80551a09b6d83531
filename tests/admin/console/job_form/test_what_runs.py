""" "What runs?" in the form of a job: what can be chosen where, and what becomes of the answer."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.admin.console.jobs.test_script_page import AUTHOR, Browser, enter
from tests.admin.console.runs.test_script import ARRIVAL
from tests.admin.kit.served import Served, served
from tests.admin.kit.services import ADMIN
from tickwheel_admin.store.executors.handler_schemas import set_schemas
from tickwheel_admin.store.executors.nodes import admit_nodes

HTTP = {
    "type": "object",
    "properties": {
        "url": {"type": "string"},
        "method": {"enum": ["GET", "POST"], "default": "GET"},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}, "default": {}},
        "json": {},
        "expected_status": {"type": "array", "items": {"type": ["integer", "string"]}},
        "timeout_seconds": {"type": "number", "default": 30},
    },
    "required": ["url"],
    "additionalProperties": False,
}
AGENT, SERVICE, EMPTY = "1", "2", "3"


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Served]:
    """An agent without SQL, a service with a handler, and an executor that had no node yet."""
    async with served(tmp_path) as admin:
        for name in ("agent", "service", "empty"):
            await admin.services.executors.create(ADMIN, name=name)
        arrivals = [
            replace(ARRIVAL, handlers=["script", "command", "http", "file"]),
            replace(ARRIVAL, executor_id=2, node_key="l", name="node-2", handlers=["send"]),
        ]
        store = admin.services.store
        await store.run(admit_nodes, arrivals, new_ids=[7, 8], session_ids=[1, 2], admin_id=1)
        await store.run(set_schemas, 1, {"http": json.dumps(HTTP)}, node_id=7, at=1)
        yield admin


def answers(page: str) -> dict[str, str]:
    """Each kind with how it is shown: "", "checked", "disabled"."""
    return dict(re.findall(r'name="what" value="(\w+)"[^>]*?(?: (checked|disabled))?>', page))


async def shown(browser: Browser, path: str) -> dict[str, str]:
    return answers(await browser.get(path))


async def test_the_first_answer_is_what_the_executor_offers(admin: Served) -> None:
    browser = await enter(admin, "li", scripts=True)
    assert await shown(browser, f"/jobs/new?executor={AGENT}") == {
        "handler": "", "script": "checked", "command": "", "http": "", "sql": "disabled",
        "file": "",
    }  # fmt: skip
    assert "No live node offers it." in browser.page
    assert "<code>[sql]</code>" in browser.page
    assert "<code>[http]</code>" not in browser.page
    assert 'id="f-script-source"' in browser.page
    closed = dict.fromkeys(("script", "command", "http", "sql", "file"), "disabled")
    for executor in (SERVICE, EMPTY, ""):
        path = f"/jobs/new?executor={executor}"
        assert await shown(browser, path) == {"handler": "checked"} | closed
    # Each kind has an address of its own.
    found = await shown(browser, f"/jobs/new?executor={AGENT}&what=http")
    assert found["http"] == "checked"
    assert 'name="param.url"' in browser.page
    await browser.get("/jobs/new?what=nonsense")
    assert browser.status == 200


async def test_scripts_need_the_right_and_the_setting_of_the_executor(admin: Served) -> None:
    browser = await enter(admin, "jo", scripts=False)
    found = await shown(browser, f"/jobs/new?executor={AGENT}")
    assert (found["script"], found["command"]) == ("disabled", "checked")
    assert "You need the right to edit scripts." in browser.page
    await admin.services.executors.set_scripts(ADMIN, 1, allowed=False)
    browser = await enter(admin, "li", scripts=True)
    found = await shown(browser, f"/jobs/new?executor={AGENT}")
    assert found["script"] == "disabled"
    assert "Scripts are forbidden on this executor." in browser.page


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        # Another executor was chosen: what it lacks is asked for anew, and the rest stays.
        ({"executor_id": SERVICE, "what_of": AGENT, "what": "http"}, "handler"),
        ({"executor_id": AGENT, "what_of": SERVICE, "what": "handler"}, "script"),
        ({"executor_id": AGENT, "what_of": "", "what": "http"}, "http"),
        ({"executor_id": AGENT, "what_of": "", "what": "handler", "handler": "mine"}, "handler"),
        # What was chosen here stays, although no node offers it now.
        ({"executor_id": SERVICE, "what_of": SERVICE, "what": "http"}, "http"),
        ({"executor_id": "", "what_of": AGENT, "what": "sql"}, "sql"),
    ],
)
async def test_another_executor_may_change_the_answer(
    admin: Served, asked: dict[str, str], answer: str
) -> None:
    browser = await enter(admin, "li", scripts=True)
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    found = await shown(browser, f"/jobs/handlers?{query}")
    assert [kind for kind, how in found.items() if how == "checked"] == [answer]


async def test_an_http_call_is_added_without_any_script(admin: Served) -> None:
    browser = await enter(admin, "li", scripts=True)
    sent = {"executor_id": AGENT, "name": "ping", "what": "http", "what_of": AGENT, "handler": ""}
    # Pressed without JavaScript: the fields of what was chosen, and nothing is saved.
    assert await browser.post("/jobs/new", **sent, do="handler") == 200
    assert 'name="param.url"' in browser.page
    sent |= {"parameters": "{}", "parameters_as": "form"}
    assert await browser.post("/jobs/new", **sent, **{"param.headers": "X-A: 1\nno"}) == 422
    assert "Line 2: write name=value." in browser.page
    sent |= {"param.url": "https://shop.example/x", "param.headers": "X-A: 1"}
    sent |= {"param.expected_status": "200\r\n2xx"}
    assert await browser.post("/jobs/new", **sent) == 303
    config = (await admin.services.jobs.get(ADMIN, 1)).item.job.config
    assert (config.handler, json.loads(config.parameters)) == (
        "http",
        {
            "url": "https://shop.example/x",
            "headers": {"X-A": "1"},
            "expected_status": [200, "2xx"],
        },
    )
    # Editing it shows the same, and a seldom needed field that is filled in.
    found = await shown(browser, "/jobs/1/edit")
    assert found["http"] == "checked"
    assert re.search(r"<summary>.*timeout_seconds", browser.page, re.S)


async def test_a_stored_script_is_edited_on_its_own_page(admin: Served) -> None:
    script = {"language": "shell", "source": "id\n"}
    job: dict[str, Any] = {"name": "tidy", "script": script}
    await admin.services.jobs.create(AUTHOR, 1, job)
    browser = await enter(admin, "jo", scripts=False)
    assert (await shown(browser, "/jobs/1/edit"))["script"] == "checked"
    assert "You need the right to edit scripts." not in browser.page  # to leave it as it is
    assert 'href="/jobs/1/script"' in browser.page
    (sha,) = re.findall(r'name="script_sha256" value="(\w+)"', browser.page)
    sent = {"executor_id": AGENT, "revision": "1", "name": "tidy-up", "what": "script"}
    sent |= {"script_sha256": sha, "script_language": "shell"}
    assert await browser.post("/jobs/1/edit", **sent) == 303
    config = (await admin.services.jobs.get(ADMIN, 1)).item.job.config
    assert config.script is not None
    assert (config.name, config.script.sha256) == ("tidy-up", sha)


async def test_secrets_of_the_executor_are_named(admin: Served) -> None:
    browser = await enter(admin, "li", scripts=True)
    assert "${secret." not in await browser.get(f"/jobs/new?executor={AGENT}&what=http")
    await admin.services.secrets.put(ADMIN, 1, "SHOP_TOKEN", "value-of-it")
    assert "${secret.SHOP_TOKEN}" in await browser.get(f"/jobs/new?executor={AGENT}&what=http")
    assert "${secret." not in await browser.get(f"/jobs/new?executor={SERVICE}")
