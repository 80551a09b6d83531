"""What an export wrote changes nothing when it is applied, whatever was stored."""

from __future__ import annotations

import asyncio
from typing import Any

import jsonschema_rs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.admin.kit.services import ADMIN, World
from tickwheel_admin.api.gitops.schema import schema_of_documents
from tickwheel_admin.services.gitops.export import ExportChoice
from tickwheel_admin.services.jobs.yaml_reader import read_yaml
from tickwheel_admin.services.jobs.yaml_writer import write_yaml

_TEXT = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), max_size=12)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_TRIGGERS = st.sampled_from(
    [
        {"kind": "cron", "expression": "0 9 * * 1-5", "timezone": "Europe/Berlin"},
        {"kind": "fixed_rate", "every_seconds": 90.5, "jitter_seconds": 2},
        {"kind": "fixed_delay", "every_seconds": 60},
        {"kind": "cron", "expression": "0 0 3 * * ?", "dialect": "quartz", "priority": 2},
        {"kind": "once", "at": "2100-01-01T00:00:00Z", "parameters": {"a": None, "b": ""}},
    ]
)
_JOBS = st.fixed_dictionaries(
    {"handler": st.just("send-invoices")},
    optional={
        "description": _TEXT,
        "owner": _TEXT,
        "tags": st.lists(st.sampled_from(["a", "b", "7", "yes"]), max_size=3),
        "parameters": st.dictionaries(_TEXT, _JSON, max_size=4),
        "priority": st.integers(1, 9),
        "retries": st.integers(0, 9),
        "retry_jitter": st.sampled_from([0, 0.5, 1]),
        "timeout_seconds": st.sampled_from([1, 2.5, 600]),
        "triggers": st.lists(_TRIGGERS, max_size=3, unique_by=str),
        "blocking": st.sampled_from(["parallel", "serial", "discard_later"]),
        "selector": st.just("zone=eu,gpu"),
        "children": st.just([{"job": "first", "on": "always"}]),
        "alarms": st.just([{"kind": "slow", "limits": {"factor": 2}, "tell_recovery": False}]),
    },
)
_WORKFLOW = {
    "steps": [
        {"key": "a", "job": "first"},
        {"key": "b", "handler": "send-invoices", "needs": ["a"], "parameters": {"x": ""}},
        {"key": "c", "approval": {"message": "Go on?"}, "needs": ["b"]},
        {"key": "d", "job": {"executor": "other", "name": "far"}, "needs": ["c"]},
    ]
}
_CRON = {"expression": "0 3 * * *", "dialect": "unix"}
_WINDOW = {"from_time": "08:30", "to_time": "17:00"}


async def exported(world: World) -> list[dict[str, Any]]:
    parts = world.gitops.export(ADMIN, ExportChoice())
    return [dict(each) async for part in parts for each in part]


async def check(world: World) -> None:
    documents = await exported(world)
    validator = jsonschema_rs.validator_for(schema_of_documents())
    for each in documents:
        assert list(validator.iter_errors(each)) == []
    read = [read_yaml(write_yaml(each)).value for each in documents]
    plan = await world.gitops.plan(ADMIN, read, owner=None)
    assert ([str(each) for each in plan.problems], list(plan.changes)) == ([], [])
    assert plan.unchanged == len(documents) >= 3


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(jobs=st.lists(_JOBS, min_size=1, max_size=4))
def test_an_export_changes_nothing_when_it_is_applied(
    world: World, jobs: list[dict[str, Any]]
) -> None:
    documents = [
        {"type": "executor", "name": "billing"},
        {"executor": "billing", "name": "first", "handler": "send-invoices"},
        *({"executor": "billing", "name": f"job {n}", **each} for n, each in enumerate(jobs)),
    ]
    asyncio.run(_applied_and_checked(world, documents))


async def test_workflows_and_executors_of_every_kind_come_back(world: World) -> None:
    documents = [
        {"type": "executor", "name": "billing", "description": "x\ny", "code_jobs": "ask"},
        {"type": "executor", "name": "other", "scripts": False},
        {"executor": "other", "name": "far", "handler": "h"},
        {"executor": "billing", "name": "first", "handler": "send-invoices"},
        {"executor": "billing", "name": "flow", "workflow": _WORKFLOW},
        {"type": "calendar", "name": "b", "base": "a", "weekdays": ["sat"], "cron": [_CRON]},
        {"type": "calendar", "name": "a", "yearly": ["12-25"], "windows": [_WINDOW]},
        {"type": "pool", "name": "all", "slots": 0},
        {"type": "pool", "name": "own", "executor": "billing", "slots": 7},
        {"executor": "billing", "name": "user", "handler": "send-invoices", "pool": "own"},
        {"type": "alarm_rule", "name": "r1", "kind": "failed"},
        {
            "type": "alarm_rule",
            "name": "r2",
            "kind": "slow",
            "scope": "executor",
            "executor": "billing",
            "limits": {"factor": 2},
            "quiet": {"calendar": "a"},
        },
        {"type": "alarm_rule", "name": "r3", "kind": "failed", "scope": "tag", "tag": "x"},
    ]
    await _applied_and_checked(world, documents)


async def _applied_and_checked(world: World, documents: list[dict[str, Any]]) -> None:
    plan = await world.gitops.plan(ADMIN, documents, owner=None)
    assert [f"{each.field}: {each.message}" for each in plan.problems] == []
    await world.gitops.apply(ADMIN, documents, owner=None, fingerprint=plan.fingerprint)
    again = await world.gitops.plan(ADMIN, documents, owner=None)
    assert list(again.changes) == []
    await check(world)
