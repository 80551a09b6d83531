"""Small situations to forecast from."""

from __future__ import annotations

from typing import Any

from tickwheel_admin.domain.executors.node import Node, NodeState
from tickwheel_admin.domain.forecast.situation import (
    ForecastJob,
    ForecastSituation,
    ForecastTrigger,
    MeasuredRun,
)
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.triggers.kinds import AnySpec
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.schedule import parse

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW = 1_800_000_000_000 - 1_800_000_000_000 % DAY_MS  # midnight, UTC


def node(number: int = 1, *, slots: int = 2, **changes: Any) -> Node:
    values: dict[str, Any] = {
        "id": number,
        "executor_id": 1,
        "name": f"node-{number}",
        "state": NodeState.LIVE,
        "draining": False,
        "cordoned": False,
        "drain_wanted": False,
        "slots": slots,
        "in_use": 0,
        "handlers": frozenset({"hello"}),
        "unstoppable": frozenset(),
        "labels": {},
        "sdk": "test/1",
        "address": "",
        "connected_at": 0,
        "lease_expires_at": 0,
        "full_lease_at": 0,
        "ended_at": None,
    }
    return Node(**(values | changes))


def cron(expression: str, **changes: Any) -> CronSpec:
    return CronSpec(expression=expression, **changes)


def job(
    number: int,
    *specs: AnySpec,
    lasts_ms: int = 60_000,
    measured: tuple[MeasuredRun, ...] | None = None,
    **config: Any,
) -> ForecastJob:
    values: dict[str, Any] = {"name": f"job-{number}", "handler": "hello", "triggers": specs}
    triggers = tuple(
        ForecastTrigger(
            id=number * 100 + place,
            spec=spec,
            saved_at=NOW - 1,
            next_fire_at=parse(spec, saved_at=NOW - 1).next_after(NOW),
        )
        for place, spec in enumerate(specs)
    )
    if measured is None:
        measured = (MeasuredRun(RunState.SUCCEEDED, lasts_ms, 1),)
    return ForecastJob(
        id=number,
        executor_id=1,
        revision=1,
        config=JobConfig(**(values | config)),
        triggers=triggers,
        measured=measured,
        measured_since=NOW - DAY_MS if measured else None,
    )


def situation(
    *jobs: ForecastJob, nodes: tuple[Node, ...] = (node(),), **changes: Any
) -> ForecastSituation:
    return ForecastSituation(now=NOW, jobs=jobs, nodes=nodes, **changes)
