"""The page of the map of jobs over real HTTP."""

from __future__ import annotations

from pathlib import Path

from tests.admin.kit.routes import headers_of, logged_in
from tests.admin.kit.served import served
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.users.administration import COMMAND_LINE


async def test_pale_jobs_are_explained_where_there_may_be_some(tmp_path: Path) -> None:
    async with served(tmp_path, name="admin-1") as site:
        headers = headers_of(await logged_in(site, "root", everywhere(Role.VIEWER)))
        executor = await site.services.executors.create(COMMAND_LINE, name="e", description="")
        create = site.services.jobs.create
        child = await create(COMMAND_LINE, executor.id, {"name": "b", "handler": "h"})
        raw = {"name": "a", "handler": "h", "children": [{"job": child}], "tags": ["night"]}
        await create(COMMAND_LINE, executor.id, raw)
        for query, some_are_pale in (("", False), ("?tag=night", True)):
            async with site.client.get(f"/jobs/map{query}", headers=headers) as answer:
                text = await answer.text()
            assert "Jobs without links are left out" in text
            assert ("pale ones" in text) == some_are_pale
