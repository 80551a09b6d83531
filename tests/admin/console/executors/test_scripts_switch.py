"""Scripts of an executor are forbidden and allowed on its page, by who administers it."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from tests.admin.kit.routes import headers_of, logged_in
from tests.admin.kit.served import Served, served
from tests.admin.kit.services import ADMIN
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.store.database import tables


async def page(admin: Served, headers: dict[str, str], path: str = "/executors/1") -> str:
    async with admin.client.get(path, headers=headers) as answer:
        return await answer.text()


async def test_scripts_are_forbidden_and_allowed_again(tmp_path: Path) -> None:
    async with served(tmp_path) as admin:
        executors = admin.services.executors
        await executors.create(ADMIN, name="ops")
        olga = headers_of(await logged_in(admin, "olga", everywhere(Role.ADMIN)))
        ola = headers_of(await logged_in(admin, "ola", everywhere(Role.DEVELOPER)))
        assert "/executors/1/scripts" in await page(admin, olga)
        assert "wait until scripts are allowed again" in await page(
            admin, olga, "/executors/1/scripts"
        )
        url = "/executors/1/scripts"

        async def switch(allowed: str) -> None:
            # A second press changes nothing: the form says what it wants, not "the other one".
            for _again in range(2):
                body = {"allowed": allowed}
                async with admin.client.post(
                    url, headers=olga, data=body, allow_redirects=False
                ) as answer:
                    assert answer.status == 303

        await switch("no")
        assert (await executors.get(ADMIN, 1)).item.scripts is False
        shown = await page(admin, ola)
        assert "forbidden" in shown  # told to everybody
        assert url not in shown
        async with admin.client.post(url, headers=ola, data={"allowed": "yes"}) as answer:
            assert answer.status == 403
        await switch("yes")
        assert (await executors.get(ADMIN, 1)).item.scripts is True
        written = sa.select(tables.audit.c.action).order_by(tables.audit.c.id)
        actions = await admin.services.store.read(lambda conn: conn.scalars(written).all())
        assert [each for each in actions if each.startswith("executor.scripts")] == [
            "executor.scripts_forbidden",
            "executor.scripts_allowed",
        ]
