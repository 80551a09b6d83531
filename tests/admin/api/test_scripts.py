"""Scripts through the API: given, told and forbidden."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.admin.kit.served import Served, served
from tests.admin.kit.services import ADMIN
from tickwheel_admin.domain.runs.script import sha256_of
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Role

AUTHOR = replace(ADMIN, scripts=frozenset({ALL_EXECUTORS}))
SOURCE = "import sys\nsys.exit('no')\n"


async def call(
    admin: Served, headers: dict[str, str], method: str, path: str, body: Any = None
) -> tuple[int, Any]:
    kwargs = {} if body is None else {"json": body}
    async with admin.client.request(
        method, f"/api/v1{path}", headers=headers, **kwargs
    ) as response:
        return response.status, None if response.status == 204 else await response.json()


async def test_a_script_through_the_api(tmp_path: Path) -> None:
    async with served(tmp_path) as admin:
        services = admin.services
        executor_id = (await services.executors.create(ADMIN, name="ops")).id
        headers = await admin.token_for("root", Role.ADMIN)
        script = {"language": "python", "source": SOURCE, "remark": "one"}
        job = {"executor_id": executor_id, "name": "report", "script": script}
        status, answer = await call(admin, headers, "POST", "/jobs", job)
        assert (status, answer["error"]["code"]) == (403, "not_allowed")
        job_id = await services.jobs.create(AUTHOR, executor_id, {"name": "r", "script": script})
        _, told = await call(admin, headers, "GET", f"/jobs/{job_id}")
        assert told["config"]["script"] == script | {
            "sha256": sha256_of(SOURCE),
            "signature": "",
        }
        _, listed = await call(admin, headers, "GET", "/jobs")
        assert "source" not in listed["items"][0]["config"]["script"]
        body = {"language": "python", "source": SOURCE, "node_id": 1}
        status, _ = await call(admin, headers, "POST", f"/jobs/{job_id}/try-script", body)
        assert status == 403
        status, _ = await call(
            admin, headers, "PUT", f"/executors/{executor_id}/scripts", {"allowed": False}
        )
        assert status == 204
        _, executor = await call(admin, headers, "GET", f"/executors/{executor_id}")
        assert executor["scripts"] is False
        status, _ = await call(admin, headers, "PUT", f"/executors/{executor_id}/scripts", {})
        assert status == 422
