"""The pages of pools over real HTTP: the list, one with its users and holders, forms, refusals."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from tests.admin.kit.routes import headers_of, logged_in
from tests.admin.kit.served import Served, served
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables


async def post(
    site: Served, headers: dict[str, str], address: str, **form: str
) -> tuple[int, str, str]:
    """Status, where it leads, what it shows."""
    sent = {**headers, "Sec-Fetch-Site": "same-origin"}
    async with site.client.post(address, data=form, headers=sent, allow_redirects=False) as answer:
        return answer.status, answer.headers.get("Location", ""), await answer.text()


async def page(site: Served, headers: dict[str, str], address: str) -> str:
    async with site.client.get(address, headers=headers) as answer:
        assert answer.status == 200, (address, answer.status)
        return await answer.text()


async def test_a_pool_is_added_looked_at_changed_and_kept(tmp_path: Path) -> None:
    async with served(tmp_path, name="admin-1") as site:
        headers = headers_of(await logged_in(site, "root", everywhere(Role.ADMIN)))
        assert "No pool yet" in await page(site, headers, "/pools")
        await page(site, headers, "/pools/new")
        status, _, text = await post(site, headers, "/pools/new", name="a<b>", slots="many")
        assert (status, 'value="many"' in text, "a&lt;b&gt;" in text) == (422, True, True)
        status, place, _ = await post(site, headers, "/pools/new", name="a<b>", slots="3")
        assert status == 303

        services = site.services
        executor = await services.executors.create(COMMAND_LINE, name="billing", description="")
        raw = {"name": "load", "handler": "h", "pool": "a<b>", "pool_slots": 2}
        job_id = await services.jobs.create(COMMAND_LINE, executor.id, raw)
        run_id = await services.jobs.run_now(COMMAND_LINE, job_id)
        pool_id = int(place.rpartition("/")[2])
        use = {"run_id": run_id, "pool_id": pool_id, "slots": 2, "since": 1}
        await services.store.run(
            lambda conn: conn.execute(sa.insert(tables.pool_use).values(use)).close()
        )
        shown = await page(site, headers, place)
        for expected in ("2 of 3", f'href="/runs/{run_id}"', f'href="/jobs/{job_id}"'):
            assert expected in shown
        assert "<b>" not in shown.replace("<b>root</b>", "")
        listed = await page(site, headers, "/pools?q=A%3C")
        assert f'id="pool-{pool_id}"' in listed
        assert f'href="{place}"' in await page(site, headers, f"/jobs/{job_id}")
        assert 'value="a&lt;b&gt;"' in await page(site, headers, f"/jobs/{job_id}/edit")

        await page(site, headers, f"{place}/edit")
        edit = {"name": "a<b>", "executor": "", "slots": "0", "description": "x", "version": "1"}
        status, _, _ = await post(site, headers, f"{place}/edit", **edit)
        assert status == 303
        assert "closed" in await page(site, headers, place)
        status, _, text = await post(site, headers, f"{place}/edit", **edit)
        assert (status, "version 2" in text) == (409, True)
        await page(site, headers, f"{place}/delete")
        status, _, text = await post(site, headers, f"{place}/delete")
        assert (status, "load" in text) == (409, True)
