"""An executor of XXL-JOB's protocol in the sample installation, with a process that fails."""

from __future__ import annotations

import sqlalchemy as sa

from tests.browser.samples.rows import ADMIN, NOW
from tickwheel_admin.services.services import Services
from tickwheel_admin.store.database.tables import xxl_address

HOUR = 3_600_000
ADDRESSES = ("http://10.3.0.5:9999", "http://10.3.0.6:9999", "http://10.3.0.7:9999")


async def add_xxl_executor(services: Services, executor_ids: dict[str, int]) -> None:
    """Add it; no node of it is live."""
    executor_ids["orders"] = made = await services.xxl_executors.create(
        ADMIN, name="orders", app_name="orders-job", token="default_token", addresses=ADDRESSES
    )
    await services.store.run(_add_calls, made)


def _add_calls(conn: sa.Connection, executor_id: int) -> None:
    for address, told in zip(
        ADDRESSES,
        (
            {"dialect": "A", "beat_at": NOW - 2_000, "calls": 18_231, "errors": 0},
            {
                "dialect": "B", "beat_at": NOW - HOUR, "calls": 9_112, "errors": 3,
                "error": "connection refused", "error_at": NOW - HOUR + 3_000,
            },
        ),
        strict=False,
    ):  # fmt: skip
        mine = sa.and_(xxl_address.c.executor_id == executor_id, xxl_address.c.address == address)
        conn.execute(sa.update(xxl_address).where(mine).values(**told))
