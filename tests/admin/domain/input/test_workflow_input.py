"""Workflows as people write them: what is read, what is refused where, and the way back."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.job import config_from_json, config_to_json, job_to_raw, parse_job
from tickwheel_admin.domain.workflows.graph import (
    HANDLER,
    MAX_STEPS,
    HandlerStep,
    JobStep,
    Need,
    NeedOutcome,
    Tolerance,
    Wait,
)
from tickwheel_admin.services.jobs.yaml import from_yaml, to_yaml

ROOT = Path(__file__).parents[4]
A: dict[str, Any] = {"key": "a", "handler": "extract"}


def job(*steps: Any, output: Any = None, **fields: Any) -> dict[str, Any]:
    return {"name": "month-end", "workflow": {"steps": list(steps), "output": output}} | fields


def problems(raw: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as caught:
        parse_job(raw)
    return [(problem.field, problem.code) for problem in caught.value.problems]


def test_a_workflow_is_a_job_with_steps() -> None:
    config = parse_job(
        job(
            {"key": "extract", "job": 12, "parameters": {"month": "${parameters.month}"}},
            {
                "key": "convert",
                "handler": "convert",
                "needs": ["extract"],
                "for_each": {
                    "items": "${steps.extract.result.files}",
                    "max_parallel": 20,
                    "tolerate": "5%",
                },
                "parameters": {"file": "${item}"},
                "retries": 2,
            },
            {"key": "rest", "wait": {"seconds": 2.5}, "needs": ["convert"]},
            {"key": "alarm", "job": 13, "needs": [{"step": "convert", "outcome": "failed"}]},
            output="convert",
        )
    )
    assert config.handler == HANDLER
    workflow = config.workflow
    assert workflow is not None
    assert workflow.output == "convert"
    extract, convert, rest, alarm = workflow.steps
    assert extract.body == JobStep(job_id=12)
    assert isinstance(convert.body, HandlerStep)
    assert convert.body.rules.retry.retries == 2
    assert convert.for_each is not None
    assert convert.for_each.tolerance == Tolerance(percent=5)
    assert rest.body == Wait(duration_ms=2_500)
    assert alarm.needs == (Need(step="convert", outcome=NeedOutcome.FAILED),)


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (job(), [("workflow.steps", "required")]),
        (
            job(
                A
                | {
                    "parameters": {
                        "url": "${run.id}",
                        "key": "${secret.KEY}",
                        "text": "$${run.id} ${secret.KEY}",
                        "header": {"a": ["${secret.KEY}"], "b": "${item_index}"},
                        "line": "${secret.KEY} ${parameters.day}",
                    },
                    "for_each": [1],
                }
            ),
            [
                ("workflow.steps[0].parameters.header", "workflow.secret_beside_value"),
                ("workflow.steps[0].parameters.line", "workflow.secret_beside_value"),
            ],
        ),
        (job("a"), [("workflow.steps[0]", "wrong_type")]),
        (job({"key": "a"}), [("workflow.steps[0].key", "workflow.kind")]),
        (job(A | {"job": 1}), [("workflow.steps[0].handler", "workflow.kind")]),
        (job({"handler": "x"}), [("workflow.steps[0].key", "required")]),
        (job(A | {"key": "A b"}), [("workflow.steps[0].key", "workflow.key")]),
        (job(A, A), [("workflow.steps[1].key", "duplicate")]),
        (job(A | {"need": []}), [("workflow.steps[0].need", "unknown_field")]),
        (job(A | {"needs": "b"}), [("workflow.steps[0].needs", "wrong_type")]),
        (job(A | {"needs": ["b"]}), [("workflow.steps[0].needs[0]", "workflow.unknown_step")]),
        (job(A | {"needs": ["a"]}), [("workflow.steps[0].needs[0]", "workflow.circle")]),
        (
            job(A, {"key": "b", "job": 1, "needs": ["a", {"step": "a", "outcome": "failed"}]}),
            [("workflow.steps[1].needs[1]", "duplicate")],
        ),
        (
            job(A, {"key": "b", "job": 1, "needs": [{"step": "a", "outcome": "done"}]}),
            [("workflow.steps[1].needs[0].outcome", "not_one_of")],
        ),
        (job(A | {"when": "parameters.n >"}), [("workflow.steps[0].when", "workflow.condition")]),
        (job(A | {"when": "1 > 2"}), [("workflow.steps[0].when", "workflow.never")]),
        (job(A | {"for_each": "files"}), [("workflow.steps[0].for_each", "workflow.items")]),
        (
            job(A | {"for_each": {"items": [1], "tolerate": "101%"}}),
            [("workflow.steps[0].for_each.tolerate", "workflow.tolerance")],
        ),
        (
            job(A | {"for_each": {"items": [1], "max_parallel": 0}}),
            [("workflow.steps[0].for_each.max_parallel", "out_of_range")],
        ),
        (job(A | {"for_each": [0] * 10_001}), [("workflow.steps[0].for_each", "too_many")]),
        (
            job(A | {"parameters": {"x": "${month}"}}),
            [("workflow.steps[0].parameters", "workflow.reference")],
        ),
        (
            job(A | {"parameters": {"x": "${run.colour}"}}),
            [("workflow.steps[0].parameters", "workflow.reference")],
        ),
        (
            job(A | {"parameters": {"x": "${item}"}}),
            [("workflow.steps[0].parameters", "workflow.no_item")],
        ),
        (
            job(A, {"key": "b", "job": 1, "parameters": {"x": "${steps.a.result}"}}),
            [("workflow.steps[1].parameters", "workflow.not_before")],
        ),
        (
            job(A, {"key": "b", "job": 1, "when": "steps.c.state == 'failed'", "needs": ["a"]}),
            [("workflow.steps[1].when", "workflow.unknown_step")],
        ),
        (
            job(A, {"key": "b", "job": 1, "for_each": "${steps.a.files}", "needs": ["a"]}),
            [("workflow.steps[1].for_each", "workflow.reference")],
        ),
        (
            job({"key": "a", "job": 1, "parameters": {"x": "${secret.key}"}}),
            [("workflow.steps[0].parameters", "workflow.secret")],
        ),
        (
            job({"key": "a", "job": 1, "retries": 3}),
            [("workflow.steps[0].retries", "does_not_apply")],
        ),
        (
            job(A | {"handler": "script"}),
            [("workflow.steps[0].handler", "workflow.reserved_handler")],
        ),
        (job({"key": "a", "wait": {}}), [("workflow.steps[0].wait.seconds", "required")]),
        (
            job({"key": "a", "wait": {"until": "tomorrow"}}),
            [("workflow.steps[0].wait.until", "instant.invalid")],
        ),
        (
            job({"key": "a", "wait": {"seconds": 1}, "for_each": [1]}),
            [("workflow.steps[0].for_each", "does_not_apply")],
        ),
        (
            job({"key": "a", "approval": {"roles": ["boss"]}}),
            [("workflow.steps[0].approval.roles[0]", "not_one_of")],
        ),
        (
            job({"key": "a", "approval": {"silence": "approve"}}),
            [("workflow.steps[0].approval.silence", "does_not_apply")],
        ),
        (job(A, output="b"), [("workflow.output", "workflow.unknown_step")]),
        (
            job({"key": "a", "wait": {"seconds": 1}}, output="a"),
            [("workflow.output", "workflow.output")],
        ),
        (
            job(*({"key": f"s{n}", "job": 1} for n in range(MAX_STEPS + 1))),
            [("workflow.steps", "too_many")],
        ),
        (job(A, handler="other"), [("handler", "workflow.handler")]),
        ({"name": "x", "handler": "workflow"}, [("workflow", "workflow.missing")]),
        (
            job(A, routing="broadcast", retries=2),
            [("routing", "does_not_apply"), ("retries", "does_not_apply")],
        ),
        (
            job(A, script={"language": "shell", "source": "ls"}),
            [("script", "does_not_apply")],
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_field(
    raw: dict[str, Any], found: list[tuple[str, str]]
) -> None:
    assert problems(raw) == found


def test_every_problem_is_told_at_once() -> None:
    raw = job(
        {"key": "a b", "handler": "x"},
        {"key": "b", "handler": "x", "when": "("},
        {"key": "c", "handler": "x", "for_each": 1},
        priority=10,
    )
    assert problems(raw) == [
        ("workflow.steps[0].key", "workflow.key"),
        ("workflow.steps[1].when", "workflow.condition"),
        ("workflow.steps[2].for_each", "workflow.items"),
        ("priority", "out_of_range"),
    ]


def circle_told(*steps: dict[str, Any]) -> str:
    with pytest.raises(InvalidInput) as caught:
        parse_job(job(*steps))
    (problem,) = caught.value.problems
    return str(problem.params["path"])


def test_a_circle_is_told_with_its_way() -> None:
    steps = [
        {"key": "start", "job": 1},
        {"key": "a", "job": 1, "needs": ["start", "c"]},
        {"key": "b", "job": 1, "needs": ["a"]},
        {"key": "c", "job": 1, "needs": ["b"]},
        {"key": "behind", "job": 1, "needs": ["c"]},
    ]
    assert circle_told(*steps) == "a → c → b → a"
    many = [{"key": f"s{n}", "job": 1, "needs": [f"s{(n + 1) % 900}"]} for n in range(900)]
    assert circle_told(*many).endswith("s10 → … → s0")


@pytest.mark.parametrize(
    ("needs_of_b", "needs_of_c", "reachable"),
    [
        (["a"], ["a", "b"], True),
        (["a"], ["b", {"step": "a", "outcome": "failed"}], False),
        (["a"], [{"step": "b", "outcome": "failed"}, {"step": "a", "outcome": "skipped"}], False),
        (["a"], [{"step": "b", "outcome": "ended"}, {"step": "a", "outcome": "failed"}], True),
        ([{"step": "a", "outcome": "failed"}], [{"step": "b", "outcome": "skipped"}, "a"], True),
    ],
)
def test_steps_that_can_never_run_are_refused(
    needs_of_b: list[Any], needs_of_c: list[Any], reachable: bool
) -> None:
    raw = job(A, A | {"key": "b", "needs": needs_of_b}, A | {"key": "c", "needs": needs_of_c})
    if reachable:
        parse_job(raw)
    else:
        assert problems(raw) == [("workflow.steps[2].needs", "workflow.unreachable")]


def any_step(rng: Random, number: int) -> dict[str, Any]:
    before = [f"s{n}" for n in range(number)]
    needs: list[Any] = rng.sample(before, min(len(before), rng.randint(0, 3)))
    named = list(needs)
    for place in range(len(needs)):
        if rng.random() < 0.2:
            needs[place] = {"step": needs[place], "outcome": "ended"}
    step: dict[str, Any] = {"key": f"s{number}", "needs": needs}
    step |= rng.choice(
        [
            {"job": rng.randint(1, 99)},
            {"workflow": rng.randint(1, 99)},
            {"handler": "sleep", "executor": 3, "retries": 3, "retry_delay_seconds": 0.5},
            {"handler": "sleep", "routing": "shards", "shards": 4, "timeout_seconds": 60},
            {"script": {"language": "shell", "source": "echo 1\necho 2\n"}, "priority": 2},
            {"approval": {"people": ["ada"], "deadline_seconds": 60, "silence": "approve"}},
            {"approval": {}},
            {"wait": {"seconds": 0.25}},
            {"wait": {"until": "${run.scheduled_at}"}},
        ]
    )
    if named and rng.random() < 0.5:
        step["when"] = f"has(steps.{named[0]}.result.rows) or parameters.mode == 'full: #1'"
    if "wait" not in step and "approval" not in step:
        step["parameters"] = {"x": "${run.id}", "007": "007", "list": [1, 2.5, None, "no"]}
        if rng.random() < 0.5:
            items: Any = f"${{steps.{named[0]}.result}}" if named else ["yes", {"a": 1}]
            parallel = rng.choice([None, 3])
            tolerate = rng.choice([0, 2, "all", "12.5%"])
            step["for_each"] = {"items": items, "max_parallel": parallel, "tolerate": tolerate}
            step["parameters"]["item"] = "${item}"
    if rng.random() < 0.2:
        step |= {"pause_before": True, "description": "First line\nsecond: line"}
    return step


def test_every_way_back_gives_the_same_workflow() -> None:
    rng = Random(22)
    for _ in range(60):
        raw = job(*(any_step(rng, number) for number in range(rng.randint(1, 12))))
        config = parse_job(raw)
        assert parse_job(job_to_raw(config)) == config
        assert parse_job(from_yaml(to_yaml(job_to_raw(config)))) == config
        assert config_from_json(config_to_json(config)) == config


def test_the_examples_of_the_documents_are_workflows() -> None:
    text = (ROOT / "docs/workflows.md").read_text()
    examples = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 1
    for example in examples:
        config = parse_job(from_yaml(example))
        assert parse_job(from_yaml(to_yaml(job_to_raw(config)))) == config


def test_a_workflow_itself_takes_no_secrets() -> None:
    daily = {"kind": "cron", "expression": "0 2 * * *", "parameters": {"key": "${secret.key}"}}
    raw = job(A, parameters={"token": "Bearer ${secret.token}"}, triggers=[daily])
    assert problems(raw) == [
        ("parameters", "workflow.secret"),
        ("triggers[0].parameters", "workflow.secret"),
    ]
    step = A | {"parameters": {"token": "${secret.token}"}}
    assert parse_job(job(step)).workflow is not None
