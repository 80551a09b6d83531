"""Workflows declared in code: the same form as YAML, and every problem told before the start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from tests.executor_sdk.scripted_admin import TOKEN
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.job import JOB_FIELDS as API_JOB_FIELDS
from tickwheel_admin.domain.input.job import job_to_raw, parse_job
from tickwheel_admin.domain.input.routing import ROUTING_FIELDS
from tickwheel_admin.domain.input.run_rules import POOL_FIELDS, RETRY_FIELDS
from tickwheel_admin.domain.input.workflow_bodies import BODY_FIELDS
from tickwheel_admin.domain.input.workflow_steps import STEP_FIELDS as API_STEP_FIELDS
from tickwheel_executor import Executor, HandlerError, Workflow
from tickwheel_executor.handlers.job_fields import WORKFLOW_FIELDS
from tickwheel_executor.workflows.step_fields import OWN_RUN_FIELDS, RULES


def an_executor() -> Executor:
    executor = Executor("warehouse", admins=["http://x"], token=TOKEN)
    executor.handler("extract")(extract)
    executor.handler("load")(load)
    return executor


def extract(day: str) -> dict[str, list[str]]:
    return {"files": [day]}


def load(file: str, tries: int = 1) -> int:
    return len(file) * tries


def declared(executor: Executor) -> dict[str, Any]:
    (job,) = executor.declared_jobs
    return job


def problems(executor: Executor) -> list[str]:
    with pytest.raises(HandlerError) as refused:
        executor.handlers.close()
    return [line.partition(": ")[2] for line in str(refused.value).splitlines()]


IN_YAML = """
name: load-orders
timeout_seconds: 7200
triggers: [{kind: cron, expression: 0 3 * * *, timezone: Asia/Shanghai}]
workflow:
  output: load
  steps:
    - key: extract
      handler: extract
      parameters: {day: "${parameters.day}"}
      timeout_seconds: 90
      retries: 2
      retry_delay_seconds: 1.5
      routing: least_busy
      selector: zone=eu
      priority: 7
    - key: load
      handler: load
      needs: [extract]
      when: size(steps.extract.result.files) > 0
      for_each: {items: "${steps.extract.result.files}", max_parallel: 2, tolerate: 5%}
      parameters: {file: "${item}"}
      pause_before: true
      description: Loads each file.
    - key: remote
      handler: move
      executor: "3"
      needs: [load]
      for_each: [{name: a}, {name: b}]
      parameters: {text: "Order ${item.name}, number ${item_index} of ${run.id}"}
    - key: spread
      handler: extract
      spawn: {max_parallel: 4, tolerate: all}
      parameters: {day: monday}
    - key: old
      job: 12
      needs: [{step: load, outcome: ended}]
    - key: inner
      workflow: 13
      needs: [{step: load, outcome: skipped}]
      parameters: {at: "${run.scheduled_at}"}
    - key: tidy
      script: {language: shell, source: "echo done"}
      needs: [{step: load, outcome: failed}]
    - key: cool
      wait: {seconds: 5400}
    - key: until
      wait: {until: "2026-03-01T09:00:00+00:00"}
    - key: from
      wait: {until: "${parameters.from}"}
    - key: sign
      approval: {people: [ada], roles: [operator], deadline_seconds: 3600, silence: approve, message: "Now?"}
      needs: [cool, until, from]
