"""Jobs declared in code: what is sent, and what is refused before the start."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from tests.executor_sdk.scripted_admin import TOKEN, ScriptedAdmin, make_node
from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_admin.domain.alarms.rule import (
    RULE_KINDS,
    QuietHours,
    RuleLimits,
    RuleScope,
    scopes_of,
)
from tickwheel_admin.domain.input.job import JOB_FIELDS as API_JOB_FIELDS
from tickwheel_admin.domain.input.job import parse_job
from tickwheel_admin.domain.input.job_alarms import JOB_ALARM_FIELDS
from tickwheel_admin.domain.input.run_rules import CHILD_FIELDS as API_CHILD_FIELDS
from tickwheel_admin.domain.input.trigger import TRIGGER_FIELDS as API_TRIGGER_FIELDS
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.spec import MisfirePolicy
from tickwheel_executor import Executor, HandlerError
from tickwheel_executor.handlers.job_fields import (
    ALARM_FIELDS,
    JOB_FIELDS,
    PARTS_OF_ALARMS,
    TRIGGER_FIELDS,
    AlarmFields,
    ChildFields,
)
from tickwheel_shared.protocol import MAX_DECLARED_JOBS, Hello


def an_executor() -> Executor:
    return Executor("billing", admins=["http://x"], token=TOKEN)


def work() -> None: ...


def declared(**fields: Any) -> dict[str, Any]:
    executor = an_executor()
    executor.handler("work", **fields)(work)
    (job,) = executor.declared_jobs
    return job


def test_the_fields_are_those_of_the_api() -> None:
    # A script is edited at the admin; code has handlers.
    of_jobs = set(API_JOB_FIELDS) - {"name", "handler", "script", "workflow"}
    of_triggers = {name for names in API_TRIGGER_FIELDS.values() for name in names}
    assert of_jobs <= set(JOB_FIELDS)
    assert set(JOB_FIELDS) - of_jobs <= of_triggers | {"cron", "every"}
    assert set(TRIGGER_FIELDS) == of_triggers
    assert set(ChildFields.__annotations__) == set(API_CHILD_FIELDS)
    assert set(ALARM_FIELDS) == set(JOB_ALARM_FIELDS)
    kinds = get_args(get_args(get_type_hints(AlarmFields, include_extras=True)["kind"])[0])
    assert set(kinds) == {k.value for k in RULE_KINDS if RuleScope.JOB in scopes_of(k)}
    assert set(PARTS_OF_ALARMS["limits"]) == set(RuleLimits.__annotations__)
    assert set(PARTS_OF_ALARMS["quiet"]) == set(QuietHours.__annotations__)


@pytest.mark.parametrize(
    ("fields", "trigger"),
    [
        (
            {"cron": "0 0 3 * * ?", "timezone": "Asia/Shanghai"},
            {
                "kind": "cron",
                "expression": "0 0 3 * * ?",
                "dialect": "quartz",
                "timezone": "Asia/Shanghai",
            },
        ),
        ({"cron": "*/5 * * * *"}, {"kind": "cron", "expression": "*/5 * * * *"}),
        (
            {"cron": "0 0 3 ? * 1", "dialect": "spring", "misfire": "skip"},
            {"kind": "cron", "expression": "0 0 3 ? * 1", "dialect": "spring", "misfire": "skip"},
        ),
        ({"every": 30}, {"kind": "fixed_rate", "every_seconds": 30}),
        (
            {"every": timedelta(minutes=1.5), "jitter_seconds": timedelta(milliseconds=2500)},
            {"kind": "fixed_rate", "every_seconds": 90, "jitter_seconds": 2.5},
        ),
        (
            {"at": datetime(2030, 1, 2, 3, tzinfo=UTC), "calendar": "holidays"},
            {"kind": "once", "at": "2030-01-02T03:00:00Z", "calendar": "holidays"},
        ),
        (
            {"triggers": [{"kind": "daily_window", "every_seconds": timedelta(hours=1)}]},
            {"kind": "daily_window", "every_seconds": 3600},
        ),
        (
            {"triggers": [{"kind": "window", "from_time": "01:00", "to_time": "05:00"}]},
            {"kind": "window", "from_time": "01:00", "to_time": "05:00"},
        ),
    ],
)
def test_a_trigger_in_short_and_in_full(fields: dict[str, Any], trigger: dict[str, Any]) -> None:
    assert declared(**fields) == {"name": "work", "handler": "work", "triggers": [trigger]}
    config = parse_job(declared(**fields))  # the admin reads it
    read = config.triggers[0]
    assert read.kind == trigger["kind"]
    if isinstance(read, CronSpec):
        assert read.dialect == trigger.get("dialect", Dialect.UNIX.value)
    assert MisfirePolicy(trigger.get("misfire", "fire_once")) is read.misfire


def test_the_own_fields_of_a_job() -> None:
    job = declared(
        job="Nightly invoices",
        tags=("money", "night"),
        parameters={"since": date(2026, 1, 1), "priority": 3},
        priority=7,
        timeout_seconds=timedelta(minutes=5),
        retries=3,
    )
    assert job == {
        "name": "Nightly invoices",
        "handler": "work",
        "tags": ["money", "night"],
        "parameters": {"since": "2026-01-01", "priority": 3},
        "priority": 7,
        "timeout_seconds": 300,
        "retries": 3,
    }
    assert parse_job(job).timeout_ms == 300_000


def test_alarms_of_a_job() -> None:
    job = declared(
        cron="0 3 * * *",
        alarms=[
            {"kind": "failed", "channels": ("ops",), "repeat_every_seconds": timedelta(hours=1)},
            {
                "kind": "deadline_missed",
                "name": "by breakfast",
                "limits": {"by": time(7, 30), "seconds": timedelta(hours=2)},
                "quiet": {"from_time": time(22), "to_time": "06:00"},
            },
        ],
    )
    assert job["alarms"][0] == {
        "kind": "failed",
        "channels": ["ops"],
        "repeat_every_seconds": 3600,
    }
    first, second = parse_job(job).alarms  # the admin reads it
    assert (first.name, first.channels, first.repeat_every_s) == ("failed", ("ops",), 3600)
    assert (second.limits.by, second.limits.seconds) == ("07:30:00", 7200)
    assert second.quiet is not None
    assert second.quiet.from_time == "22:00:00"


def test_several_jobs_of_one_handler_and_none() -> None:
    executor = an_executor()
    executor.handler("work")(work)
    assert executor.declared_jobs == []
    executor.job("a", handler="work", every=60)
    executor.job("b", handler="work", parameters={"x": 1})
    executor.handler("other", job="c")(work)
    assert [(job["name"], job["handler"]) for job in executor.declared_jobs] == [
        ("a", "work"),
        ("b", "work"),
        ("c", "other"),
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"timzone": "UTC", "cron": "* * * * *"}, "no field 'timzone'; did you mean 'timezone'"),
        ({"handler": "x"}, "no field 'handler'"),
        ({"timezone": "UTC"}, "timezone belongs to a trigger: say when"),
        ({"cron": "* * * * *", "every": 5}, "cron and every are several triggers"),
        ({"cron": "* * * * *", "triggers": []}, "cron belongs to one trigger"),
        ({"triggers": [{"kind": "cron", "expresion": "x"}]}, "did you mean 'expression'"),
        ({"triggers": "* * * * *"}, "triggers is a list of dicts"),
        ({"triggers": ["* * * * *"]}, "a trigger is a dict"),
        ({"alarms": {"kind": "failed"}}, "alarms is a list of dicts"),
        ({"alarms": ["failed"]}, "an alarm is a dict"),
        ({"alarms": [{"channels": ["ops"]}]}, "say its kind"),
        ({"alarms": [{"kind": "failed", "chanels": []}]}, "did you mean 'channels'"),
        ({"alarms": [{"kind": "slow", "limits": {"factr": 2}}]}, "did you mean 'factor'"),
        ({"parameters": {"x": object()}}, "parameters cannot be written as JSON"),
    ],
)
def test_what_is_wrong_in_code_is_said_where_it_is_written(
    fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(HandlerError, match=words) as caught:
        an_executor().handler("work", **fields)(work)
    assert "job 'work' of handler 'work'" in str(caught.value)


def test_names_are_taken_once_and_handlers_must_be_there() -> None:
    executor = an_executor()
    executor.handler("report", every=60)(work)
    with pytest.raises(HandlerError, match="there is a job of this name already"):
        executor.job("report", handler="report")
    executor.job("typo", handler="reprot")
    with pytest.raises(HandlerError, match=r"names the handler 'reprot'.*did you mean 'report'"):
        executor.handlers.close()


def test_too_many_jobs_and_too_late_ones() -> None:
    executor = an_executor()
    executor.handler("work")(work)
    for number in range(MAX_DECLARED_JOBS):
        executor.job(f"job {number}", handler="work")
    with pytest.raises(HandlerError, match="at most 500 jobs"):
        executor.job("one more", handler="work")
    big = an_executor()
    big.handler("work")(work)
    big.job("big", handler="work", description="x" * 2**20)
    with pytest.raises(HandlerError, match="the limit is 1,048,576"):
        big.handlers.close()
    executor.handlers.close()
    with pytest.raises(HandlerError, match="too late"):
        executor.job("late", handler="work")


@virtual_time
async def test_the_hello_proposes_them() -> None:
    admin = ScriptedAdmin()
    node = make_node(admin, handlers={"work": work})
    node._handlers.declare("nightly", "work", {"cron": "0 3 * * *"})
    await node.start()
    hello = (await admin.session()).all(Hello)[0]
    assert [msgspec.json.decode(job) for job in hello.jobs] == [
        {
            "name": "nightly",
            "handler": "work",
            "triggers": [{"kind": "cron", "expression": "0 3 * * *"}],
        }
    ]
    await node.drain(1)
