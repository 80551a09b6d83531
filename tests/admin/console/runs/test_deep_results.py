"""Whatever JSON is stored, of any depth and with any number: the run is shown all the same."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.routes import headers_of, logged_in
from tests.admin.kit.served import Served
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables


@pytest.mark.parametrize("depth", [50, 150, 940, 30_000])
async def test_a_run_with_such_a_result_is_told(site: Served, depth: int) -> None:
    executor = await site.services.executors.create(COMMAND_LINE, name="billing")
    job_id = await site.services.jobs.create(
        COMMAND_LINE, executor.id, {"name": "a", "handler": "b"}
    )
    run_id = await site.services.jobs.run_now(
        COMMAND_LINE, job_id, parameters=None, request_key=None, origin=Origin.MANUAL
    )
    result = "[" * depth + "]" * depth
    given = f'{{"result":{result}}}'
    await site.services.store.run(
        lambda conn: (
            conn.execute(sa.update(tables.run).values(result=result, parameters=given)).rowcount
        )
    )
    headers = await site.token_for("ada", Role.VIEWER)
    async with site.client.get(f"/api/v1/runs/{run_id}", headers=headers) as response:
        assert response.status == 200, await response.text()
        told = await response.json()
    is_told_as_text = depth > 100
    assert (told["result"] == result) == is_told_as_text
    assert (told["parameters"] == given) == is_told_as_text


@pytest.mark.parametrize(
    "poison",
    ["1e400", '{"a":[1E+999]}', "9" * 400, "9" * 5_000, "9" * 60_000, "[" * 900 + "]" * 900],
    ids=("float", "object", "400", "5000", "60000", "deep"),
)
async def test_what_was_stored_before_it_was_refused_does_no_harm(
    site: Served, poison: str
) -> None:
    services = site.services
    executor = await services.executors.create(COMMAND_LINE, name="billing")
    job_id = await services.jobs.create(
        COMMAND_LINE, executor.id, {"name": "a", "handler": "b", "blocking": "serial"}
    )
    run_id = await services.jobs.run_now(
        COMMAND_LINE, job_id, parameters=None, request_key=None, origin=Origin.MANUAL
    )
    given = f'{{"result":{poison}}}'
    values = {"result": poison, "parameters": given, "progress": 1.0, "ended_at": 1}
    await services.store.run(
        lambda conn: [
            conn.execute(sa.update(tables.run).values(state="failed", **values)).rowcount,
            conn.execute(
                sa.insert(tables.run_checkpoint).values(
                    run_id=run_id, attempt=1, seq=1, data=poison, saved_at=1
                )
            ).rowcount,
            conn.execute(
                sa.insert(tables.handler_schema).values(
                    executor_id=executor.id,
                    handler="b",
                    schema='{"type":"object","properties":{"result":{"type":"number"}}}',
                    said_by=1,
                    said_at=1,
                )
            ).rowcount,
        ]
    )
    headers = headers_of(await logged_in(site, "ada", everywhere(Role.ADMIN)))
    client = site.client
    async with client.get(f"/api/v1/runs/{run_id}", headers=headers) as response:
        assert response.status == 200, await response.text()
        told = await response.json()
        assert (told["result"], told["parameters"]) == (poison, given)
        assert told["checkpoint"]["data"] == poison
    for path in (f"/runs/{run_id}", f"/runs/{run_id}/retry", f"/jobs/{job_id}", "/runs", "/"):
        async with client.get(path, headers=headers) as response:
            assert response.status == 200, (path, await response.text())
    retry = f"/api/v1/runs/{run_id}/retry"
    async with client.post(retry, headers=headers, json={}) as response:
        assert response.status == 202, await response.text()  # its node says what is wrong
    async with client.post(retry, headers=headers, json={"parameters": {"a": 1}}) as response:
        assert response.status == 422, await response.text()
