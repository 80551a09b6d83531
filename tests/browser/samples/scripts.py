"""A job with a script in the sample installation, and nodes that offer the ready-made handlers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.browser.samples.rows import ADMIN, NOW
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Role, everywhere
from tickwheel_admin.services.services import Services
from tickwheel_admin.store.executors.handler_schemas import set_schemas
from tickwheel_executor import Executor
from tickwheel_executor.offers.command import Command
from tickwheel_executor.offers.files import FileRoot, Files
from tickwheel_executor.offers.http import Http
from tickwheel_executor.offers.script import Script
from tickwheel_executor.offers.sql import Sql, SqlConnection

READY_MADE = ("script", "command", "http", "sql", "file")  # of the nodes of "infra"
_BEFORE = """\
#!/bin/sh
set -eu
df -P / | tail -n 1
"""
_AFTER = """\
#!/bin/sh
set -eu
# Each file system, but for those in memory.
df -P | grep -v tmpfs
echo "a line so long that it does not fit into the editor of a telephone, nor beside another"
"""


async def add_scripts(
    services: Services, job_ids: dict[str, int], executor_ids: dict[str, int]
) -> None:
    """Add the job, the schemas, and the right to edit scripts for the first administrator."""
    author = replace(ADMIN, scripts=frozenset({ALL_EXECUTORS}))
    job: dict[str, Any] = {"name": "report-disks", "parameters": {"arguments": ["-h", "/srv"]}}
    first = {"language": "shell", "source": _BEFORE, "remark": "first version"}
    infra = executor_ids["infra"]
    job_ids["report-disks"] = made = await services.jobs.create(
        author, infra, job | {"script": first}
    )
    second = {"language": "shell", "source": _AFTER, "remark": "every file system"}
    await services.jobs.update(author, made, job | {"script": second}, revision=1)
    await services.store.run(set_schemas, infra, _schemas(), node_id=5, at=NOW)
    for item in await services.users.list(ADMIN):
        if item.name == "admin":
            grants = everywhere(Role.ADMIN, scripts=True)
            await services.users.set_grants(ADMIN, item.id, grants)


def _schemas() -> dict[str, str]:
    """What the ready-made handlers take, as a node would say it."""
    executor = Executor(
        "infra",
        admins=["http://127.0.0.1:1"],
        token="t" * 40,
        offers=[
            Script(languages=("shell", "python")),
            Command(),
            Http(),
            Sql({"shop": SqlConnection(url="sqlite:////tmp/shop.db")}),
            Files({"exports": FileRoot("/tmp")}),
        ],
    )
    executor._handlers.close()
    return {name: bytes(raw).decode() for name, raw in executor._handlers.schemas.items()}
