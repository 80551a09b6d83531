"""Every query of alarms reads its index, however many rows old alarms have left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import World
from tests.admin.store.database.test_query_plans import explain
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.store.alarms import (
    alarms,
    attention,
    deliveries,
    evaluation,
    outbox,
    rules,
    signals,
)
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.forecast import deadline_forecasts
from tickwheel_admin.store.overview import metric_figures

ROWS = 20_000
RULES = 2_000
START = 1_700_000_000_000
SMALL = {"setting", "alarm_channel"}

QUERIES: dict[str, tuple[Callable[[sa.Connection], object], tuple[str, ...]]] = {
    "what there is to do": (evaluation.read_alarm_work, ()),
    "oldest signals": (lambda c: signals.oldest_signals(c, limit=10), ("ix_alarm_signal_oldest",)),
    "taken signals": (
        lambda c: signals.delete_signals(c, signals.oldest_signals(c, limit=10)),
        ("primary",),
    ),
    "rules of places": (
        lambda c: rules.rules_of_places(c, executor_ids=[3], job_ids=[4, 5], tags=["t7"]),
        ("ix_alarm_rule_by_scope", "ix_alarm_rule_of_executor", "ix_alarm_rule_of_job"),
    ),
    "rules of kinds": (
        lambda c: rules.rules_of_kinds(c, [AlarmKind.SLOW]),
        ("ix_alarm_rule_by_kind",),
    ),
    "due deadlines": (
        lambda c: rules.rules_with_deadlines(c, before=START, limit=5),
        ("ix_alarm_rule_next",),
    ),
    "open alarms of subjects": (
        lambda c: alarms.lock_open_alarms(c, [(1, f"job:{n}") for n in range(20)]),
        ("uq_alarm_open",),
    ),
    "due alarms": (lambda c: alarms.due_alarms(c, now=START, limit=10), ("ix_alarm_next",)),
    "a page of open alarms": (lambda c: alarms.page_alarms(c, limit=50), ("ix_alarm_open",)),
    "a page of all alarms": (
        lambda c: alarms.page_alarms(c, only_open=False, before=(START + 999, 9), limit=50),
        ("ix_alarm_recent",),
    ),
    "alarms of a job": (
        lambda c: alarms.page_alarms(c, job_id=7, limit=50),
        ("ix_alarm_of_job",),
    ),
    "open alarms of an executor": (
        lambda c: alarms.page_alarms(c, executor_ids=[3], limit=50),
        ("ix_alarm_of_executor",),
    ),
    "all alarms of some executors": (
        lambda c: alarms.page_alarms(
            c, only_open=False, executor_ids=[3, 4], before=(START + ROWS, 9), limit=50
        ),
        ("ix_alarm_recent_of_executor",),
    ),
    "how many are open of an executor": (
        lambda c: alarms.count_open_alarms(c, executor_ids=[3]),
        ("ix_alarm_of_executor",),
    ),
    # Either index of open alarms will do.
    "how many are open": (alarms.count_open_alarms, ()),
    "a page of open alarms of a kind": (
        lambda c: alarms.page_alarms(c, kind=AlarmKind.LATE, executor_ids=[3], limit=50),
        (),
    ),
    "open alarms in groups": (
        lambda c: attention.open_groups(c, executor_ids=None),
        (),  # any index of open alarms will do
    ),
    "open alarms in groups of some executors": (
        lambda c: attention.open_groups(c, executor_ids=[3, 4]),
        (),
    ),
    "open alarms of some kinds": (
        lambda c: attention.open_of_kinds(c, [AlarmKind.LATE], executor_ids=None),
        ("ix_alarm_open_by_kind",),
    ),
    "open alarms of some jobs": (
        lambda c: attention.open_of_jobs(c, [7, 8], executor_ids=None),
        ("ix_alarm_of_job",),
    ),
    "rules of some jobs": (lambda c: rules.rules_of_jobs(c, [4, 5]), ("ix_alarm_rule_of_job",)),
    "old alarms": (
        lambda c: alarms.remove_old_alarms(c, before=START + 5, limit=10),
        ("ix_alarm_closed",),
    ),
    "next delivery": (
        deliveries.next_delivery_at,
        # Both states are read at one end of an index, which MariaDB does not name.
        (),
    ),
    "a claim": (
        lambda c: deliveries.claim_notifications(
            c, deliveries.Claim(admin_id=1, token="t", now=START + ROWS, most=9)
        ),
        ("ix_notification_due", "ix_notification_of_channel", "ix_notification_leased"),
    ),
    "messages of groups": (
        lambda c: outbox.recent_of_groups(
            c, channel_ids=[1], executor_ids=[2, 3], since=START + ROWS - 9
        ),
        ("ix_notification_group",),
    ),
    "what a message tells of": (
        lambda c: deliveries.items_of(c, 7, limit=99),
        ("ix_notification_item_of",),
    ),
    "who was told of alarms": (
        lambda c: outbox.channels_told(c, [7, 8]),
        ("ix_notification_item_of_alarm",),
    ),
    "a page of messages": (
        lambda c: deliveries.page_notifications(c, before=(START + 999, 9), limit=50),
        ("ix_notification_recent",),
    ),
    # Either index of open alarms; PostgreSQL takes another one once the table was vacuumed.
    "figures of open alarms": (metric_figures.count_alarms, ()),
    "figures of messages": (metric_figures.count_messages, ("ix_notification_due",)),
    "old messages": (
        lambda c: deliveries.remove_old_notifications(c, before=START + 5, limit=10),
        ("ix_notification_recent",),
    ),
    "forecasts of deadlines to come": (
        lambda c: deadline_forecasts.future_records(c, 3, now=START + ROWS - 50),
        ("ix_deadline_forecast_of_executor",),
    ),
    "standing warnings": (
        lambda c: deadline_forecasts.standing_warnings(
            c, None, since=START + ROWS - 50, until=START + ROWS, made_since=START
        ),
        ("ix_deadline_forecast_at",),
    ),
    "warnings of jobs": (
        lambda c: deadline_forecasts.newest_of_jobs(
            c, [7, 8], since=START + ROWS - 50, until=START + ROWS
        ),
        ("ix_deadline_forecast_at",),
    ),
    "deadlines that nobody has looked at": (
        lambda c: deadline_forecasts.records_to_look_at(c, now=START + ROWS),
        ("ix_deadline_forecast_look",),
    ),
    "scored forecasts": (
        lambda c: deadline_forecasts.known_ends(c, 3, since=START + 500),
        ("ix_deadline_forecast_of_executor",),
    ),
    "old forecasts": (
        lambda c: deadline_forecasts.remove_old_forecasts(c, before=START + 5, limit=10),
        ("ix_deadline_forecast_at",),
    ),
}


def test_every_query_of_alarms_reads_its_index(world: World) -> None:
    _populate(world)
    problems = []
    for name, (call, indexes) in QUERIES.items():
        plans = explain(world, call)
        found = {index for plan in plans for index in plan.indexes}
        whole = {table for plan in plans for table in plan.scanned} - SMALL
        missing = set(indexes) - found
        if missing or whole:
            shown = "\n".join(plan.text for plan in plans)
            problems.append(f"{name}: without {missing}, reads {sorted(whole)} whole\n{shown}")
    assert not problems, "\n\n".join(problems)


def _populate(world: World) -> None:
    for table, make, count in (
        (tables.alarm_rule, _rule, RULES),
        (tables.alarm_signal, _signal, ROWS),
        (tables.alarm, _alarm, ROWS),
        (tables.notification, _notification, ROWS),
        (tables.notification_item, _item, ROWS),
        (tables.alarm_channel, _channel, 5),
        (tables.failure_group_job, _failed_job, ROWS),
        (tables.deadline_forecast, _forecast, ROWS),
    ):
        rows = [make(n) for n in range(1, count + 1)]
        columns = tuple(rows[0])
        for first in range(0, count, 5_000):
            some = rows[first : first + 5_000]
            world.database.run_sync(insert_rows, table, some, columns=columns)

    engine = world.database.engine
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        # SQLite has no statistics in production either.
        if conn.dialect.name == "postgresql":
            conn.exec_driver_sql("VACUUM ANALYZE")  # as autovacuum does, whenever it likes
        elif conn.dialect.name != "sqlite":
            names = (
                "alarm, alarm_rule, alarm_signal, notification, notification_item,"
                " failure_group_job, deadline_forecast"
            )
            conn.exec_driver_sql(f"ANALYZE TABLE {names}")


def _rule(n: int) -> dict[str, Any]:
    scope = ("executor", "tag", "job", "job")[n % 4] if n > 10 else "installation"
    return {
        "id": n,
        "name": f"rule {n}",
        "name_of": 0,
        "kind": "slow" if n % 50 == 0 else "failed",
        "scope": scope,
        "executor_id": n if scope == "executor" else None,
        "job_id": n if scope == "job" else None,
        "tag": f"t{n}" if scope == "tag" else None,
        "additional": False,
        "severity": "error",
        "channels": "[1]",
        "limits": "{}",
        "own_text": "",
        "escalate_to": "[]",
        "tell_recovery": True,
        "group_window_s": 60,
        "enabled": True,
        "version": 1,
        "next_at": START + n if n % 20 == 0 else None,
        "created_at": 1,
        "updated_at": 1,
        "deleted_at": 0,
    }


def _signal(n: int) -> dict[str, Any]:
    return {"kind": "failed", "subject_id": n, "number": 1, "at": START + n, "job_id": n % 100}


def _alarm(n: int) -> dict[str, Any]:
    is_open = n % 100 == 0
    return {
        "id": n,
        "rule_id": n % 10 + 1,
        "subject": f"job:{n}",
        "closed_key": 0 if is_open else n,
        "kind": "failed",
        "severity": "error",
        "executor_id": n % 101,
        "job_id": n % 500,
        "told": '{"template":"x","params":{}}',
        "count": 1,
        "since": START + n,
        "last_at": START + n,
        "opened_at": START + n,
        "repeats": 0,
        "next_at": START + n if is_open else None,
        "closed_at": None if is_open else START + n,
    }


def _notification(n: int) -> dict[str, Any]:
    state = "waiting" if n % 200 == 0 else "sending" if n % 201 == 0 else "delivered"
    return {
        "id": n,
        "channel_id": n % 5 + 1,
        "executor_id": n % 50,
        "message_id": f"m-{n}",
        "state": state,
        "items": 1,
        "due_at": START + n,
        "attempts": 0,
        "lease_until": START + n if state == "sending" else None,
        "written_at": START + n,
    }


def _item(n: int) -> dict[str, Any]:
    return {
        "channel_id": n % 5 + 1,
        "alarm_id": n,
        "occasion": "opened",
        "number": 0,
        "notification_id": n,
    }


def _failed_job(n: int) -> dict[str, Any]:
    return {
        "group_id": n % 100,
        "job_id": n,
        "runs": 1,
        "last_run_id": n,
        "last_at": START + n,
        "is_over": n % 200 != 0,
    }


def _forecast(n: int) -> dict[str, Any]:
    is_known = n < ROWS - 50
    return {
        "rule_id": n % 10,
        "job_id": n,
        "at": START + n,
        "executor_id": n % 100,
        "since": START,
        "made_at": START + n - 1,
        "verdict": "missed" if n % 10 == 0 else "fine",
        "miss_percent": 0,
        "warned_since": START if n % 10 == 0 else None,
        "outcome": "met" if is_known else None,
        "look_at": None if is_known else START + n,
    }


def _channel(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "name": f"channel {n}",
        "kind": "webhook",
        "language": "en",
        "time_zone": "UTC",
        "settings": "{}",
        "per_minute": 600,
        "enabled": True,
        "version": 1,
        "created_at": 1,
        "updated_at": 1,
        "deleted_at": 0,
    }


@pytest.fixture
def world(database_url: str) -> Any:
    world = World(database_url)
    yield world
    world.close()
