"""/api/v1/plan, /apply and /export over HTTP, and what the console says of what was applied."""

from __future__ import annotations

import json

from tests.admin.kit.served import Served, new_session
from tests.admin.kit.services import ADMIN, JOB
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.web.identity import SESSION_COOKIE

DOCUMENTS = [{"type": "executor", "name": "billing"}, JOB | {"executor": "billing"}]


async def test_what_is_planned_is_applied_and_shown_as_managed_by_files(site: Served) -> None:
    session = await new_session(site.services, "olga", everywhere(Role.ADMIN))
    site.client.session.cookie_jar.update_cookies({SESSION_COOKIE: session.cookie})
    headers = {"X-CSRF-Token": session.csrf_token}
    body = {"documents": DOCUMENTS, "owner": "team <b>"}
    async with site.client.post("/api/v1/plan", json=body, headers=headers) as answer:
        plan = await answer.json()
    assert (answer.status, plan["counts"]["create"], plan["checked"]) == (200, 2, True)
    wrong = body | {"fingerprint": "x"}
    async with site.client.post("/api/v1/apply", json=wrong, headers=headers) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (
            409,
            "gitops.plan_changed",
        )
    right = body | {"fingerprint": plan["fingerprint"]}
    async with site.client.post("/api/v1/apply", json=right, headers=headers) as answer:
        assert (answer.status, (await answer.json())["counts"]["create"]) == (200, 2)
    async with site.client.get("/api/v1/export?type=job") as answer:
        lines = (await answer.text()).splitlines()
    assert [json.loads(line)["name"] for line in lines] == [JOB["name"]]
    [job] = await site.services.jobs.called(ADMIN, JOB["name"])
    for page in (f"/jobs/{job}", f"/jobs/{job}/edit"):
        async with site.client.get(page) as answer:
            assert "Managed by team &lt;b&gt; (Git)." in await answer.text()
    async with site.client.get("/api/v1/document-schema") as answer:
        assert (await answer.json())["title"] == "Tickwheel documents"