"""  # noqa: E501 - as people write it


def test_what_code_says_is_what_yaml_says() -> None:
    executor = an_executor()
    wf = executor.workflow(
        "load-orders",
        cron="0 3 * * *",
        timezone="Asia/Shanghai",
        timeout_seconds=timedelta(hours=2),
    )
    first = wf.step(
        "extract",
        extract,
        parameters={"day": wf.parameters["day"]},
        timeout_seconds=90,
        retries=2,
        retry_delay_seconds=timedelta(milliseconds=1500),
        routing="least_busy",
        selector="zone=eu",
        priority=7,
    )
    files = first.result["files"]
    loaded = wf.step(
        "load",
        load,
        needs=[first],
        when=f"size({files.path}) > 0",
        for_each=files,
        max_parallel=2,
        tolerate="5%",
        parameters={"file": wf.item},
        pause_before=True,
        description="Loads each file.",
        output=True,
    )
    wf.step(
        "remote",
        "move",
        executor="3",
        needs=["load"],
        for_each=[{"name": "a"}, {"name": "b"}],
        parameters={"text": f"Order {wf.item['name']}, number {wf.item_index} of {wf.run_id}"},
    )
    wf.step("spread", extract, max_parallel=4, tolerate="all", parameters={"day": "monday"})
    wf.job("old", "twelve", needs=[loaded.ended])
    wf.workflow("inner", "thirteen", needs=[loaded.skipped], parameters={"at": wf.scheduled_at})
    wf.script("tidy", "shell", "echo done", needs=[loaded.failed])
    cool = wf.wait("cool", minutes=30, hours=1)
    until = wf.wait("until", until=datetime(2026, 3, 1, 9, tzinfo=UTC))
    at = wf.wait("from", until=wf.parameters["from"])
    wf.approval(
        "sign",
        people=["ada"],
        roles=["operator"],
        deadline_seconds=timedelta(hours=1),
        silence="approve",
        message="Now?",
        needs=[cool, until, at],
    )
    executor.handlers.close()
    said = declared(executor)
    ids = {"3": 3, "twelve": 12, "thirteen": 13}  # the admin looks names up before it reads them
    written = yaml.safe_load(IN_YAML)
    for step in (*said["workflow"]["steps"], *written["workflow"]["steps"]):
        for name in ("executor", "job", "workflow"):
            step |= {name: ids.get(step[name], step[name])} if name in step else {}
    assert parse_job(said) == parse_job(written)
    assert job_to_raw(parse_job(said)) == job_to_raw(parse_job(written))


def test_the_fields_are_those_of_the_api() -> None:
    of_steps = set(API_STEP_FIELDS) - {"key", "job", "handler", "script", "workflow", "spawn"}
    of_for_each = {"max_parallel", "tolerate"}
    assert set(OWN_RUN_FIELDS) - of_for_each - {"output"} == of_steps - {"approval", "wait"}
    assert set(RULES) == set(BODY_FIELDS) - {"executor"}
    of_jobs = set(API_JOB_FIELDS) - {"name", "handler", "script", "workflow"}
    assert of_jobs - {*ROUTING_FIELDS, *RETRY_FIELDS, *POOL_FIELDS} <= set(WORKFLOW_FIELDS)


def test_jobs_of_other_executors_are_named_with_these() -> None:
    executor = an_executor()
    wf = executor.workflow("all")
    wf.job("bill", "bill", executor="billing")
    assert declared(executor)["workflow"]["steps"] == [
        {"key": "bill", "job": {"executor": "billing", "name": "bill"}}
    ]


def test_a_workflow_comes_after_those_that_it_runs() -> None:
    executor = an_executor()
    outer = executor.workflow("outer")
    inner = executor.workflow("inner")
    outer.workflow("first", inner)
    inner.step("extract", extract, parameters={"day": "monday"})
    executor.job("plain", handler="extract", parameters={"day": "friday"})
    assert [job["name"] for job in executor.declared_jobs] == ["plain", "inner", "outer"]


def test_every_problem_is_told_at_once() -> None:
    executor = an_executor()
    wf = executor.workflow("wrong")
    first = wf.step("extract", extract, parameters={"dya": 1})
    wf.step("extract", load, parameters={"file": 7, "tries": wf.parameters["tries"]})
    wf.step("Load", "lode", needs=["extrct"])
    wf.step("other", an_executor)
    wf.job("x", "job", needs=[first], parameters={"rows": "${steps.lost.result}", "i": wf.item})
    wf.step("y", "load", when="size(", retrys=1)  # type: ignore[call-arg]
    wf.wait("z", needs=[wf.step("late", extract, parameters={"day": "${day}"}, max_parallel=0)])
    wf.job("early", "job", parameters={"rows": first.result}, for_each="nothing")
    told = problems(executor)
    for expected in (
        "step 'extract' is there twice; give one of them another key",
        "step 'extract': parameters: dya: the handler takes no such parameter; did you mean 'day'?",
        "step 'extract': parameters: day: is required",
        "step 'extract': parameters: file: expected str, got int",
        "step 'Load': no handler 'lode' on this node (did you mean 'load'?); it has: extract, load",
        "step 'Load': it needs 'extrct', which is no step; did you mean 'extract'?",
        "step 'other': an_executor is no handler of this executor: decorate it with handler()",
        "step 'x': parameters: steps.lost.result names 'lost', which is no step of this workflow",
        "step 'x': parameters: item is there in the parameters of a step with for_each only",
        "step 'y': when: column 6: a value was expected here, in 'size('",
        "step 'y' has no field 'retrys'; did you mean 'retries'?",
        "step 'z': a wait has either a time (seconds, minutes, hours, days) or until",
        "step 'late': “${day}” is no reference; one begins with parameters, steps",
        "step 'Load': a key has 1 to 64 of a-z, 0-9",
        "step 'late': max_parallel is 0; wanted a whole number, 1 to 10,000",
        "step 'early': for_each is 'nothing'; wanted a list, or such as extract.result",
        "step 'early': parameters: steps.extract.result is not there when it starts",
    ):
        assert any(each.startswith(expected) for each in told), expected


@pytest.mark.parametrize(
    "steps",
    [
        [{"key": "a", "needs": ["b"]}, {"key": "b", "needs": ["c"]}, {"key": "c", "needs": ["a"]}],
        [{"key": "a", "needs": ["a"]}],
        [{"key": "a", "needs": ["b"]}],
        [{"key": "a"}, {"key": "b", "needs": ["a", "a"]}],
        [{"key": "a", "for_each": "${steps.b.result}"}, {"key": "b"}],
        [{"key": "a"}, {"key": "b", "needs": ["a"], "when": "steps.a > 1"}],
        [{"key": "a", "parameters": {"x": "${run.day}"}}],
        [{"key": "a", "for_each": "${item}"}],
        [],
    ],
)
def test_what_the_admin_refuses_is_refused_before_it_is_sent(steps: list[dict[str, Any]]) -> None:
    executor = an_executor()
    wf = executor.workflow("wrong")
    for step in steps:
        fields = dict(step)
        wf.job(fields.pop("key"), "job", **fields)
    told = problems(executor)
    assert len(told) == 1, told
    with pytest.raises(InvalidInput):
        parse_job({"name": "wrong", "workflow": {"steps": [s | {"job": 1} for s in steps]}})


def test_a_circle_is_told_with_its_way() -> None:
    executor = an_executor()
    wf = executor.workflow("round")
    wf.job("end", "job", needs=["a"])
    wf.job("a", "job", needs=["b"])
    wf.job("b", "job", needs=["a"])
    assert problems(executor) == ["these steps would wait for each other for ever: a → b → a"]


def test_a_reference_is_no_value_yet() -> None:
    wf: Workflow = an_executor().workflow("all")
    files = wf.step("extract", extract, parameters={"day": "monday"}).result["files"]
    assert str(files[0]["any name"]) == '${steps.extract.result.files[0]["any name"]}'
    with pytest.raises(TypeError, match="use when="):
        bool(files)
    with pytest.raises(TypeError):
        list(files)
    for wrong in (-1, 'say "x"', True):
        with pytest.raises((TypeError, ValueError)):
            files[wrong]


def test_a_name_is_taken_once_and_not_after_the_start() -> None:
    executor = an_executor()
    executor.workflow("all").step("extract", "extract", parameters={"day": "monday"})
    with pytest.raises(HandlerError, match="there is a job of this name already"):
        executor.workflow("all")
    with pytest.raises(HandlerError, match="has no field 'retries'"):
        executor.workflow("other", retries=3)  # type: ignore[call-arg]
    executor.handlers.close()
    with pytest.raises(HandlerError, match="comes too late"):
        executor.workflow("late")
