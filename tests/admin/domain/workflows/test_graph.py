"""Graphs as revisions keep them, and what they answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tickwheel_admin.domain.input.job import config_from_json, config_to_json
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.script import Script, sha256_of
from tickwheel_admin.domain.workflows.graph import (
    HANDLER,
    Approval,
    ForEach,
    HandlerStep,
    InlineJob,
    JobStep,
    Need,
    NeedOutcome,
    ScriptStep,
    Silence,
    Step,
    StepRules,
    SubWorkflow,
    Tolerance,
    Wait,
    Workflow,
)

SOURCE = "echo done"
RULES = StepRules(
    routing=RoutingPolicy(strategy=Routing.LEAST_BUSY),
    retry=RetryPolicy(retries=2),
    timeout_ms=60_000,
    priority=2,
)
GRAPH = Workflow(
    steps=(
        Step(key="extract", body=JobStep(job_id=7), parameters='{"month":"${parameters.month}"}'),
        Step(
            key="convert",
            body=HandlerStep(handler="convert", executor_id=3, rules=RULES),
            needs=(Need(step="extract"),),
            when="size(steps.extract.result.files) > 0",
            for_each=ForEach(
                items='"${steps.extract.result.files}"',
                max_parallel=20,
                tolerance=Tolerance(percent=5.0),
            ),
        ),
        Step(
            key="clean",
            body=ScriptStep(script=Script(language="shell", sha256=sha256_of(SOURCE))),
            needs=(Need(step="convert", outcome=NeedOutcome.ENDED),),
        ),
        Step(
            key="ask",
            body=Approval(people=("ada",), deadline_ms=3_600_000, silence=Silence.APPROVE),
            needs=(Need(step="clean"), Need(step="convert", outcome=NeedOutcome.FAILED)),
        ),
        Step(key="rest", body=Wait(duration_ms=5_000), pause_before=True, description="Settle."),
        Step(key="night", body=Wait(until="${run.scheduled_at}")),
        Step(key="close", body=SubWorkflow(job_id=9)),
    ),
    output="close",
    inline=(
        InlineJob(step="convert", job_id=11, revision=2),
        InlineJob(step="clean", job_id=12, revision=1),
    ),
)


def config_of(workflow: Workflow) -> JobConfig:
    return JobConfig(name="month-end", handler=HANDLER, workflow=workflow)


def test_a_revision_keeps_every_kind_of_step() -> None:
    config = config_of(GRAPH)
    kept = config_from_json(config_to_json(config))
    assert kept == config
    assert kept.workflow is not None
    assert kept.workflow.inline == GRAPH.inline


def test_the_source_of_a_script_is_not_kept_with_the_revision() -> None:
    script = Script(language="shell", sha256=sha256_of(SOURCE), source=SOURCE)
    graph = Workflow(steps=(Step(key="clean", body=ScriptStep(script=script)),))
    assert SOURCE not in config_to_json(config_of(graph))


def test_a_job_without_a_workflow_is_stored_as_before() -> None:
    assert config_from_json('{"name":"a","handler":"b"}').workflow is None


def test_the_run_of_a_workflow_has_no_node() -> None:
    config = config_of(GRAPH)
    sharded = replace(
        config, workflow=None, routing=RoutingPolicy(strategy=Routing.SHARDS, shards=3)
    )
    assert [
        each.shard_index for each in (config, sharded, replace(sharded, routing=RoutingPolicy()))
    ] == [-2, -1, 0]


@pytest.mark.parametrize(
    ("key", "job"),
    [("extract", (7, None)), ("convert", (11, 2)), ("clean", (12, 1)), ("close", (9, None))],
)
def test_each_step_knows_its_job(key: str, job: tuple[int, int | None]) -> None:
    assert GRAPH.job_of(key) == job


def test_approvals_and_waits_run_no_job() -> None:
    assert [GRAPH.job_of(key) for key in ("ask", "rest", "night")] == [None] * 3


@pytest.mark.parametrize(
    ("tolerance", "failed", "of", "allows"),
    [
        (Tolerance(), 0, 10, True),
        (Tolerance(), 1, 10, False),
        (Tolerance(count=2), 2, 10, True),
        (Tolerance(count=2), 3, 10, False),
        (Tolerance(percent=10), 1, 10, True),
        (Tolerance(percent=10), 2, 19, False),
        (Tolerance(percent=100), 10, 10, True),
        (Tolerance(percent=0), 0, 0, True),
    ],
)
def test_tolerance(tolerance: Tolerance, failed: int, of: int, allows: bool) -> None:
    assert tolerance.allows(failed, of) is allows
