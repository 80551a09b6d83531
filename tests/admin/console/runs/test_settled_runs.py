"""A run that was settled by its receipt says so on its page; other successes need no words."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.routes import headers_of, logged_in
from tests.admin.kit.served import Served
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_executor import AlreadyDone

SETTLED = str(AlreadyDone(attempt=1, written_at_ms=1_771_000_000_000, result=None))


@pytest.mark.parametrize(("message", "is_shown"), [(SETTLED, True), ("fine, thanks", False)])
async def test_how_it_succeeded(site: Served, message: str, is_shown: bool) -> None:
    executor = await site.services.executors.create(COMMAND_LINE, name="billing")
    job_id = await site.services.jobs.create(
        COMMAND_LINE, executor.id, {"name": "a", "handler": "b"}
    )
    run_id = await site.services.jobs.run_now(
        COMMAND_LINE, job_id, parameters=None, request_key=None, origin=Origin.MANUAL
    )
    values = {"state": "succeeded", "message": message, "ended_at": 1}
    await site.services.store.run(
        lambda conn: conn.execute(sa.update(tables.run).values(values)).rowcount
    )
    headers = headers_of(await logged_in(site, "ada", everywhere(Role.VIEWER)))
    async with site.client.get(f"/runs/{run_id}", headers=headers) as response:
        page = await response.text()
        assert response.status == 200, page
    assert (message in page) == is_shown
