"""What the demo shows: an executor, a calendar, and jobs of every kind; made where missing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tickwheel_admin.cli.demo_agent import fill_agent
from tickwheel_admin.cli.demo_xxl_job import XxlDemoData, fill_xxl_job
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Grant, Role
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE, FIRST_ADMIN
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.executors.tokens import executor_of_token

EXECUTOR = "demo"
WITH_DEADLINE = "sync-export"
DEADLINE_MS = 40 * 60_000  # so long after the demo was made


def environment_of_node(number: int) -> dict[str, str]:
    """What tells the demo's nodes apart, for jobs that choose among them."""
    labels = {"zone": "eu" if number % 2 else "us"}
    if number % 3 == 1:
        labels["gpu"] = "a100"
    return {
        "DEMO_LABELS": ",".join(f"{key}={value}" for key, value in labels.items()),
        "DEMO_WEIGHT": "3" if number % 3 == 1 else "1",
    }


HOLIDAYS: Mapping[str, Any] = {
    "name": "holidays",
    "description": "Days on which the demo’s office is closed.",
    "sense": "exclude",
    "yearly": ["01-01", "05-01", "12-25", "12-26"],
    "dates": ["2027-03-26", "2027-03-29", "2028-04-14", "2028-04-17"],  # Easter
}

WORKFLOW: Mapping[str, Any] = {
    "name": "weekly-figures",
    "description": "A workflow: stock and customers side by side, then a mail with both.",
    "owner": "demo",
    "tags": ["example", "report"],
    "workflow": {
        "output": "digest",
        "steps": [
            {"key": "stock", "handler": "stock-sync"},
            {
                "key": "customers",
                "handler": "refresh-customer",
                "for_each": {"items": ["acme", "globex", "initech"], "max_parallel": 2},
                "parameters": {"customer": "${item}"},
            },
            {
                "key": "digest",
                "handler": "mail-digest",
                "needs": ["stock", "customers"],
                "when": "steps.stock.result.articles > 0",
                "parameters": {
                    "month": "${run.scheduled_at}",
                    "revenue": "${steps.stock.result.articles}",
                    "to": ["sales@example.com"],
                },
            },
        ],
    },
    "triggers": [{"kind": "fixed_rate", "every_seconds": 120}],
}

