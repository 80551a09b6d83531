"""Calendars, and a job with triggers of several kinds, for the sample installation."""

from __future__ import annotations

from typing import Any

from tests.browser.samples.rows import ADMIN
from tickwheel_admin.services.services import Services

CALENDARS: tuple[dict[str, Any], ...] = (
    {
        "name": "cn-holidays",
        "description": "法定节假日",
        "sense": "exclude",
        "dates": [
            "2026-10-01", "2026-10-02", "2026-10-05", "2026-10-06", "2026-10-07", "2027-01-01",
            "2027-02-08", "2027-02-09", "2027-02-10", "2027-02-11", "2027-02-12",
        ],
        "yearly": ["05-01"],
    },
    {
        "name": "banking-days",
        "description": "When the clearing house is open",
        "sense": "include",
        "weekdays": ["mon", "tue", "wed", "thu", "fri"],
        "windows": [{"from_time": "07:00", "to_time": "18:00"}],
        "base": "cn-holidays",
    },
    {
        "name": "maintenance",
        "sense": "exclude",
        "cron": [{"expression": "* * 2-4 ? * SUN", "dialect": "quartz"}],
    },
)  # fmt: skip

STATEMENTS: dict[str, Any] = {
    "name": "fetch-statements",
    "handler": "billing.payment-reconcile",
    "owner": "li.wei",
    "tags": ["finance"],
    "triggers": [
        {
            "kind": "cron", "expression": "0 30 9 LW * ?", "dialect": "quartz",
            "timezone": "Asia/Shanghai", "calendar": "cn-holidays",
            "parameters": {"range": "month"},
        },
        {
            "kind": "daily_window", "every_seconds": 1800, "from_time": "08:00",
            "to_time": "17:30", "weekdays": ["mon", "tue", "wed", "thu", "fri"],
            "timezone": "Europe/Berlin", "jitter_seconds": 20,
        },
        {
            "kind": "calendar_interval", "every": 2, "unit": "week", "start_date": "2026-11-23",
            "at_time": "06:00", "timezone": "Europe/Berlin", "repeat_count": 10,
        },
    ],
}  # fmt: skip


async def add_schedules(
    services: Services, job_ids: dict[str, int], executor_ids: dict[str, int]
) -> dict[str, int]:
    """Add them; returns ids by name."""
    made = {}
    for raw in CALENDARS:
        made[f"calendar:{raw['name']}"] = await services.calendars.create(ADMIN, raw)
    job_ids["fetch-statements"] = await services.jobs.create(
        ADMIN, executor_ids["billing"], STATEMENTS
    )
    made["job:fetch-statements"] = job_ids["fetch-statements"]
    return made
