"""The page of a job's script: edited, tried, compared and brought back, by whom may."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.console.runs.test_script import ARRIVAL
from tests.admin.kit.served import Served, new_session, served
from tests.admin.kit.services import ADMIN, JOB
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Role, everywhere
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.executors.nodes import admit_nodes
from tickwheel_admin.web.identity import SESSION_COOKIE

AUTHOR = replace(ADMIN, scripts=frozenset({ALL_EXECUTORS}))


class Browser:
    """Somebody at the page of a job's script."""

    def __init__(self, admin: Served, csrf_token: str) -> None:
        self.admin = admin
        self.csrf_token = csrf_token
        self.status = 0
        self.page = ""

    async def get(self, path: str = "/jobs/1/script") -> str:
        async with self.admin.client.get(path) as answer:
            self.status, self.page = answer.status, await answer.text()
        return self.page

    async def post(self, path: str = "/jobs/1/script", **fields: Any) -> int:
        body = {"csrf_token": self.csrf_token} | fields
        async with self.admin.client.post(path, data=body, allow_redirects=False) as answer:
            self.status, self.page = answer.status, await answer.text()
        return self.status

    async def script(self) -> Any:
        return (await self.admin.services.jobs.get(ADMIN, 1)).item.job.config.script


async def enter(admin: Served, name: str, *, scripts: bool) -> Browser:
    session = await new_session(admin.services, name, everywhere(Role.DEVELOPER, scripts=scripts))
    admin.client.session.cookie_jar.update_cookies({SESSION_COOKIE: session.cookie})
    return Browser(admin, session.csrf_token)


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as admin:
        await admin.services.executors.create(ADMIN, name="ops")
        script = {"language": "shell", "source": "echo <one>\n", "remark": "how it began"}
        await admin.services.jobs.create(AUTHOR, 1, {"name": "report", "script": script})
        yield admin


async def test_a_new_job_is_given_its_script_in_the_form(admin: Served) -> None:
    browser = await enter(admin, "li", scripts=True)
    assert "f-script-source" not in await browser.get("/jobs/new?executor_id=1")
    job = {"executor_id": "1", "name": "tidy", "handler": "script"}
    assert await browser.post("/jobs/new", **job) == 422
    assert re.search(r'id="f-script-source"[^>]*aria-invalid', browser.page)
    job |= {"script_language": "python", "script_source": "print(1 < 2)\r\n"}
    assert await browser.post("/jobs/new", **job | {"script_language": "Py thon"}) == 422
    assert "print(1 &lt; 2)" in browser.page  # nothing that was typed is lost
    assert re.search(r'id="f-script-language"[^>]*aria-invalid', browser.page)
    assert await browser.post("/jobs/new", **job, script_remark="first") == 303
    script = (await admin.services.jobs.get(ADMIN, 2)).item.job.config.script
    assert script is not None
    assert (script.language, script.source, script.remark) == ("python", "print(1 < 2)\n", "first")


async def test_who_may_not_edit_scripts_adds_none(admin: Served) -> None:
    browser = await enter(admin, "jo", scripts=False)
    job = {"executor_id": "1", "name": "tidy", "handler": "script"}
    job |= {"script_language": "shell", "script_source": "id"}
    assert await browser.post("/jobs/new", **job) == 403


async def test_a_script_is_edited_compared_and_brought_back(admin: Served) -> None:
    browser = await enter(admin, "li", scripts=True)
    page = await browser.get()
    assert "echo &lt;one&gt;" in page
    assert "how it began" in page
    typed = {"language": "shell", "source": "echo two\r\necho three\r\n", "revision": "1"}
    assert await browser.post(**typed, remark="counts further") == 303
    script = await browser.script()
    assert (script.source, script.remark) == ("echo two\necho three\n", "counts further")
    assert await browser.post(**typed, remark="late") == 409  # somebody edited it meanwhile
    assert "echo three" in browser.page  # nothing that was typed is lost
    assert await browser.post(**typed | {"revision": "2", "source": " "}) == 422
    assert await browser.post(**typed | {"revision": "2"}) == 303  # nothing is changed by that
    assert (await admin.services.jobs.get(ADMIN, 1)).item.job.revision == 2
    page = await browser.get("/jobs/1/script?from=1&to=2")
    assert re.search(r'class="before">echo &lt;one&gt;</td>', page)
    assert re.search(r'class="after">echo two</td>', page)
    page = await browser.get("/jobs/1/script?version=1")
    assert re.search(r"<textarea[^>]*>\s*echo &lt;one&gt;", page)
    for path in ("?version=99", "?from=1&to=99", "?from=x&version=-1"):
        await browser.get(f"/jobs/1/script{path}")
        assert browser.status == 200


async def test_what_is_typed_is_tried_without_being_saved(admin: Served) -> None:
    await admin.services.store.run(admit_nodes, [ARRIVAL], new_ids=[7], session_ids=[1], admin_id=1)
    browser = await enter(admin, "li", scripts=True)
    assert "node-1" in await browser.get()
    typed = {"language": "shell", "source": "echo typed", "node": "7", "parameters": '{"a": 1}'}
    assert await browser.post("/jobs/1/script/try", **typed) == 303
    assert (await browser.script()).source == "echo <one>\n"
    (run,) = await admin.services.store.read(lambda conn: conn.execute(sa.select(tables.run)).all())
    assert (run.origin, run.pinned_node_id) == ("try", 7)
    assert await browser.post("/jobs/1/script/try", **typed | {"parameters": "{"}) == 422
    assert "echo typed" in browser.page
    assert await browser.post("/jobs/1/script/try", **typed | {"node": ""}) == 422


async def test_without_the_right_it_is_only_read(admin: Served) -> None:
    browser = await enter(admin, "li", scripts=False)
    page = await browser.get()
    assert "readonly" in page
    assert "/jobs/1/script/try" not in page
    typed = {"language": "shell", "source": "echo two", "revision": "1", "node": "7"}
    assert await browser.post(**typed) == 403
    assert await browser.post("/jobs/1/script/try", **typed) == 403
    assert (await browser.script()).source == "echo <one>\n"


async def test_line_ends_of_windows_stay(admin: Served) -> None:
    browser = await enter(admin, "li", scripts=True)
    script = {"language": "powershell", "source": "Get-Date\r\n"}
    await admin.services.jobs.update(AUTHOR, 1, {"name": "report", "script": script}, revision=1)
    typed = {"language": "powershell", "source": "Get-Date\r\nGet-Host\r\n", "revision": "2"}
    assert await browser.post(**typed) == 303
    assert (await browser.script()).source == "Get-Date\r\nGet-Host\r\n"


async def test_a_job_without_a_script_says_so(admin: Served) -> None:
    await admin.services.jobs.create(ADMIN, 1, JOB)
    browser = await enter(admin, "li", scripts=True)
    await browser.get("/jobs/2/script")
    assert browser.status == 200
    typed = {"language": "shell", "source": "echo two", "revision": "1"}
    assert await browser.post("/jobs/2/script", **typed) == 422  # its handler is another one