# In the order in which they are made: children are named by the jobs made before.
JOBS: tuple[Mapping[str, Any], ...] = (
    {
        "name": "mail-digest",
        "handler": "mail-digest",
        "description": "Runs after each slow-report that succeeded, with its result.",
        "owner": "demo",
        "tags": ["example", "report"],
        "parameters": {"to": ["sales@example.com", "cfo@example.com"]},
    },
    {
        "name": "quick",
        "handler": "quick",
        "description": "Runs every five seconds and ends at once.",
        "owner": "demo",
        "tags": ["example"],
        "triggers": [{"kind": "fixed_rate", "every_seconds": 5}],
    },
    {
        "name": "slow-report",
        "handler": "slow-report",
        "description": "Twenty seconds of work with progress; open a run and watch its log.",
        "owner": "demo",
        "tags": ["example", "report"],
        "parameters": {"month": "2026-10", "seconds": 20},
        "routing": "least_busy",
        "timeout_seconds": 300,
        "children": [{"job": "mail-digest", "on": "success"}],
        "triggers": [{"kind": "fixed_rate", "every_seconds": 90}],
    },
    {
        "name": "flaky",
        "handler": "flaky",
        "description": "Fails now and then and is tried once more; one run in six fails for good."
        " A rule tells of the intervals that were not processed; the tab Coverage fills them.",
        "owner": "demo",
        "tags": ["example", "payments"],
        "routing": "random",
        "timeout_seconds": 30,
        "retries": 1,
        "retry_delay_seconds": 2,
        "triggers": [{"kind": "fixed_rate", "every_seconds": 20}],
        "alarms": [
            {"name": "all processed", "kind": "coverage_gap", "limits": {"seconds": 120}},
        ],
    },
    {
        "name": "minutely-cleanup",
        "handler": "minutely-cleanup",
        "description": "Every minute, by a cron expression.",
        "owner": "demo",
        "tags": ["example"],
        "triggers": [
            {"kind": "cron", "expression": "* * * * *", "dialect": "unix", "timezone": "UTC"}
        ],
    },
    {
        "name": "sync-export",
        "handler": "sync-export",
        "description": "Has no schedule, and a deadline soon after the demo was made: the forecast"
        " warns of it until somebody runs it by hand, with other parameters if you like.",
        "owner": "demo",
        "tags": ["example", "manual"],
        "parameters": {"rows": 500},
        "timeout_seconds": 600,
    },
    {
        "name": "warm-cache",
        "handler": "warm-cache",
        "description": "Every node does it, each with a run of its own.",
        "owner": "demo",
        "tags": ["example"],
        "routing": "broadcast",
        "triggers": [{"kind": "fixed_rate", "every_seconds": 60}],
    },
    {
        "name": "import-orders",
        "handler": "import-orders",
        "description": "Cut into six shards; a shard that is too early asks for another try.",
        "owner": "demo",
        "tags": ["example"],
        "routing": "shards",
        "shards": 6,
        "retries": 2,
        "triggers": [{"kind": "fixed_rate", "every_seconds": 45}],
    },
    {
        "name": "rebuild-index",
        "handler": "rebuild-index",
        "description": "Takes longer than its interval: what is due meanwhile is skipped.",
        "owner": "demo",
        "tags": ["example", "search"],
        "blocking": "discard_later",
        "timeout_seconds": 60,
        "triggers": [{"kind": "fixed_rate", "every_seconds": 12}],
    },
    {
        "name": "stock-sync",
        "handler": "stock-sync",
        "description": "Starts ten seconds after its own end.",
        "owner": "demo",
        "tags": ["example"],
        "triggers": [{"kind": "fixed_delay", "every_seconds": 10}],
    },
    {
        "name": "statements",
        "handler": "slow-report",
        "description": "Three triggers: each month’s last weekday, each quarter, and office hours.",
        "owner": "demo",
        "tags": ["example", "report"],
        "parameters": {"month": "2026-11", "seconds": 5},
        "triggers": [
            {
                "kind": "cron",
                "expression": "0 30 17 LW * ?",
                "dialect": "quartz",
                "timezone": "Europe/Berlin",
                "calendar": "holidays",
            },
            {
                "kind": "calendar_interval",
                "every": 3,
                "unit": "month",
                "start_date": "2026-01-01",
                "at_time": "06:00",
                "timezone": "Europe/Berlin",
                "parameters": {"month": "the quarter"},
            },
            {
                "kind": "daily_window",
                "every_seconds": 600,
                "from_time": "09:00",
                "to_time": "18:00",
                "weekdays": ["mon", "tue", "wed", "thu", "fri"],
                "timezone": "Europe/Berlin",
                "calendar": "holidays",
                "jitter_seconds": 30,
            },
        ],
    },
    {
        "name": "stocktaking",
        "handler": "sync-export",
        "description": "Every second Saturday, counted by the calendar and not by hours.",
        "owner": "demo",
        "tags": ["example"],
        "parameters": {"rows": 50},
        "triggers": [
            {
                "kind": "calendar_interval",
                "every": 2,
                "unit": "week",
                "start_date": "2026-01-03",
                "at_time": "07:30",
                "timezone": "Asia/Shanghai",
            }
        ],
    },
    {
        "name": "nightly-archive",
        "handler": "slow-report",
        "description": "Once each night; its start is chosen where the forecast sees least load.",
        "owner": "demo",
        "tags": ["example", "report"],
        "parameters": {"month": "2026-10", "seconds": 30},
        "triggers": [
            {
                "kind": "window",
                "from_time": "01:00",
                "to_time": "05:00",
                "done_by": "06:00",
                "timezone": "Europe/Berlin",
            }
        ],
    },
    {
        "name": "poll-feeds",
        "handler": "quick",
        "description": "Spread by weight: node-1 gets three runs for each one of node-2.",
        "owner": "demo",
        "tags": ["example", "routing"],
        "routing": "weighted",
        "triggers": [{"kind": "fixed_rate", "every_seconds": 10}],
    },
    {
        "name": "refresh-customer",
        "handler": "refresh-customer",
        "description": "Each customer always on the same node: a consistent hash of a parameter.",
        "owner": "demo",
        "tags": ["example", "routing"],
        "routing": "consistent_hash",
        "hash_by": "customer",
        "triggers": [
            {"kind": "fixed_rate", "every_seconds": 30, "parameters": {"customer": customer}}
            for customer in ("Nordwind AG", "Café Müller", "上海东方贸易有限公司")
        ],
    },
    {
        "name": "close-day",
        "handler": "minutely-cleanup",
        "description": "Always on node-2; others stand in while it is away, full or cordoned.",
        "owner": "demo",
        "tags": ["example", "routing"],
        "routing": "failover",
        "nodes": ["node-2", "node-*"],
        "triggers": [{"kind": "fixed_rate", "every_seconds": 40}],
    },
    {
        "name": "send-newsletter",
        "handler": "quick",
        "description": "On the node that was given the fewest of its runs so far.",
        "owner": "demo",
        "tags": ["example", "routing"],
        "routing": "least_frequently_used",
        "triggers": [{"kind": "fixed_rate", "every_seconds": 25}],
    },
    {
        "name": "train-model",
        "handler": "train-model",
        "description": "Only on nodes with the label gpu, and there on the least busy one.",
        "owner": "demo",
        "tags": ["example", "routing"],
        "routing": "least_busy",
        "selector": "gpu",
        "triggers": [{"kind": "fixed_rate", "every_seconds": 50}],
    },
    {
        "name": "read-ledger",
        "handler": "read-ledger",
        "description": "One run after the other; each goes on where the one before stopped.",
        "owner": "demo",
        "tags": ["example", "state"],
        "blocking": "serial",
        "triggers": [{"kind": "fixed_rate", "every_seconds": 15}],
    },
    {
        "name": "copy-archive",
        "handler": "copy-archive",
        "description": "Breaks now and then; a retry goes on from the checkpoint it left.",
        "owner": "demo",
        "tags": ["example", "state"],
        "retries": 6,
        "retry_delay_seconds": 2,
        "triggers": [{"kind": "fixed_rate", "every_seconds": 35}],
    },
    {
        "name": "price-list",
        "handler": "price-list",
        "description": "Its handler says which parameters it takes: run it, and fill in the form.",
        "owner": "demo",
        "tags": ["example"],
        "parameters": {"customer": "Nordwind AG", "copies": 2},
        "triggers": [{"kind": "fixed_rate", "every_seconds": 120}],
    },
    {
        "name": "find-primes",
        "handler": "find-primes",
        "description": "Computes in a process of its own; cancel it, and it ends at once.",
        "owner": "demo",
        "tags": ["example"],
        "blocking": "discard_later",
        "timeout_seconds": 60,
        "triggers": [{"kind": "fixed_rate", "every_seconds": 75}],
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoData:
    """What the demo needs to start its processes and tell people."""

    token: str  # of the executor
    password: str | None  # one-time password; None when the first admin was made before
    xxl_job: XxlDemoData | None  # None: no executor of this protocol is the demo's
    agent_token: str | None  # None: somebody uses the agent's executor for himself


async def fill(services: Services, known_token: str | None, *, console: str) -> DemoData:
    """Make what is missing; what somebody changed or deleted since the first time stays so.

    Args:
        known_token: what an earlier demo kept; another one is made when it does not work any more.
        console: URL of the admin.
    """
    password = await services.users.ensure_first_admin()
    if password is not None:  # no role includes scripts, and the demo is to try them, too
        first = await services.users.find(COMMAND_LINE, FIRST_ADMIN)
        grants = {ALL_EXECUTORS: Grant(Role.ADMIN, scripts=True)}
        await services.users.set_grants(COMMAND_LINE, first.id, grants)
    token = await _fill_executor(services, known_token)
    xxl_job = await fill_xxl_job(services)
    agent_token = await fill_agent(services, console)
    return DemoData(token=token, password=password, xxl_job=xxl_job, agent_token=agent_token)


async def _fill_executor(services: Services, known_token: str | None) -> str:
    """Make the executor of the nodes, with all that goes with it; its token."""
    executors = {item.name: item for item in await services.executors.list(COMMAND_LINE)}
    if EXECUTOR in executors:
        executor_id = executors[EXECUTOR].id
        if known_token is not None and await _opens(services, known_token, executor_id):
            return known_token
        new = await services.executors.rotate_token(COMMAND_LINE, executor_id)
        return new.token
    new = await services.executors.create(
        COMMAND_LINE, name=EXECUTOR, description="The example service of the demo."
    )
    if HOLIDAYS["name"] not in await services.calendars.names(COMMAND_LINE):
        await services.calendars.create(COMMAND_LINE, HOLIDAYS)
    made: dict[str, int] = {}
    deadline = datetime.fromtimestamp((await services.store.read(now_ms) + DEADLINE_MS) / 1000, UTC)
    for raw in JOBS:
        children = [{**child, "job": made[child["job"]]} for child in raw.get("children", ())]
        wanted = {**raw, "children": children}
        if raw["name"] == WITH_DEADLINE:
            wanted["alarms"] = [
                {
                    "name": "exported in time",
                    "kind": "deadline_missed",
                    "limits": {"by": f"{deadline:%H:%M}", "timezone": "UTC"},
                }
            ]
        made[raw["name"]] = await services.jobs.create(COMMAND_LINE, new.id, wanted)
    await services.jobs.create(COMMAND_LINE, new.id, WORKFLOW)
    return new.token


async def _opens(services: Services, token: str, executor_id: int) -> bool:
    found = await services.store.read(executor_of_token, hashlib.sha256(token.encode()).hexdigest())
    return found is not None and found[0] == executor_id
