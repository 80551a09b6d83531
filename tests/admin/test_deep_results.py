"""What a handler returns may be nested as deeply as it likes: the run is shown all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.admin.kit import Served, served
from tickwheel_admin.domain.run import Origin
from tickwheel_admin.domain.user import Role
from tickwheel_admin.services.people import COMMAND_LINE
from tickwheel_admin.store import tables


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as admin:
        yield admin


@pytest.mark.parametrize("depth", [50, 150, 940, 30_000])
async def test_a_run_with_such_a_result_is_told(admin: Served, depth: int) -> None:
    executor = await admin.services.executors.create(COMMAND_LINE, name="billing")
    job_id = await admin.services.jobs.create(
        COMMAND_LINE, executor.id, {"name": "a", "handler": "b"}
    )
    run_id = await admin.services.jobs.run_now(
        COMMAND_LINE, job_id, parameters=None, request_key=None, origin=Origin.MANUAL
    )
    result = "[" * depth + "]" * depth
    given = f'{{"result":{result}}}'
    await admin.services.store.run(
        lambda conn: (
            conn.execute(sa.update(tables.run).values(result=result, parameters=given)).rowcount
        )
    )
    headers = await admin.token_for("ada", Role.VIEWER)
    async with admin.client.get(f"/api/v1/runs/{run_id}", headers=headers) as response:
        assert response.status == 200, await response.text()
        told = await response.json()
    is_told_as_text = depth > 100
    assert (told["result"] == result) == is_told_as_text
    assert (told["parameters"] == given) == is_told_as_text
