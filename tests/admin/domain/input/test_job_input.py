"""Jobs and triggers as people write them: limits, defaults, all problems at once, exact inverse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.input.job import (
    config_from_json,
    config_to_json,
    job_to_raw,
    parse_job,
    parse_parameters,
    parse_trigger,
    trigger_to_raw,
)
from tickwheel_admin.domain.input.trigger import TRIGGER_FIELDS
from tickwheel_admin.domain.jobs.children import ChildLink, ChildOn
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy, WhenCutOff
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.triggers.kinds.calendar_interval import (
    CalendarIntervalSpec,
    IntervalUnit,
)
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.daily_window import DailyWindowSpec
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.domain.triggers.spec import MisfirePolicy
from tickwheel_admin.domain.triggers.trigger_json import spec_from_json, spec_to_json

MINIMAL = {"name": "invoices", "handler": "send-invoices"}
RATE = {"kind": "fixed_rate", "every_seconds": 1}
MONTHLY = {"kind": "calendar_interval", "unit": "month", "start_date": "2026-01-31"}
WINDOW = {"kind": "daily_window", "every_seconds": 900}
NOTHING_SPECIAL = {
    "start_at": None,
    "end_at": None,
    "repeat_count": None,
    "calendar": None,
    "jitter_seconds": 0,
    "priority": None,
    "parameters": None,
}
FULL: dict[str, Any] = {
    "name": "Invoices 发票",
    "handler": "send-invoices",
    "script": None,
    "workflow": None,
    "description": "Sends them.\nEvery month.",
    "owner": "billing team",
    "tags": ["money", "monthly"],
    "parameters": {"month": None, "big": 123456789012345678901234567890, "nested": [{"a": 1.5}]},
    "routing": "least_busy",
    "shards": None,
    "nodes": None,
    "selector": 'zone=eu,!spot,tier in (a,"b c")',
    "hash_by": None,
    "blocking": "serial",
    "concurrency": 2,
    "max_waiting": 0,
    "when_cut_off": "continue",
    "hold_lost_seconds": 15,
    "priority": 2,
    "pool": "warehouse",
    "pool_slots": 2,
    "timeout_seconds": 90,
    "start_within_seconds": 3600,
    "retries": 3,
    "retry_delay_seconds": 0.25,
    "retry_backoff": "fixed",
    "retry_max_delay_seconds": 60,
    "retry_jitter": 0.5,
    "retry_on": ["timed_out"],
    "retry_on_lost": False,
    "children": [{"job": 7, "on": "always"}, {"job": 8, "on": "success"}],
    "alarms": [
        {
            "name": "deadline_missed",
            "kind": "deadline_missed",
            "additional": True,
            "severity": "warning",
            "limits": {
                "by": "07:30:00",
                "timezone": "Europe/Berlin",
                "calendar": None,
                "seconds": 3600,
            },
            "own_text": "Call the desk:\n{{ job }}",
            "quiet": {
                "from_time": "22:00:00",
                "to_time": "06:00:00",
                "calendar": "workdays",
                "timezone": None,
                "pierced_by_errors": True,
            },
            "repeat_every_seconds": 3600,
            "escalate_after_seconds": 900,
            "tell_recovery": False,
            "group_window_seconds": 0,
            "enabled": False,
            "channels": ["运维", "on call"],
            "escalate_to": ["managers"],
        },
        {
            "name": "streak",
            "kind": "failing_streak",
            "additional": False,
            "severity": "error",
            "limits": {"count": 5},
            "own_text": "",
            "quiet": None,
            "repeat_every_seconds": None,
            "escalate_after_seconds": None,
            "tell_recovery": True,
            "group_window_seconds": 60,
            "enabled": True,
            "channels": [],
            "escalate_to": [],
        },
    ],
    "triggers": [
        {
            "kind": "cron",
            "expression": "0 9 1 * *",
            "dialect": "unix",
            "gap": "skip",
            "overlap": "second",
            "timezone": "Europe/Berlin",
            "start_at": "2026-01-01T00:00:00Z",
            "end_at": "2026-12-31T23:59:59.999Z",
            "repeat_count": 12,
            "calendar": "Holidays 节假日",
            "jitter_seconds": 0.25,
            "priority": 1,
            "parameters": {"month": "last", "big": 123456789012345678901234567890},
            "misfire": "skip",
            "misfire_threshold_seconds": 60,
            "catch_up_limit": None,
        },
        {
            **NOTHING_SPECIAL,
            "kind": "fixed_rate",
            "every_seconds": 0.1,
            "anchor_at": "2026-03-01T09:00:00.250Z",
            "timezone": "Asia/Shanghai",
            "calendar": "workdays",
            "misfire": "fire_all",
            "misfire_threshold_seconds": 5,
            "catch_up_limit": 10,
        },
        {
            **NOTHING_SPECIAL,
            "kind": "once",
            "at": "2030-01-02T03:04:05Z",
            "timezone": None,
            "misfire": "fire_once",
            "misfire_threshold_seconds": 5,
            "catch_up_limit": None,
        },
        {
            **NOTHING_SPECIAL,
            "kind": "fixed_delay",
            "every_seconds": 30,
            "initial_delay_seconds": 0,
            "timezone": None,
        },
        {
            **NOTHING_SPECIAL,
            "kind": "calendar_interval",
            "every": 3,
            "unit": "month",
            "start_date": "2026-01-31",
            "at_time": "09:30:00",
            "gap": "fire",
            "overlap": "both",
            "timezone": "America/New_York",
            "misfire": "fire_once",
            "misfire_threshold_seconds": 5,
            "catch_up_limit": None,
        },
        {
            **NOTHING_SPECIAL,
            "kind": "daily_window",
            "every_seconds": 900,
            "from_time": "09:00:00",
            "to_time": "17:00:00",
            "weekdays": ["mon", "wed", "sun"],
            "gap": "fire",
            "overlap": "auto",
            "timezone": "UTC",
            "misfire": "fire_once",
            "misfire_threshold_seconds": 5,
            "catch_up_limit": None,
        },
    ],
}
SHARDED = {**MINIMAL, "routing": "shards", "shards": 16, "blocking": "discard_later"}
PINNED = {**MINIMAL, "routing": "pinned", "nodes": ["eu-*", "n 2"], "selector": "gpu"}
HASHED = {**MINIMAL, "routing": "consistent_hash", "hash_by": "customer"}


def test_defaults() -> None:
    assert parse_job(MINIMAL) == JobConfig(name="invoices", handler="send-invoices")


def test_every_field_arrives() -> None:
    config = parse_job(FULL)
    assert config.routing.strategy is Routing.LEAST_BUSY
    assert config.timeout_ms == 90_000
    assert config.retry == RetryPolicy(
        retries=3,
        delay_ms=250,
        factor=1.0,
        max_delay_ms=60_000,
        jitter=0.5,
        outcomes=(RunState.TIMED_OUT,),
        on_lost=False,
    )
    assert config.blocking == BlockingPolicy(
        strategy=Blocking.SERIAL,
        concurrency=2,
        max_waiting=0,
        when_cut_off=WhenCutOff.CONTINUE,
        hold_lost_ms=15_000,
    )
    assert config.start_within_ms == 3_600_000
    assert config.children == (
        ChildLink(job_id=7, on=ChildOn.ALWAYS),
        ChildLink(job_id=8, on=ChildOn.SUCCESS),
    )
    assert config.tags == ("money", "monthly")
    assert config.triggers == (
        CronSpec(
            expression="0 9 1 * *",
            dialect="unix",
            timezone="Europe/Berlin",
            gap=Gap.SKIP,
            overlap=Overlap.SECOND,
            start_at=1_767_225_600_000,
            end_at=1_798_761_599_999,
            repeat_count=12,
            calendar="Holidays 节假日",
            jitter_ms=250,
            priority=1,
            parameters='{"month":"last","big":123456789012345678901234567890}',
            misfire=MisfirePolicy.SKIP,
            misfire_threshold_ms=60_000,
        ),
        FixedRateSpec(
            every_ms=100,
            anchor_at=1_772_355_600_250,
            timezone="Asia/Shanghai",
            calendar="workdays",
            misfire=MisfirePolicy.FIRE_ALL,
            catch_up_limit=10,
        ),
        OnceSpec(at=1_893_553_445_000),
        FixedDelaySpec(every_ms=30_000, initial_delay_ms=0),
        CalendarIntervalSpec(
            every=3,
            unit=IntervalUnit.MONTH,
            start_date="2026-01-31",
            at_time="09:30:00",
            overlap=Overlap.BOTH,
            timezone="America/New_York",
        ),
        DailyWindowSpec(
            every_ms=900_000,
            from_time="09:00:00",
            to_time="17:00:00",
            weekdays=(1, 3, 7),
            timezone="UTC",
        ),
    )
    assert parse_job(SHARDED).routing.shards == 16
    assert parse_job(PINNED).routing == RoutingPolicy(
        strategy=Routing.PINNED, nodes=("eu-*", "n 2"), selector="gpu"
    )
    assert parse_job(HASHED).routing.hash_by == "customer"


def test_a_selector_is_kept_in_its_normal_form() -> None:
    for written in ("zone == eu , gpu", "zone in (eu, eu),gpu", '"zone"=eu,"gpu"'):
        assert parse_job({**MINIMAL, "selector": written}).routing.selector == "zone=eu,gpu"
    same = {**MINIMAL, "routing": "failover", "nodes": [" a ", "b", "a"]}
    assert parse_job(same).routing.nodes == ("a", "b")


@pytest.mark.parametrize(
    "raw",
    [MINIMAL, FULL, SHARDED, PINNED, HASHED],
    ids=["minimal", "full", "sharded", "pinned", "hashed"],
)
def test_raw_and_config_are_inverse(raw: dict[str, Any]) -> None:
    config = parse_job(raw)
    assert parse_job(job_to_raw(config)) == config
    assert parse_job(json.loads(json.dumps(job_to_raw(config)))) == config
    assert config_from_json(config_to_json(config)) == config


def test_full_raw_comes_back_as_it_was() -> None:
    assert job_to_raw(parse_job(FULL)) == FULL


def test_integers_of_any_size_stay_exact() -> None:
    config = parse_job(FULL)
    assert "123456789012345678901234567890" in config.parameters
    assert job_to_raw(config)["parameters"]["big"] == 123456789012345678901234567890
    assert parse_parameters('{"n": 9007199254740993}') == '{"n":9007199254740993}'


def test_every_problem_at_once() -> None:
    found = problems(
        {
            "nmae": "x",
            "handler": "",
            "priority": 0,
            "retries": "3",
            "routing": "leastbusy",
            "triggers": [
                {"kind": "cron", "expression": "61 * * * *"},
                {"kind": "fixed_rate", "every": 5},
                {"kind": "never"},
                "daily",
            ],
        }
    )
    assert {(p.field, p.code) for p in found} == {
        ("nmae", "unknown_field"),
        ("name", "required"),
        ("handler", "required"),
        ("priority", "out_of_range"),
        ("retries", "wrong_type"),
        ("routing", "not_one_of"),
        ("triggers[0].expression", "cron.invalid"),
        ("triggers[1].every", "does_not_apply"),
        ("triggers[1].every_seconds", "required"),
        ("triggers[2].kind", "not_one_of"),
        ("triggers[3]", "wrong_type"),
    }
    by_field = {p.field: p.message for p in found}
    assert "did you mean “name”" in by_field["nmae"]
    assert "did you mean “least_busy”" in by_field["routing"]
    assert "did you mean “every_seconds”" in by_field["triggers[1].every"]


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("name", "x" * 201, "too_long"),
        ("name", "a\nb", "control_characters"),
        ("name", "a\r\nBcc: x", "control_characters"),
        ("name", "a\x00b", "control_characters"),
        ("name", "a\u2028b", "control_characters"),
        ("name", "invoice\u202egnp.", "control_characters"),
        ("name", "\ud800", "control_characters"),
        ("name", 5, "wrong_type"),
        ("name", ["a"], "wrong_type"),
        ("name", "   ", "required"),
        ("description", "a\x07", "control_characters"),
        ("description", "x" * 4_001, "too_long"),
        ("tags", "a,b", "wrong_type"),
        ("tags", ["x"] * 21, "too_many"),
        ("tags", ["a" * 50 + str(n) for n in range(3)], None),
        ("parameters", [], "json.not_an_object"),
        ("parameters", "{}", "json.not_an_object"),
        ("parameters", {"x": float("nan")}, "json.invalid"),
        ("parameters", {"x": "\ud800"}, "json.invalid"),
        ("parameters", {"x": "y" * 65_536}, "json.too_large"),
        ("priority", 10, "out_of_range"),
        ("priority", True, "wrong_type"),
        ("priority", 5.0, "wrong_type"),
        ("timeout_seconds", 0, "out_of_range"),
        ("timeout_seconds", 604_801, "out_of_range"),
        ("timeout_seconds", float("nan"), "out_of_range"),
        ("timeout_seconds", float("inf"), "out_of_range"),
        ("timeout_seconds", 10**400, "out_of_range"),
        ("timeout_seconds", 1.0005, "too_fine"),
        ("timeout_seconds", "60", "wrong_type"),
        ("retries", -1, "out_of_range"),
        ("retries", 101, "out_of_range"),
        ("retry_delay_seconds", 86_401, "out_of_range"),
        ("retry_backoff", "linear", "not_one_of"),
        ("retry_on_lost", "yes", "wrong_type"),
        ("retry_jitter", 1.5, "out_of_range"),
        ("retry_jitter", float("nan"), "out_of_range"),
        ("retry_jitter", True, "wrong_type"),
        ("retry_on", "failed", "wrong_type"),
        ("retry_on", ["lost"], "not_one_of"),
        ("retry_on", [["failed"]], "not_one_of"),
        ("start_within_seconds", 0.5, "out_of_range"),
        ("start_within_seconds", 604_801, "out_of_range"),
        ("blocking", "covers", "not_one_of"),
        ("shards", 4, "does_not_apply"),
        ("concurrency", 2, "does_not_apply"),
        ("concurrency", 1, "does_not_apply"),
        ("max_waiting", 2, "does_not_apply"),
        ("when_cut_off", "stop", "does_not_apply"),
        ("hold_lost_seconds", 60, "does_not_apply"),
        ("children", "7", "wrong_type"),
        ("children", [{"job": n} for n in range(1, 22)], "too_many"),
        ("triggers", {}, "wrong_type"),
        ("triggers", [{}] * 51, "too_many"),
    ],
)
def test_limits(field: str, value: object, code: str | None) -> None:
    found = problems({**MINIMAL, field: value})
    if code is None:  # too long each: named one by one
        assert [p.field for p in found] == [f"{field}[{n}]" for n in range(3)]
    else:
        assert [(p.field, p.code) for p in found] == [(field, code)]


def test_the_longest_delay_is_not_shorter_than_the_first() -> None:
    assert parse_job({**MINIMAL, "retry_delay_seconds": 7_200}).retry.max_delay_ms == 7_200_000
    assert parse_job({**MINIMAL, "retry_max_delay_seconds": 3}).retry.delay_ms == 3_000
    found = problems({**MINIMAL, "retry_delay_seconds": 20, "retry_max_delay_seconds": 10})
    assert [p.field for p in found] == ["retry_max_delay_seconds"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"routing": "shards"}, [("shards", "required")]),
        ({"routing": "shards", "shards": 1_001}, [("shards", "out_of_range")]),
        ({"routing": "broadcast", "shards": 2}, [("shards", "does_not_apply")]),
        ({"routing": "pinned"}, [("nodes", "required")]),
        ({"routing": "pinned", "nodes": []}, [("nodes", "required")]),
        ({"routing": "first", "nodes": ["a"]}, [("nodes", "does_not_apply")]),
        ({"routing": "failover", "nodes": "a"}, [("nodes", "wrong_type")]),
        ({"routing": "failover", "nodes": ["a"] * 51}, [("nodes", "too_many")]),
        (
            {"routing": "failover", "nodes": ["a", "", 1, "x" * 201, "a\nb"]},
            [(f"nodes[{n}]", "node.invalid") for n in range(1, 5)],
        ),
        ({"selector": "zone=eu gpu"}, [("selector", "selector.invalid")]),
        ({"selector": "a" * 1_001}, [("selector", "too_long")]),
        ({"selector": "a in(b,c)," + "x" * 990}, [("selector", "selector.invalid")]),
        ({"hash_by": "customer"}, [("hash_by", "does_not_apply")]),
        ({"blocking": "serial", "concurrency": 1_001}, [("concurrency", "out_of_range")]),
        ({"blocking": "serial", "max_waiting": 100_001}, [("max_waiting", "out_of_range")]),
        ({"blocking": "serial", "hold_lost_seconds": 14}, [("hold_lost_seconds", "out_of_range")]),
        ({"blocking": "cover_early", "max_waiting": 1}, [("max_waiting", "does_not_apply")]),
        ({"blocking": "serial", "when_cut_off": "go_on"}, [("when_cut_off", "not_one_of")]),
        ({"retries": 1, "retry_on": [], "retry_on_lost": False}, [("retry_on", "required")]),
        (
            {"children": [{"job": 1}, {"on": "success"}, {"job": 1, "on": "failure"}, 5]},
            [
                ("children[1].job", "required"),
                ("children[2].job", "duplicate"),
                ("children[3]", "wrong_type"),
            ],
        ),
        (
            {"children": [{"job": 1, "on": "end"}, {"job": 0, "when": "always"}]},
            [
                ("children[0].on", "not_one_of"),
                ("children[1].when", "unknown_field"),
                ("children[1].job", "out_of_range"),
            ],
        ),
    ],
)
def test_rules_that_hang_together(changes: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert [(p.field, p.code) for p in problems({**MINIMAL, **changes})] == expected


def test_retries_after_lost_tries_only_need_no_other_end() -> None:
    retry = parse_job({**MINIMAL, "retries": 1, "retry_on": []}).retry
    assert (retry.outcomes, retry.on_lost) == ((), True)
    assert parse_job({**MINIMAL, "retry_on": ["timed_out", "failed"]}).retry == RetryPolicy()


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"kind": "cron"}, "t.expression"),
        ({"kind": "fixed_delay"}, "t.every_seconds"),
        ({"kind": "fixed_delay", "every_seconds": 0.05}, "t.every_seconds"),
        ({"kind": "fixed_delay", "every_seconds": 1, "misfire": "skip"}, "t.misfire"),
        ({"kind": "fixed_rate", "every_seconds": 1, "catch_up_limit": 5}, "t.catch_up_limit"),
        (
            {"kind": "fixed_rate", "every_seconds": 1, "misfire": "fire_all", "catch_up_limit": 0},
            "t.catch_up_limit",
        ),
        (
            {"kind": "fixed_rate", "every_seconds": 1, "misfire_threshold_seconds": 0.5},
            "t.misfire_threshold_seconds",
        ),
        ({"kind": "cron", "expression": "0 0 30 2 *"}, "t.expression"),
        ({"kind": "cron", "expression": "0 9 * * *", "timezone": "Mars/Base"}, "t.timezone"),
        ({"kind": "cron", "expression": "0 9 * * *", "timezone": "../etc/passwd"}, "t.timezone"),
        ({"kind": "cron", "expression": "0 9 * * *", "dialect": "quartz"}, "t.expression"),
        ({"kind": "cron", "expression": "0 9 * * *", "dialect": "cronos"}, "t.dialect"),
        ({"kind": "cron", "expression": "0 0 9 * * 1"}, "t.dialect"),
        ({"kind": "cron", "expression": "٠ 9 * * *"}, "t.expression"),
        ({"kind": "fixed_rate", "every_seconds": 0.05}, "t.every_seconds"),
        ({"kind": "fixed_rate", "every_seconds": 1, "at": "x"}, "t.at"),
        ({"kind": "fixed_rate", "every_seconds": 1, "anchor_at": -1}, "t.anchor_at"),
        ({"kind": "once"}, "t.at"),
        ({"kind": "once", "at": "2026-03-01T09:00:00"}, "t.at"),
        ({"kind": "once", "at": "tomorrow"}, "t.at"),
        ({"kind": "once", "at": "９999-01-01T00:00:00Z"}, "t.at"),
        ({"kind": "once", "at": 10**20}, "t.at"),
        ({"kind": "once", "at": "2030-01-01T00:00:00Z", "every_seconds": 5}, "t.every_seconds"),
        ({"kind": "fixed_rate", "every_seconds": 1, "gap": "fire"}, "t.gap"),
        ({**RATE, "kind": "fixed_delay", "initial_delay_seconds": -1}, "t.initial_delay_seconds"),
        ({**RATE, "start_at": 2_000, "end_at": 1_000}, "t.end_at"),
        ({**RATE, "start_at": "2026-01-01"}, "t.start_at"),
        ({**RATE, "repeat_count": 0}, "t.repeat_count"),
        ({**RATE, "repeat_count": 1_000_001}, "t.repeat_count"),
        ({**RATE, "calendar": "x" * 101}, "t.calendar"),
        ({**RATE, "calendar": "a\nb"}, "t.calendar"),
        ({**RATE, "jitter_seconds": 3_600.001}, "t.jitter_seconds"),
        ({**RATE, "jitter_seconds": -1}, "t.jitter_seconds"),
        ({**RATE, "priority": 10}, "t.priority"),
        ({**RATE, "parameters": [1]}, "t.parameters"),
        ({**RATE, "parameters": {"x": "y" * 70_000}}, "t.parameters"),
        ({**RATE, "timezone": "Mars/Base"}, "t.timezone"),
        ({**RATE, "timezone": "x" * 101}, "t.timezone"),
        ({"kind": "cron", "expression": "0 9 * * *", "gap": "jump"}, "t.gap"),
        ({"kind": "cron", "expression": "0 9 * * *", "overlap": "third"}, "t.overlap"),
        ({"kind": "cron", "expression": "0 9 * * *", "end_at": 1_000}, "t.end_at"),
        ({"kind": "cron", "expression": "0 9" + " " * 500 + "1 1 *"}, "t.expression"),
        ({"kind": "calendar_interval", "start_date": "2026-01-31"}, "t.unit"),
        ({"kind": "calendar_interval", "unit": "month"}, "t.start_date"),
        ({**MONTHLY, "unit": "months"}, "t.unit"),
        ({**MONTHLY, "every": 0}, "t.every"),
        ({**MONTHLY, "every": 1_001}, "t.every"),
        ({**MONTHLY, "start_date": "2026-02-30"}, "t.start_date"),
        ({**MONTHLY, "start_date": 20260131}, "t.start_date"),
        ({**MONTHLY, "at_time": "24:00"}, "t.at_time"),
        ({**MONTHLY, "at_time": 930}, "t.at_time"),
        ({**MONTHLY, "timezone": "Mars/Base"}, "t.timezone"),
        ({**MONTHLY, "every_seconds": 5}, "t.every_seconds"),
        ({"kind": "daily_window"}, "t.every_seconds"),
        ({**WINDOW, "every_seconds": 0.5}, "t.every_seconds"),
        ({**WINDOW, "every_seconds": 1.5}, "t.every_seconds"),
        ({**WINDOW, "every_seconds": 86_401}, "t.every_seconds"),
        ({**WINDOW, "from_time": "18:00", "to_time": "09:00"}, "t.to_time"),
        ({**WINDOW, "from_time": "9"}, "t.from_time"),
        ({**WINDOW, "weekdays": []}, "t.weekdays"),
        ({**WINDOW, "weekdays": ["Mon"]}, "t.weekdays[0]"),
        ({**WINDOW, "weekdays": [1]}, "t.weekdays[0]"),
        ({**WINDOW, "weekdays": "mon"}, "t.weekdays"),
        ({}, "t.kind"),
        (None, "t"),
    ],
)
def test_trigger_problems_name_their_field(raw: object, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_trigger(raw, "t")
    assert [p.field for p in caught.value.problems] == [field]


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        (
            {"kind": "cron", "expression": "61 * * * *", "timezone": "Mars/Base"},
            ["expression", "timezone"],
        ),
        (
            {"kind": "cron", "expression": "61 * * * *", "start_at": 2_000, "end_at": 1_000},
            ["end_at", "expression"],
        ),
        (
            {**WINDOW, "from_time": "18:00", "to_time": "09:00", "timezone": "Mars/Base"},
            ["timezone", "to_time"],
        ),
        ({**RATE, "priority": 10, "timezone": "Mars/Base"}, ["priority", "timezone"]),
        (
            {"kind": "cron", "expression": "61 * * * *", "misfire": "never"},
            ["expression", "misfire"],
        ),
        # What it means depends on the dialect, which is not known.
        ({"kind": "cron", "expression": "0 0 9 * * ?", "dialect": "linux"}, ["dialect"]),
        ({"kind": "cron", "timezone": "Mars/Base"}, ["expression", "timezone"]),
    ],
)
def test_a_trigger_tells_all_of_its_problems_at_once(
    raw: dict[str, object], fields: list[str]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_trigger(raw)
    assert sorted(p.field for p in caught.value.problems) == fields


def test_an_unknown_field_of_a_trigger_is_told_with_each_known_one_once() -> None:
    raw = {**RATE, "colour": "red", "priority": 1, "expression": None}
    with pytest.raises(InvalidInput) as caught:
        parse_trigger(raw)
    known = caught.value.problems[0].message.rsplit("known are ", 1)[1].rstrip(".").split(", ")
    assert known == list(TRIGGER_FIELDS["fixed_rate"])


def test_what_another_kind_has_is_refused_with_the_field_that_is_meant() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_trigger({"kind": "fixed_rate", "every": 5, "every_seconds": 5, "unit": None})
    (problem,) = caught.value.problems
    assert (problem.field, problem.code) == ("every", "does_not_apply")
    assert "did you mean “every_seconds”?" in problem.message


def test_kinds_have_their_defaults() -> None:
    monthly = parse_trigger(MONTHLY)
    assert (monthly.every, monthly.at_time, monthly.timezone) == (1, "00:00:00", "UTC")
    window = parse_trigger({**WINDOW, "weekdays": ["sun", "sat", "sun"]})
    assert (window.from_time, window.to_time) == ("00:00:00", "23:59:59")
    assert window.weekdays == (6, 7)
    everyday = parse_trigger(
        {**WINDOW, "weekdays": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}
    )
    assert everyday == parse_trigger(WINDOW)
    assert parse_trigger({**RATE, "parameters": {}}) == parse_trigger(RATE)


@pytest.mark.parametrize(
    ("expression", "dialect"),
    [("0 9 * * *", "unix"), ("@daily", "unix"), ("0 0 9 * * ?", "quartz")],
)
def test_a_dialect_is_needed_only_where_there_are_two(expression: str, dialect: str) -> None:
    raw = {"kind": "cron", "expression": expression}
    assert parse_trigger({**raw, "dialect": dialect}).dialect == dialect
    if dialect == "unix":
        assert parse_trigger(raw).dialect == "unix"


def test_a_stored_trigger_says_only_what_differs() -> None:
    assert spec_to_json(parse_trigger(RATE)) == '{"kind":"fixed_rate","every_ms":1000}'
    for raw in FULL["triggers"]:
        spec = parse_trigger(raw)
        assert spec_from_json(spec_to_json(spec)) == spec
        assert trigger_to_raw(spec) == raw


def test_a_trigger_that_was_stored_with_fewer_fields_can_be_read() -> None:
    old = (
        '{"kind":"cron","expression":"0 9 * * *","dialect":"unix","timezone":"UTC","every_ms":null,'
        '"anchor_at":null,"at":null,"misfire":"fire_once","misfire_threshold_ms":5000,'
        '"catch_up_limit":1000}'
    )
    spec = spec_from_json(old)
    assert spec == parse_trigger({"kind": "cron", "expression": "0 9 * * *"})
    assert (spec.gap, spec.overlap) == (Gap.FIRE, Overlap.AUTO)


def test_instants_in_any_offset_and_as_milliseconds_are_the_same() -> None:
    specs = {
        parse_trigger({"kind": "once", "at": at})
        for at in ("2026-03-01T09:00:00+01:00", "2026-03-01T08:00:00Z", 1_772_352_000_000)
    }
    assert len(specs) == 1


def test_a_doubled_trigger_would_fire_twice_and_is_refused() -> None:
    twice = [{"kind": "cron", "expression": "0 9 * * *"}] * 2
    found = problems({**MINIMAL, "triggers": twice})
    assert [(p.field, p.code) for p in found] == [("triggers[1]", "duplicate")]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "json.invalid"),
        ("[]", "json.not_an_object"),
        ('{"a": NaN}', "json.invalid"),
        ('{"a": 1, "a": 2}', "json.doubled_key"),
        ("{'a': 1}", "json.invalid"),
        ('{"a":' * 100_000, "json.too_large"),
        ('{"a":' * 10_000, "json.too_deep"),
        ('{"a":' * 101 + "1" + "}" * 101, "json.too_deep"),
        ('{"a": ' + "9" * 5_000 + "}", "json.huge_number"),
        ('{"a": ' + "9" * 309 + "}", "json.huge_number"),
        ('{"a": [{"b": -1E+999}]}', "json.huge_number"),
        ('{"a": "\\ud800"}', "json.invalid"),
    ],
)
def test_typed_parameters_are_refused_with_a_reason(text: str, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_parameters(text, field="input")
    assert [(p.field, p.code) for p in caught.value.problems] == [("input", code)]


def test_a_revision_of_an_older_version_still_reads() -> None:
    assert config_from_json('{"name": "a", "handler": "b"}') == JobConfig(name="a", handler="b")


def problems(raw: dict[str, Any]) -> tuple[Problem, ...]:
    with pytest.raises(InvalidInput) as caught:
        parse_job(raw)
    return caught.value.problems


@pytest.mark.parametrize(
    ("alarm", "field", "code"),
    [
        ("failed", "alarms[0]", "wrong_type"),
        ({}, "alarms[0].kind", "required"),
        ({"kind": "no_nodes"}, "alarms[0].kind", "not_one_of"),
        ({"kind": "failed", "chanels": ["ops"]}, "alarms[0].chanels", "unknown_field"),
        ({"kind": "failed", "scope": "job"}, "alarms[0].scope", "unknown_field"),
        ({"kind": "failed", "channels": [5]}, "alarms[0].channels[0]", "entry.invalid"),
        ({"kind": "failed", "limits": {"count": 3}}, "alarms[0].limits.count", "does_not_apply"),
        ({"kind": "deadline_missed"}, "alarms[0].limits.by", "required"),
        ({"kind": "failed", "escalate_to": ["x"]}, "alarms[0].escalate_after_seconds", "required"),
        ({"kind": "failed", "own_text": "{{ x"}, "alarms[0].own_text", "own_text.invalid"),
    ],
)
def test_alarms_that_break_a_rule_are_refused_at_their_field(
    alarm: Any, field: str, code: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_job(MINIMAL | {"alarms": [alarm]})
    assert (field, code) in [(each.field, each.code) for each in caught.value.problems]


def test_alarms_are_named_after_their_kind_unless_they_say_otherwise() -> None:
    one, other = {"kind": "failed"}, {"kind": "failed", "channels": ["ops"]}
    assert [each.name for each in parse_job(MINIMAL | {"alarms": [one]}).alarms] == ["failed"]
    with pytest.raises(InvalidInput) as caught:
        parse_job(MINIMAL | {"alarms": [one, other]})
    (problem,) = caught.value.problems
    assert (problem.field, problem.code) == ("alarms[1].name", "duplicate")
    parse_job(MINIMAL | {"alarms": [one, other | {"name": "to ops"}]})
