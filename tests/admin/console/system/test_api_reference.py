"""The API reference in the console: every endpoint and every type has a page."""

from __future__ import annotations

from pathlib import Path

from tests.admin.kit.served import served
from tickwheel_admin.api.openapi.openapi import openapi
from tickwheel_admin.domain.users.user import Role


async def test_every_endpoint_and_every_type_has_a_page(tmp_path: Path) -> None:
    document = openapi()
    async with served(tmp_path) as admin:
        await admin.log_in("olga", Role.VIEWER)
        listed = await (await admin.client.get("/api-reference")).text()
        for path, operations in document["paths"].items():
            for operation in operations.values():
                name = operation["operationId"]
                assert f'href="/api-reference/{name}"' in listed
                response = await admin.client.get(f"/api-reference/{name}")
                assert response.status == 200, name
                assert path in await response.text()
        for name in document["components"]["schemas"]:
            response = await admin.client.get(f"/api-reference/types/{name}")
            assert response.status == 200, name
        for unknown in ("/api-reference/eat_cake", "/api-reference/types/Cake"):
            assert (await admin.client.get(unknown)).status == 404


async def test_the_page_of_an_endpoint_tells_fields_answers_and_an_example(tmp_path: Path) -> None:
    async with served(tmp_path) as admin:
        await admin.log_in("olga", Role.VIEWER)
        page = await (await admin.client.get("/api-reference/create_job")).text()
        assert "&#34;executor_id&#34;: 1" in page  # of the example
        assert 'href="/api-reference/types/WorkflowConfig"' in page
        assert "<code>Idempotency-Key</code>" in page
        assert 'data-method="POST" data-path="/api/v1/jobs"' in page
        assert "job.name_taken" in page
